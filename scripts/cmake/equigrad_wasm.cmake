# What the build for WebAssembly is made with: libraries of Debian that are headers and so the same for every processor,
# and nothing else. Their folders are linked into one of the build's own, because /usr/include is another C library's.
set(tree ${PROJECT_BINARY_DIR}/include)
file(MAKE_DIRECTORY ${tree})
foreach(header IN ITEMS fmt/format.h hwy/highway.h nlohmann/json.hpp stb/stb_image.h doctest/doctest.h)
  cmake_path(GET header PARENT_PATH folder)
  find_path(EQUIGRAD_WASM_${folder} ${header} PATHS /usr/include REQUIRED NO_DEFAULT_PATH NO_CMAKE_FIND_ROOT_PATH)
  file(CREATE_LINK ${EQUIGRAD_WASM_${folder}}/${folder} ${tree}/${folder} SYMBOLIC)
endforeach()

include_directories(SYSTEM ${tree} ${PROJECT_SOURCE_DIR}/scripts/wasm/include)
# libc++ 13 is older than parts of the C++20 that the sources are written in.
add_compile_options(-include ${PROJECT_SOURCE_DIR}/scripts/wasm/standard.h)

foreach(library IN ITEMS fmt nlohmann_json doctest)
  add_library(${library}::${library} INTERFACE IMPORTED GLOBAL)
endforeach()
target_compile_definitions(fmt::fmt INTERFACE FMT_HEADER_ONLY=1)
# Highway 1.0.3 has no vectors of doubles for WebAssembly. Its plain loops over 128 bits have; LLVM makes SIMD128 of them.
add_library(equigrad_hwy STATIC ${PROJECT_SOURCE_DIR}/scripts/wasm/highway.cpp)
target_compile_definitions(equigrad_hwy PUBLIC HWY_COMPILE_ONLY_EMU128)
add_library(hwy::hwy ALIAS equigrad_hwy)
# A header of our own for the one function that is needed of it (scripts/wasm/include/sodium.h).
add_library(PkgConfig::SODIUM INTERFACE IMPORTED GLOBAL)

set(EQUIGRAD_WASM_MEMORY -sALLOW_MEMORY_GROWTH=1 -sMAXIMUM_MEMORY=4GB -sTOTAL_STACK=8MB)

# equigrad_node_program(target): a program that runs under Node and sees its files.
function(equigrad_node_program target)
  target_link_options(${target} PRIVATE ${EQUIGRAD_WASM_MEMORY} -sENVIRONMENT=node -sNODERAWFS=1 -sEXIT_RUNTIME=1
                      -O1) # linked faster; its code is compiled already
endfunction()

# equigrad_page_program(target): a program for a page, its worker or Node; its files are in memory.
function(equigrad_page_program target)
  target_link_options(${target} PRIVATE ${EQUIGRAD_WASM_MEMORY} -sENVIRONMENT=web,worker,node -sEXIT_RUNTIME=1)
endfunction()
