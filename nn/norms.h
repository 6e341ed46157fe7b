#pragma once
// Implements normalisations other than LayerNorm. weight (gamma) begins as ones, bias (beta) as zeros.

#include "nn/module.h"

namespace eg::nn {

/// x / sqrt(mean(x^2) + eps) * weight over the last axis; weight [dim].
class RmsNorm : public Module {
public:
  explicit RmsNorm(std::int64_t dim, double eps = 1e-6);
  Tensor operator()(const Tensor& x) const;
  Tensor weight;
  double eps;
};

enum class NormKind : std::uint8_t { layer, rms };

/// The norm of a block, LayerNorm or RmsNorm by its kind. weight [dim]; bias [dim], undefined for rms.
class Norm : public Module {
public:
  Norm(NormKind kind, std::int64_t dim, double eps);
  Tensor operator()(const Tensor& x) const;
  Tensor weight, bias;
  NormKind kind;
  double eps;
};

/// (x - mean) / sqrt(variance + eps) * weight + bias for each channel of x [N, C] or [N, C, ...]; all tensors [C].
/// In training: mean and variance of the batch, and the running statistics move,
///   running_mean <- (1 - momentum) running_mean + momentum mean,
///   running_var  <- (1 - momentum) running_var + momentum variance n / (n - 1), n values a channel;
/// once for each pass, not when a checkpoint runs it again. In evaluation: the running statistics.
/// Ioffe and Szegedy, ICML 2015. A sample's result depends on the batch: permuting the samples, or the places of all
/// samples alike, permutes the result.
class BatchNorm : public Module {
public:
  /// Throws ValueError unless channels > 0 and momentum is in [0, 1].
  explicit BatchNorm(std::int64_t channels, double eps = 1e-5, double momentum = 0.1);
  /// Throws ValueError in training when a channel has fewer than two values.
  Tensor operator()(const Tensor& x);
  Tensor weight, bias;
  Tensor running_mean, running_var; ///< in the state dict, not trained
  double eps, momentum;

private:
  void move_statistics(const BatchNormResult& batch, std::int64_t values);
};

/// The same over the channels of a group and all places of a sample: x [N, C, ...], weight and bias [C].
/// Wu and He, ECCV 2018. groups = channels: instance normalisation.
class GroupNorm : public Module {
public:
  /// Throws ValueError unless groups divides channels.
  GroupNorm(std::int64_t groups, std::int64_t channels, double eps = 1e-5);
  Tensor operator()(const Tensor& x) const;
  Tensor weight, bias;
  std::int64_t groups;
  double eps;
};

} // namespace eg::nn
