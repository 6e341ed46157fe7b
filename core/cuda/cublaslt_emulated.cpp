// The emulated module multiplies by its own kernel, which has the bits of the CPU's products; by the emulated cuBLASLt
// only where EQUIGRAD_CUDA_GEMM=cublaslt asks for it.

#include "core/cuda/cublaslt.h"

#include <cstdlib>
#include <cstring>

namespace eg::cuda {

const CublasLt& cublaslt() {
  static const CublasLt lt = [] {
    CublasLt found;
    const char* const wished = std::getenv("EQUIGRAD_CUDA_GEMM");
    if (wished == nullptr || std::strcmp(wished, "cublaslt") != 0) {
      found.failures = "the emulated module opens cuBLASLt where EQUIGRAD_CUDA_GEMM=cublaslt asks for it";
      return found;
    }
#define EG_LT_SYMBOL(NAME) found.NAME = &::NAME;
    EG_LT_FUNCTIONS(EG_LT_SYMBOL)
#undef EG_LT_SYMBOL
    return found;
  }();
  return lt;
}

} // namespace eg::cuda
