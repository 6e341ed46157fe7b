# One library target per folder ("room"). A room sees the headers of the rooms it depends on and no others, so a wrong
# include is a build error: each target's include directory holds a link to its own folder alone.

function(equigrad_options target)
  target_compile_features(${target} PUBLIC cxx_std_20)
  set_target_properties(${target} PROPERTIES CXX_EXTENSIONS OFF POSITION_INDEPENDENT_CODE ON)
  # Contraction would let the compiler fuse a*b+c in one place and not in another: the same sum would differ.
  target_compile_options(${target} PRIVATE -Wall -Wextra -Wpedantic -Wshadow -Wconversion -ffp-contract=off)
  if(EQUIGRAD_WERROR)
    target_compile_options(${target} PRIVATE -Werror)
  endif()
  if(EQUIGRAD_NATIVE)
    target_compile_options(${target} PRIVATE -mtune=native)
  endif()
  if(EQUIGRAD_SANITIZE)
    target_compile_options(${target} PRIVATE -fsanitize=${EQUIGRAD_SANITIZE} -fno-omit-frame-pointer
                                             -fno-sanitize-recover=all)
    target_link_options(${target} PRIVATE -fsanitize=${EQUIGRAD_SANITIZE})
  endif()
endfunction()

# equigrad_room(name DEPENDS rooms...): library equigrad_<name> from every source below the folder.
function(equigrad_room name)
  cmake_parse_arguments(ROOM "" "" "DEPENDS" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cpp)
  add_library(equigrad_${name} STATIC ${sources})
  add_library(equigrad::${name} ALIAS equigrad_${name})
  equigrad_options(equigrad_${name})
  set(rooms ${PROJECT_BINARY_DIR}/rooms/${name})
  file(MAKE_DIRECTORY ${rooms})
  file(CREATE_LINK ${CMAKE_CURRENT_SOURCE_DIR} ${rooms}/${name} SYMBOLIC)
  target_include_directories(equigrad_${name} PUBLIC $<BUILD_INTERFACE:${rooms}>
                                                     $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}/equigrad>)
  foreach(room ${ROOM_DEPENDS})
    target_link_libraries(equigrad_${name} PUBLIC equigrad_${room})
  endforeach()
endfunction()
