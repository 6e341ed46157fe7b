# Install rules: headers to include/equigrad/<room>, static libraries, the package configuration, the program.

include(CMakePackageConfigHelpers)
set(CMAKE_INSTALL_DEFAULT_COMPONENT_NAME library)

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
  # The manual page, where scripts/release.sh has written it.
  install(
    FILES ${PROJECT_BINARY_DIR}/equigrad.1
    DESTINATION ${CMAKE_INSTALL_MANDIR}/man1
    COMPONENT apps OPTIONAL)
  # The explorer, where scripts/explorer.sh has built it: `equigrad explore` reads it.
  install(
    FILES ${PROJECT_SOURCE_DIR}/build/explorer/explorer.html
    DESTINATION ${CMAKE_INSTALL_DATADIR}/equigrad
    COMPONENT apps OPTIONAL)
endif()

# Debian packages (scripts/release.sh deb): the program, and the library to link with.
if(PROJECT_IS_TOP_LEVEL AND TARGET equigrad_cli)
  set(CPACK_GENERATOR DEB)
  set(CPACK_PACKAGE_NAME equigrad)
  set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
  set(CPACK_PACKAGE_CONTACT "the authors of equigrad <equigrad@localhost>")
  set(CPACK_DEBIAN_PACKAGE_SECTION science)
  set(CPACK_DEB_COMPONENT_INSTALL ON)
  set(CPACK_COMPONENTS_ALL apps library)
  set(CPACK_STRIP_FILES ON)
  set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
  set(CPACK_DEBIAN_APPS_PACKAGE_NAME equigrad)
  set(CPACK_DEBIAN_APPS_PACKAGE_SHLIBDEPS ON)
  # Opened while the program runs, where it is there.
  set(CPACK_DEBIAN_APPS_PACKAGE_RECOMMENDS "libopenblas0, libcurl4, ca-certificates")
  set(CPACK_DEBIAN_APPS_DESCRIPTION "deep-learning framework that makes permutation theorems executable
 Trains transformers, checks how they commute with permutations of tokens and features, and permutes model folders.")
  set(CPACK_DEBIAN_LIBRARY_PACKAGE_NAME libequigrad-dev)
  set(CPACK_DEBIAN_LIBRARY_PACKAGE_SECTION libdevel)
  # What equigrad_dependencies.cmake looks for.
  set(CPACK_DEBIAN_LIBRARY_PACKAGE_DEPENDS
      "pkg-config, libfmt-dev, libhwy-dev, libarchive-dev, zlib1g-dev, nlohmann-json3-dev, libtbb-dev, libopenblas-dev, libsodium-dev")
  set(CPACK_DEBIAN_LIBRARY_DESCRIPTION "deep-learning framework that makes permutation theorems executable (C++ library)
 Static libraries, headers and the CMake package equigrad.")
  # Each module of an MPI alone: who installs the program need not install an MPI, and two of them seldom go together.
  get_property(mpis GLOBAL PROPERTY EQUIGRAD_MPI_FOUND)
  foreach(mpi IN LISTS mpis)
    list(APPEND CPACK_COMPONENTS_ALL ${mpi})
    string(TOUPPER ${mpi} component)
    set(CPACK_DEBIAN_${component}_PACKAGE_NAME equigrad-${mpi})
    set(CPACK_DEBIAN_${component}_PACKAGE_SHLIBDEPS ON)
    set(CPACK_DEBIAN_${component}_PACKAGE_DEPENDS "equigrad (= ${PROJECT_VERSION})")
    set(CPACK_DEBIAN_${component}_DESCRIPTION "equigrad's training on several processes by ${mpi}
 The module that the program opens when this MPI's mpirun has started it.")
  endforeach()
  include(CPack)
endif()
