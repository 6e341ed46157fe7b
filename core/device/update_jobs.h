#pragma once
// Defines the arguments of the kernels that update parameters, as plain structures like those of jobs.h.

#include "core/dtype.h"

#include <cstdint>

namespace eg::device {

/// One parameter, packed, with its gradient and state; all `count` elements of one type.
struct UpdatePart {
  void* parameter;
  const void* gradient;
  void* state[2];
  std::int64_t count;
};

/// The parameters of one launch: as many as fit into a kernel's arguments.
struct UpdateParts {
  static constexpr int most = 64;
  DType type;
  int parts;
  UpdatePart part[most];
};

/// One SGD step on `count` elements: g += weight_decay w; v = momentum v + g; w -= lr (nesterov ? g + momentum v : v).
struct SgdNumbers {
  double learning_rate = 0.0;
  double weight_decay = 0.0;
  double momentum = 0.0;
  bool nesterov = false;
};

/// One Adam step: w *= keep; g += weight_decay w; m += (1-beta1)(g - m); v = beta2 v + (1-beta2) g^2;
/// w -= step_size m / (sqrt(v) root_scale + eps).
struct AdamNumbers {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0.0; ///< in the gradient
  double keep = 1.0;         ///< 1 - lr weight_decay of AdamW
  double step_size = 0.0;    ///< lr / (1 - beta1^t)
  double root_scale = 1.0;   ///< 1 / sqrt(1 - beta2^t)
};

/// One RMSprop step: g += weight_decay w; v = alpha v + (1-alpha) g^2; u = g / (sqrt(v) + eps); with momentum
/// u = b = momentum b + u; w -= lr u.
struct RmsPropNumbers {
  double learning_rate = 0.0;
  double alpha = 0.99;
  double eps = 1e-8;
  double momentum = 0.0;
  double weight_decay = 0.0;
};

/// One Lion step: w = keep w - lr sign(beta1 m + (1-beta1) g); m = beta2 m + (1-beta2) g. sign(0) = 0, sign(NaN) = NaN.
struct LionNumbers {
  double learning_rate = 0.0;
  double beta1 = 0.9;
  double beta2 = 0.99;
  double keep = 1.0; ///< 1 - lr weight_decay
};

/// The rule's step on every part.
struct SgdJob {
  SgdNumbers numbers;
  UpdateParts parts;
};
struct AdamJob {
  AdamNumbers numbers;
  UpdateParts parts;
};
struct RmsPropJob {
  RmsPropNumbers numbers;
  UpdateParts parts;
};
struct LionJob {
  LionNumbers numbers;
  UpdateParts parts;
};

/// parameter += share (gradient - parameter): averages that approach weights.
struct ApproachJob {
  double share;
  UpdateParts parts;
};

/// Sums of gradients: to = scale * from, or to += scale * from, where `parameter` of a part is `to` and `gradient` is
/// `from`. The product is rounded as by the row `affine`, and left out where `scales` is false.
struct ScaledSumJob {
  double scale;
  bool scales;
  bool adds;
  UpdateParts parts;
};

/// Sums of squares in f64, of each chunk of each part: `parameter` of a part points to the sums, `gradient` to the
/// elements. A chunk has `chunk` elements, a multiple of 8, the last one the rest. Element i of a chunk belongs to
/// partial sum i mod 8; the eight are joined in a fixed order.
struct SquaresJob {
  static constexpr std::int64_t chunk = 32768;
  UpdateParts parts;
};

} // namespace eg::device
