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

# What stands behind malloc. mimalloc gives memory back across threads without a lock, which is what messages do; sanitizers
# bring their own.
if(ZLINK_SANITIZE STREQUAL "" AND NOT CMAKE_CROSSCOMPILING)
  set(ZLINK_ALLOCATOR_DEFAULT mimalloc)
else()
  set(ZLINK_ALLOCATOR_DEFAULT libc)
endif()
set(ZLINK_ALLOCATOR ${ZLINK_ALLOCATOR_DEFAULT} CACHE STRING "mimalloc or libc")
add_library(zlink_allocator INTERFACE)
if(ZLINK_ALLOCATOR STREQUAL "mimalloc")
  find_library(ZLINK_MIMALLOC NAMES mimalloc REQUIRED)
  # Named by every program itself, before libc: then all of the process has one heap, modules included.
  target_link_libraries(zlink_allocator INTERFACE -Wl,--no-as-needed ${ZLINK_MIMALLOC} -Wl,--as-needed)
  target_compile_definitions(zlink_allocator INTERFACE ZLINK_MIMALLOC)
elseif(NOT ZLINK_ALLOCATOR STREQUAL "libc")
  message(FATAL_ERROR "ZLINK_ALLOCATOR is mimalloc or libc, not '${ZLINK_ALLOCATOR}'")
endif()

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
