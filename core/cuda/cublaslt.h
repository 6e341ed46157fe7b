#pragma once
// Declares the functions of cuBLASLt that products use. Two twins find them: CUDA's library, and the emulated one.

#include <cublasLt.h>
#include <string>

namespace eg::cuda {

#define EG_LT_FUNCTIONS(X)                                                                                             \
  X(cublasLtCreate)                                                                                                    \
  X(cublasLtGetStatusString)                                                                                           \
  X(cublasLtMatmul)                                                                                                    \
  X(cublasLtMatmulAlgoGetHeuristic)                                                                                    \
  X(cublasLtMatmulDescCreate)                                                                                          \
  X(cublasLtMatmulDescDestroy)                                                                                         \
  X(cublasLtMatmulDescSetAttribute)                                                                                    \
  X(cublasLtMatmulPreferenceCreate)                                                                                    \
  X(cublasLtMatmulPreferenceDestroy)                                                                                   \
  X(cublasLtMatmulPreferenceSetAttribute)                                                                              \
  X(cublasLtMatrixLayoutCreate)                                                                                        \
  X(cublasLtMatrixLayoutDestroy)                                                                                       \
  X(cublasLtMatrixLayoutSetAttribute)

/// The library's functions, or why there are none.
struct CublasLt {
#define EG_LT_MEMBER(NAME) decltype(&::NAME) NAME = nullptr;
  EG_LT_FUNCTIONS(EG_LT_MEMBER)
#undef EG_LT_MEMBER
  std::string failures; ///< "PATH: why; " for each place; empty where it opened
};

/// Opens the library at the first call.
const CublasLt& cublaslt();

} // namespace eg::cuda
