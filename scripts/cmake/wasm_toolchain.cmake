# WebAssembly by Debian's emscripten (package `emscripten`), with vectors and the processor's own exceptions.

find_program(EQUIGRAD_EM_CONFIG em-config REQUIRED)
if(NOT DEFINED EMSCRIPTEN_ROOT_PATH)
  execute_process(COMMAND ${EQUIGRAD_EM_CONFIG} EMSCRIPTEN_ROOT OUTPUT_VARIABLE EMSCRIPTEN_ROOT_PATH
                  OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
endif()
set(CMAKE_CXX_FLAGS_INIT "-msimd128 -fwasm-exceptions")
set(CMAKE_EXE_LINKER_FLAGS_INIT "-fwasm-exceptions")
# Programs of the build run through a loader that first asks Node what it can do.
find_program(EQUIGRAD_NODE NAMES node nodejs REQUIRED)
set(CMAKE_CROSSCOMPILING_EMULATOR ${EQUIGRAD_NODE} ${CMAKE_CURRENT_LIST_DIR}/../wasm/run.js)
include(${EMSCRIPTEN_ROOT_PATH}/cmake/Modules/Platform/Emscripten.cmake)
