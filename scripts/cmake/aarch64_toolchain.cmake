# ARM64 Linux by Debian's cross compiler (package g++-aarch64-linux-gnu), with the libraries of an ARM64 Debian that
# is unpacked in EQUIGRAD_ARM_ROOT (arm_root in scripts/common.sh makes it). Programs of the build run in qemu-user.

set(EQUIGRAD_ARM_ROOT "${CMAKE_CURRENT_LIST_DIR}/../../build/arm64-root" CACHE PATH "An unpacked ARM64 Debian 12")
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES EQUIGRAD_ARM_ROOT)
cmake_path(ABSOLUTE_PATH EQUIGRAD_ARM_ROOT NORMALIZE OUTPUT_VARIABLE root)
if(NOT EXISTS ${root}/usr/include/stdio.h)
  message(FATAL_ERROR "there is no ARM64 Debian in ${root}: `./test.sh arm` unpacks one, or set EQUIGRAD_ARM_ROOT")
endif()

set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)
set(CMAKE_SYSROOT ${root})
set(CMAKE_FIND_ROOT_PATH ${root})
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE BOTH) # nanobind is the build's own; libraries are looked for in the root first
set(ENV{PKG_CONFIG_SYSROOT_DIR} ${root})
# OpenBLAS's is where an alternative would lead to it if packages were configured.
set(libraries ${root}/usr/lib/aarch64-linux-gnu)
set(ENV{PKG_CONFIG_LIBDIR} ${libraries}/pkgconfig:${libraries}/openblas-pthread/pkgconfig:${root}/usr/share/pkgconfig)
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64 -L ${root})
