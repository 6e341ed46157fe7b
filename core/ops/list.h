#pragma once
// The explicit list of op rows, one name a line. registry.cpp makes the registry from it; every name declares
// `extern const OpDef NAME_op`, defined beside the op's kernels.

#include "core/op.h"

#define EG_OP_LIST(X)                                                                                                  \
  X(matmul)                                                                                                            \
  X(linear)                                                                                                            \
  X(linear_gelu)

namespace eg {

#define EG_DECLARE(NAME) extern const OpDef NAME##_op;
EG_OP_LIST(EG_DECLARE)
#undef EG_DECLARE

} // namespace eg
