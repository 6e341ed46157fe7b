#pragma once
// Declares the functions of cuBLASLt that products use. Two sources define cublaslt(): one opens CUDA's library, the
// other takes the emulated one.

#include <cublasLt.h>
#include <string>

namespace eg::cuda {

#define EG_LT_FUNCTIONS(X)                                                                                             \
  X(cublasLtCreate)                                                                                                    \
  X(cublasLtGetStatusString)                                                                                           \
  X(cublasLtGetVersion)                                                                                                \
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

/// Holds the functions of the library, or says why it did not open.
struct CublasLt {
#define EG_LT_MEMBER(NAME) decltype(&::NAME) NAME = nullptr;
  EG_LT_FUNCTIONS(EG_LT_MEMBER)
#undef EG_LT_MEMBER
  std::string failures; ///< "PATH: why" for each place that was tried; empty where the library is open
};

/// Opens the library at the first call.
const CublasLt& cublaslt();

} // namespace eg::cuda
