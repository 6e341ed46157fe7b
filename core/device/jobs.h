#pragma once
// Defines the arguments of device kernels as plain structures, which the program and the device module share.

#include "core/device/job_axes.h"              // IWYU pragma: export
#include "core/device/update_jobs.h"           // IWYU pragma: export
#include "core/dtype.h"                        // IWYU pragma: export
#include "core/ops/attention/device_job.h"     // IWYU pragma: export
#include "core/ops/batch_norm/device_job.h"    // IWYU pragma: export
#include "core/ops/cross_entropy/device_job.h" // IWYU pragma: export
#include "core/ops/dropout/device_job.h"       // IWYU pragma: export
#include "core/ops/fold/device_job.h"          // IWYU pragma: export
#include "core/ops/glu/device_job.h"           // IWYU pragma: export
#include "core/ops/index/device_job.h"         // IWYU pragma: export
#include "core/ops/interpolate/device_job.h"   // IWYU pragma: export
#include "core/ops/layer_norm/device_job.h"    // IWYU pragma: export
#include "core/ops/loss/device_job.h"          // IWYU pragma: export
#include "core/ops/matmul/device_job.h"        // IWYU pragma: export
#include "core/ops/pool/device_job.h"          // IWYU pragma: export
#include "core/ops/quantize/device_job.h"      // IWYU pragma: export
#include "core/ops/rearrange/device_job.h"     // IWYU pragma: export
#include "core/ops/reduce/device_job.h"        // IWYU pragma: export
#include "core/ops/rotary/device_job.h"        // IWYU pragma: export
#include "core/ops/softmax/device_job.h"       // IWYU pragma: export
#include "core/ops/sort/device_job.h"          // IWYU pragma: export

#include <cstddef>
#include <cstdint>

namespace eg::device {

/// to[i] = the element whose first `size` bytes are `bits`.
struct FillJob {
  void* to;
  std::size_t size; ///< bytes of an element: 1, 2, 4 or 8
  std::uint64_t bits;
  Axes<1> axes;
};

/// to[i] = from[i]; the two do not overlap.
struct CopyJob {
  void* to;         ///< operand 0
  const void* from; ///< operand 1
  std::size_t size; ///< bytes of an element: 1, 2, 4 or 8
  Axes<2> axes;
};

/// to[i] = from[i] in another element type, by the rules of the row `cast`; both packed.
struct CastJob {
  void* to;
  const void* from;
  DType to_type, from_type;
  std::int64_t count;
};

/// y[i] = f(x[i]) by a row of the unary pointwise tables; both packed.
struct UnaryJob {
  int op; ///< pointwise::Unary
  DType type;
  const void* x;
  void* y;
  std::int64_t count;
  double parameters[4]; ///< the row's real attributes
};

/// y = f(a, b) by a row of the binary pointwise tables. Operands: y, a, b. y may be a or b where they lie alike.
struct BinaryJob {
  int op; ///< pointwise::Binary
  DType type;
  void* y;
  const void *a, *b;
  Axes<3> axes;
};

/// y = [a ? b] for a comparison or a logical row. Operands: y (bool), a, b.
struct CompareJob {
  int op; ///< compare::Relation
  DType type;
  void* y;
  const void *a, *b;
  Axes<3> axes;
};

/// y = [question about x] (isnan ...) or not x; both packed.
struct QuestionJob {
  int op; ///< compare::Question
  DType type;
  void* y;
  const void* x;
  std::int64_t count;
};

/// y = condition ? a : b. Operands: y, condition (bool), a, b.
struct WhereJob {
  std::size_t size; ///< bytes of an element: 1, 2, 4 or 8
  void* y;
  const void *condition, *a, *b;
  Axes<4> axes;
};

/// The functions of three operands: core/ops/pointwise/ternary-inl.h.
enum class Ternary : int { lerp, scaled_exp };

/// y = f(a, b, c). Operands: y, a, b, c.
struct TernaryJob {
  Ternary op;
  DType type;
  void* y;
  const void *a, *b, *c;
  Axes<4> axes;
};

} // namespace eg::device
