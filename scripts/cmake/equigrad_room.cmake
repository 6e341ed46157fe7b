# One library target per folder ("room"). A room sees the headers of the rooms it depends on and no others, so a wrong
# include is a build error: each target's include directory holds a link to its own folder alone.

# What most files include, for precompiled headers.
set(EQUIGRAD_COMMON_HEADERS
    <algorithm>
    <array>
    <chrono>
    <cmath>
    <cstdint>
    <cstring>
    <filesystem>
    <functional>
    <limits>
    <map>
    <memory>
    <numeric>
    <optional>
    <set>
    <span>
    <string>
    <string_view>
    <unordered_map>
    <utility>
    <variant>
    <vector>
    <fmt/format.h>
    <nlohmann/json.hpp>)

set(equigrad_has_avx512 ON) # unless the system says otherwise
if(EXISTS /proc/cpuinfo)
  file(STRINGS /proc/cpuinfo processors_with_avx512 REGEX "^flags.* avx512f" LIMIT_COUNT 1)
  if(NOT processors_with_avx512)
    set(equigrad_has_avx512 OFF)
  endif()
endif()

# Language level, warnings, floating-point rules and sanitizers: for every target of this project.
function(equigrad_options target)
  target_compile_features(${target} PUBLIC cxx_std_20)
  set_target_properties(${target} PROPERTIES CXX_EXTENSIONS OFF POSITION_INDEPENDENT_CODE ON)
  # Contraction would let the compiler fuse a*b+c in one place and not in another: the same sum would differ.
  target_compile_options(${target} PRIVATE -Wall -Wextra -Wpedantic -Wshadow -Wconversion -ffp-contract=off)
  if(EMSCRIPTEN) # lengths are counted in 64 bits and addressed with 32; a program is one file, which nothing moves
    target_compile_options(${target} PRIVATE -Wno-shorten-64-to-32)
    set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
  endif()
  # GCC 12 sees these in inlined code of its own library (GCC bugs 105329, 105562 and 105651); AddressSanitizer looks
  # for the real thing.
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
    target_compile_options(${target} PRIVATE -Wno-array-bounds -Wno-stringop-overflow -Wno-stringop-overread
                                             -Wno-restrict)
    if(EQUIGRAD_SANITIZE)
      target_compile_options(${target} PRIVATE -Wno-maybe-uninitialized)
    endif()
  endif()
  if(CMAKE_SYSTEM_PROCESSOR STREQUAL "aarch64" AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    target_compile_options(${target} PRIVATE -Wno-psabi) # notes about what GCC 10 changed
  endif()
  if(EQUIGRAD_UNITY) # files compiled as one see each other's names; the preset `dev` compiles each alone and warns
    target_compile_options(${target} PRIVATE -Wno-shadow
                                             $<$<CXX_COMPILER_ID:GNU>:-Wshadow=local;-Wno-subobject-linkage>)
  endif()
  if(EQUIGRAD_WERROR)
    target_compile_options(${target} PRIVATE -Werror)
  endif()
  if(EQUIGRAD_NATIVE)
    target_compile_options(${target} PRIVATE -mtune=native)
  endif()
  if(EQUIGRAD_SANITIZE)
    target_compile_options(${target} PRIVATE -fsanitize=${EQUIGRAD_SANITIZE} -fno-omit-frame-pointer
                                             -fno-sanitize-recover=all)
    # What this one sees, AddressSanitizer sees when it is done; it costs a tenth of the time to compile.
    target_compile_options(${target} PRIVATE -fno-sanitize=object-size ${EQUIGRAD_SANITIZE_OPTIONS})
    # With these three GCC takes the address of a lambda for possibly null, so that op rows are no constants; a null
    # pointer that is used still ends in AddressSanitizer's report.
    target_compile_options(${target} PRIVATE
        $<$<CXX_COMPILER_ID:GNU>:-fno-sanitize=null,nonnull-attribute,returns-nonnull-attribute>)
    # What is sanitized runs where it is built: kernels that this processor cannot run are not compiled.
    if(CMAKE_SYSTEM_PROCESSOR STREQUAL "x86_64" AND NOT equigrad_has_avx512)
      target_compile_definitions(${target} PRIVATE EQUIGRAD_UNUSED_TARGETS=HWY_AVX3)
    endif()
    target_link_options(${target} PRIVATE -fsanitize=${EQUIGRAD_SANITIZE})
  endif()
endfunction()

# equigrad_precompiled(): a target whose precompiled header, the headers that nearly every file reads, the rooms share. They
# are other projects' alone, so rooms still see no more of each other than they depend on. A file names what it uses all
# the same: the preset `tidy` builds without precompiled headers.
function(equigrad_precompiled)
  file(CONFIGURE OUTPUT precompiled.cpp CONTENT "") # a precompiled header belongs to a target with a source
  add_library(equigrad_precompiled OBJECT ${CMAKE_CURRENT_BINARY_DIR}/precompiled.cpp)
  equigrad_options(equigrad_precompiled)
  target_link_libraries(equigrad_precompiled PRIVATE fmt::fmt nlohmann_json::nlohmann_json)
  target_precompile_headers(equigrad_precompiled PRIVATE ${EQUIGRAD_COMMON_HEADERS})
endfunction()

# equigrad_unity(target): eight files are compiled as one, which takes a third of the time. Files with SIMD kernels, which
# are compiled once for each kind of processor, stay alone.
function(equigrad_unity target)
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 8)
  get_target_property(sources ${target} SOURCES)
  list(FILTER sources INCLUDE REGEX "_simd\\.cpp$")
  if(sources)
    set_source_files_properties(${sources} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  endif()
endfunction()

# equigrad_room_headers(name): the folder ROOMS/name, in which #include "PATH/header.h" finds this folder's headers under
# its path from the root, and no others. Nested folders that are rooms of their own are left out.
function(equigrad_room_headers name)
  cmake_path(RELATIVE_PATH CMAKE_CURRENT_SOURCE_DIR BASE_DIRECTORY ${PROJECT_SOURCE_DIR} OUTPUT_VARIABLE path)
  set(tree ${PROJECT_BINARY_DIR}/rooms/${name}/${path})
  file(REMOVE_RECURSE ${PROJECT_BINARY_DIR}/rooms/${name})
  file(MAKE_DIRECTORY ${tree})
  file(GLOB entries CONFIGURE_DEPENDS LIST_DIRECTORIES true ${CMAKE_CURRENT_SOURCE_DIR}/*)
  foreach(entry IN LISTS entries)
    cmake_path(GET entry FILENAME entry_name)
    if(NOT EXISTS ${entry}/CMakeLists.txt AND (IS_DIRECTORY ${entry} OR entry_name MATCHES "(\\.h|_simd\\.cpp)$"))
      file(CREATE_LINK ${entry} ${tree}/${entry_name} SYMBOLIC)
    endif()
  endforeach()
endfunction()

# equigrad_room(name [LIGHT] [DEPENDS rooms...] [LEAVES sources...] [TAKES sources...] [OMITS sources...]
#               [PRECOMPILE headers... | PRECOMPILED_BY room]): library equigrad_<name> from every source below the folder.
# Folders in it that have a CMakeLists.txt are targets of their own. A room sees the rooms it depends on, and theirs.
#   LEAVES          sources of this folder that a room above TAKES, because they need it, while their headers stay here
#   OMITS           sources that this build does without
#   PRECOMPILE      a precompiled header of its own instead of the one that rooms share
#   PRECOMPILED_BY  the precompiled header of another room
#   LIGHT           it leaves its time in others' kernels, and is compiled with -O1, in two thirds of the time
function(equigrad_room name)
  cmake_parse_arguments(ROOM "LIGHT" "PRECOMPILED_BY" "DEPENDS;LEAVES;TAKES;OMITS;PRECOMPILE" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cpp)
  file(GLOB nested CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*/CMakeLists.txt)
  foreach(list_file IN LISTS nested)
    cmake_path(GET list_file PARENT_PATH folder)
    list(FILTER sources EXCLUDE REGEX "^${folder}/")
  endforeach()
  foreach(source IN LISTS ROOM_LEAVES ROOM_OMITS)
    if(NOT EXISTS ${CMAKE_CURRENT_SOURCE_DIR}/${source}) # a misspelt name would leave nothing out
      message(FATAL_ERROR "room ${name} leaves or omits ${source}, and there is no such file")
    endif()
    list(REMOVE_ITEM sources ${CMAKE_CURRENT_SOURCE_DIR}/${source})
  endforeach()
  add_library(equigrad_${name} STATIC ${sources} ${ROOM_TAKES})
  add_library(equigrad::${name} ALIAS equigrad_${name})
  set_target_properties(equigrad_${name} PROPERTIES EXPORT_NAME ${name})
  # Not the core: its operations are alike on purpose, down to the names of what each file keeps to itself.
  if(EQUIGRAD_UNITY AND NOT name STREQUAL "core")
    equigrad_unity(equigrad_${name})
  endif()
  equigrad_options(equigrad_${name})
  if(ROOM_LIGHT AND NOT EMSCRIPTEN) # there the size on the wire counts: CMakePresets.json
    target_compile_options(equigrad_${name} PRIVATE $<$<CONFIG:Release>:-O1>)
  endif()
  if(ROOM_PRECOMPILE)
    target_precompile_headers(equigrad_${name} PRIVATE ${ROOM_PRECOMPILE})
  elseif(ROOM_PRECOMPILED_BY)
    target_precompile_headers(equigrad_${name} REUSE_FROM equigrad_${ROOM_PRECOMPILED_BY})
  else()
    target_precompile_headers(equigrad_${name} REUSE_FROM equigrad_precompiled)
  endif()
  equigrad_room_headers(${name})
  target_include_directories(
    equigrad_${name}
    PUBLIC $<BUILD_INTERFACE:${PROJECT_BINARY_DIR}/rooms/${name}> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>
           $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}/equigrad>)
  foreach(room IN LISTS ROOM_DEPENDS)
    target_link_libraries(equigrad_${name} PUBLIC equigrad_${room})
  endforeach()
  cmake_path(RELATIVE_PATH CMAKE_CURRENT_SOURCE_DIR BASE_DIRECTORY ${PROJECT_SOURCE_DIR} OUTPUT_VARIABLE path)
  set_property(GLOBAL APPEND PROPERTY EQUIGRAD_ROOMS ${name})
  set_property(GLOBAL PROPERTY EQUIGRAD_ROOM_PATH_${name} ${path})
  set_property(GLOBAL PROPERTY EQUIGRAD_ROOM_DEPENDS_${name} "${ROOM_DEPENDS}")
