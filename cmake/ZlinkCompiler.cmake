# The one place for compiler settings. Every target of the project links zlink_compile.
set(CMAKE_C_STANDARD 11)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_C_VISIBILITY_PRESET hidden)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

# Assertions stay in what is shipped: a node that stops is better than one that goes on with a broken invariant.
set(CMAKE_C_FLAGS_RELEASE "-O2 -g" CACHE STRING "" FORCE)

option(ZLINK_WERROR "Warnings are errors" ON)
set(ZLINK_SANITIZE "" CACHE STRING "address (with undefined), thread, fuzzer (with address), or empty")

find_package(Threads REQUIRED)

add_library(zlink_compile INTERFACE)
target_compile_options(zlink_compile INTERFACE
  -Wall -Wextra -Wshadow -Wconversion -Wstrict-prototypes -Wmissing-prototypes -Wpointer-arith -Wcast-qual
  -fno-omit-frame-pointer -fstack-protector-strong)
target_compile_definitions(zlink_compile INTERFACE _GNU_SOURCE)
target_include_directories(zlink_compile INTERFACE ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/include)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64")
  target_compile_options(zlink_compile INTERFACE -mcx16 -fcf-protection=none)
endif()
if(ZLINK_WERROR)
  target_compile_options(zlink_compile INTERFACE -Werror)
endif()
if(ZLINK_SANITIZE STREQUAL "address")
  target_compile_options(zlink_compile INTERFACE -fsanitize=address,undefined -fno-sanitize-recover=undefined)
  target_link_options(zlink_compile INTERFACE -fsanitize=address,undefined)
elseif(ZLINK_SANITIZE STREQUAL "thread")
  target_compile_options(zlink_compile INTERFACE -fsanitize=thread)
  target_link_options(zlink_compile INTERFACE -fsanitize=thread)
elseif(ZLINK_SANITIZE STREQUAL "fuzzer")
  target_compile_options(zlink_compile INTERFACE -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=undefined)
  target_link_options(zlink_compile INTERFACE -fsanitize=address,undefined)
endif()
