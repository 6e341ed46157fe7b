# What the static libraries are linked with. Read by the build and, installed beside the package configuration, by
# consumers: one list, so the two cannot drift apart.

include(CMakeFindDependencyMacro)

find_dependency(PkgConfig)
find_dependency(Threads)
find_dependency(fmt)
find_dependency(hwy)
find_dependency(LibArchive)
find_dependency(nlohmann_json)
if(EQUIGRAD_PARALLEL STREQUAL "tbb")
  find_dependency(TBB)
endif()

# pkg-config, because Debian's OpenBLASConfig.cmake names one of its three flavours and libsodium has no CMake package.
foreach(module IN ITEMS OPENBLAS=openblas SODIUM=libsodium)
  string(REPLACE "=" ";" module ${module})
  list(POP_FRONT module prefix)
  if(NOT TARGET PkgConfig::${prefix})
    pkg_check_modules(${prefix} REQUIRED QUIET IMPORTED_TARGET GLOBAL ${module})
  endif()
endforeach()
