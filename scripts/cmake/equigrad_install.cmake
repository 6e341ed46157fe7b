# Install rules: headers to include/equigrad/<room>, static libraries, the package configuration, the program.

include(CMakePackageConfigHelpers)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/equigrad)

get_property(library_rooms GLOBAL PROPERTY EQUIGRAD_LIBRARY_ROOMS)
foreach(room IN LISTS library_rooms)
  list(APPEND room_targets equigrad_${room})
  get_property(path GLOBAL PROPERTY EQUIGRAD_ROOM_PATH_${room})
  if(NOT path MATCHES "/") # what lies in a room's folder comes with it
    install(
      DIRECTORY ${PROJECT_SOURCE_DIR}/${path}
      DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/equigrad
      FILES_MATCHING
      PATTERN "*.h"
      PATTERN "*-inl.h" EXCLUDE)
  endif()
endforeach()
install(FILES ${PROJECT_SOURCE_DIR}/include/equigrad/equigrad.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/equigrad)
install(TARGETS ${room_targets} equigrad_umbrella EXPORT equigrad_targets)
install(
  EXPORT equigrad_targets
  NAMESPACE equigrad::
  FILE equigrad-targets.cmake
  DESTINATION ${package_dir})

configure_package_config_file(${PROJECT_SOURCE_DIR}/scripts/cmake/equigrad-config.cmake.in
                              ${PROJECT_BINARY_DIR}/equigrad-config.cmake INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/equigrad-config-version.cmake COMPATIBILITY SameMinorVersion)
install(
  FILES ${PROJECT_BINARY_DIR}/equigrad-config.cmake ${PROJECT_BINARY_DIR}/equigrad-config-version.cmake
        ${PROJECT_SOURCE_DIR}/scripts/cmake/equigrad_dependencies.cmake
  DESTINATION ${package_dir})
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
if(TARGET equigrad_cli)
  install(TARGETS equigrad_cli COMPONENT apps)
  # The explorer, where scripts/explorer.sh has built it: `equigrad explore` reads it.
  install(
    FILES ${PROJECT_SOURCE_DIR}/build/explorer/explorer.html
    DESTINATION ${CMAKE_INSTALL_DATADIR}/equigrad
    COMPONENT apps OPTIONAL)
endif()
