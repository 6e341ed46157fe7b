#pragma once
// Implements convolution and stochastic depth as modules.

#include "nn/module.h"

namespace eg::nn {

/// y = conv2d(x, weight, bias): weight [out, in / groups, kh, kw], bias [out]; both uniform in +-1/sqrt(in / groups kh
/// kw) unless re-initialised.
class Conv2d : public Module {
public:
  /// Throws ValueError unless extents are positive and groups divides both in and out.
  Conv2d(std::int64_t in, std::int64_t out, Size2 kernel, RandomKey key, const Conv2dOptions& options = {},
         bool bias = true);
  /// x [N, in, H, W] -> [N, out, windows]
  Tensor operator()(const Tensor& x) const;
  Tensor weight, bias;
  Conv2dOptions options;
};

/// Stochastic depth: whole samples (slices of the first axis) are dropped with probability p in training, the others
/// scaled by 1/(1-p); x itself in evaluation. Huang et al., ECCV 2016. Throws ValueError unless p is in [0, 1).
class DropPath : public Module {
public:
  explicit DropPath(double p);
  /// Which samples: by `key` alone.
  Tensor operator()(const Tensor& x, RandomKey key) const;
  double p;
};

} // namespace eg::nn