endfunction()

# equigrad_umbrella(): equigrad::equigrad over all rooms so far, with <equigrad/equigrad.h> and <equigrad/ROOM/...>
# laid out in the build tree as they are in an install tree.
function(equigrad_umbrella)
  add_library(equigrad_umbrella INTERFACE)
  add_library(equigrad::equigrad ALIAS equigrad_umbrella)
  set_target_properties(equigrad_umbrella PROPERTIES EXPORT_NAME equigrad)
  set(tree ${PROJECT_BINARY_DIR}/rooms/umbrella)
  file(MAKE_DIRECTORY ${tree}/equigrad)
  file(CREATE_LINK ${PROJECT_SOURCE_DIR}/include/equigrad/equigrad.h ${tree}/equigrad/equigrad.h SYMBOLIC)
  get_property(rooms GLOBAL PROPERTY EQUIGRAD_ROOMS)
  foreach(room IN LISTS rooms)
    get_property(path GLOBAL PROPERTY EQUIGRAD_ROOM_PATH_${room})
    if(NOT path MATCHES "/") # what lies in a room's folder comes with it
      file(CREATE_LINK ${PROJECT_SOURCE_DIR}/${path} ${tree}/equigrad/${path} SYMBOLIC)
    endif()
    target_link_libraries(equigrad_umbrella INTERFACE equigrad_${room})
  endforeach()
  set_property(GLOBAL PROPERTY EQUIGRAD_LIBRARY_ROOMS "${rooms}")
  target_include_directories(equigrad_umbrella INTERFACE $<BUILD_INTERFACE:${tree}>
                                                         $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
endfunction()

# equigrad_write_rooms(): ROOMS/rooms.txt, a line "NAME PATH DEPENDS..." for each room, from which docs/rooms.svg is drawn.
function(equigrad_write_rooms)
  set(lines "")
  get_property(rooms GLOBAL PROPERTY EQUIGRAD_ROOMS)
  foreach(room IN LISTS rooms)
    get_property(path GLOBAL PROPERTY EQUIGRAD_ROOM_PATH_${room})
    get_property(depends GLOBAL PROPERTY EQUIGRAD_ROOM_DEPENDS_${room})
    list(JOIN depends " " depends)
    string(APPEND lines "${room} ${path} ${depends}\n")
  endforeach()
  file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/rooms/rooms.txt CONTENT "${lines}" @ONLY)
endfunction()
