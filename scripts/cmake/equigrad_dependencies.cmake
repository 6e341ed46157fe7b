# What the static libraries are linked with. Read by the build and, installed beside the package configuration, by
# consumers: one list, so the two cannot drift apart. The reader defines equigrad_find: find_package or find_dependency.

equigrad_find(PkgConfig)
equigrad_find(Threads)
equigrad_find(fmt)
equigrad_find(hwy)
if(EQUIGRAD_ARCHIVE)
  equigrad_find(LibArchive)
endif()
set(ZLIB_USE_STATIC_LIBS ${EQUIGRAD_STATIC})
equigrad_find(ZLIB)
equigrad_find(nlohmann_json)
if(EQUIGRAD_PARALLEL STREQUAL "tbb")
  equigrad_find(TBB)
endif()

# pkg-config, because Debian's OpenBLASConfig.cmake names one of its three flavours and libsodium has no CMake package.
foreach(module IN ITEMS OPENBLAS=openblas SODIUM=libsodium)
  string(REPLACE "=" ";" module ${module})
  list(POP_FRONT module prefix)
  if(NOT TARGET PkgConfig::${prefix})
    pkg_check_modules(${prefix} REQUIRED QUIET IMPORTED_TARGET GLOBAL ${module})
  endif()
endforeach()
if(EQUIGRAD_STATIC)
  find_library(EQUIGRAD_SODIUM_ARCHIVE libsodium.a REQUIRED)
  set_target_properties(PkgConfig::SODIUM PROPERTIES INTERFACE_LINK_LIBRARIES ${EQUIGRAD_SODIUM_ARCHIVE})
endif()
