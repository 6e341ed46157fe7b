// Opens cuBLASLt: the file that EQUIGRAD_CUBLASLT names, what the loader finds, or CUDA's folder.

#include "core/cuda/cublaslt.h"

#include <cstdlib>
#include <dlfcn.h>

namespace eg::cuda {
namespace {

bool open(CublasLt& lt, const std::string& path) {
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  const char* missing = nullptr;
#define EG_LT_SYMBOL(NAME)                                                                                             \
  if (library != nullptr && missing == nullptr) {                                                                      \
    lt.NAME = reinterpret_cast<decltype(lt.NAME)>(dlsym(library, #NAME));                                              \
    if (lt.NAME == nullptr) missing = #NAME;                                                                           \
  }
  EG_LT_FUNCTIONS(EG_LT_SYMBOL)
#undef EG_LT_SYMBOL
  if (library != nullptr && missing == nullptr) {
    lt.failures.clear();
    return true;
  }
  lt.failures += (lt.failures.empty() ? "" : "; ") + path + ": " +
                 (library == nullptr ? dlerror() : std::string("it has no ") + missing);
  if (library != nullptr) dlclose(library);
  return false;
}

CublasLt opened() {
  CublasLt lt;
  const char* const wished = std::getenv("EQUIGRAD_CUBLASLT");
  if (wished != nullptr && *wished != '\0') {
    open(lt, wished);
    return lt;
  }
  const std::string name = "libcublasLt.so." + std::to_string(CUBLAS_VER_MAJOR);
  if (!open(lt, name)) open(lt, "/usr/local/cuda/lib64/" + name);
  return lt;
}

} // namespace

const CublasLt& cublaslt() {
  static const CublasLt lt = opened();
  return lt;
}

} // namespace eg::cuda
