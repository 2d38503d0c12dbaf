# Toolchain of the preset aarch64: Debian's cross compiler, and qemu to run what it made. Libraries beyond libc lie in
# ZLINK_AARCH64_ROOT, which tools/aarch64.sh fills.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)

set(CMAKE_TRY_COMPILE_PLATFORM_VARIABLES ZLINK_AARCH64_ROOT)
set(CMAKE_C_FLAGS_INIT "-isystem ${ZLINK_AARCH64_ROOT}/usr/include")
set(CMAKE_EXE_LINKER_FLAGS_INIT "-L${ZLINK_AARCH64_ROOT}/usr/lib/aarch64-linux-gnu")
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)

set(CMAKE_CROSSCOMPILING_EMULATOR
    qemu-aarch64 -L /usr/aarch64-linux-gnu -E LD_LIBRARY_PATH=${ZLINK_AARCH64_ROOT}/usr/lib/aarch64-linux-gnu)
