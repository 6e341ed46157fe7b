#include "nn/norms.h"

#include "autograd/checkpoint.h"

#include <fmt/format.h>

namespace eg::nn {
namespace {

void check_extent(const char* layer, const char* field, std::int64_t value) {
  if (value <= 0) throw ValueError(fmt::format("{}: {} must be positive, not {}", layer, field, value));
}

/// to <- (1 - momentum) to + momentum from
void move(Tensor& to, const Tensor& from, double momentum) { to.copy_from(to * (1.0 - momentum) + from * momentum); }

} // namespace

RmsNorm::RmsNorm(std::int64_t dim, double eps_) : eps(eps_) {
  check_extent("RmsNorm", "dim", dim);
  weight = Tensor::ones({dim});
  register_parameter("weight", weight);
}

Tensor RmsNorm::operator()(const Tensor& x) const {
  const Scope scope(*this);
  return called({&x}, rms_norm(x, weight, eps));
}

Norm::Norm(NormKind kind_, std::int64_t dim, double eps_) : kind(kind_), eps(eps_) {
  check_extent(kind == NormKind::layer ? "LayerNorm" : "RmsNorm", "dim", dim);
  weight = Tensor::ones({dim});
  register_parameter("weight", weight);
  if (kind == NormKind::rms) return;
  bias = Tensor::zeros({dim});
  register_parameter("bias", bias);
}

Tensor Norm::operator()(const Tensor& x) const {
  const Scope scope(*this);
  return called({&x}, kind == NormKind::layer ? layer_norm(x, weight, bias, eps) : rms_norm(x, weight, eps));
}

BatchNorm::BatchNorm(std::int64_t channels, double eps_, double momentum_) : eps(eps_), momentum(momentum_) {
  check_extent("BatchNorm", "channels", channels);
  if (!(momentum >= 0.0 && momentum <= 1.0))
    throw ValueError(fmt::format("BatchNorm: momentum must be in [0, 1], not {}", momentum));
  weight = Tensor::ones({channels});
  bias = Tensor::zeros({channels});
  running_mean = Tensor::zeros({channels});
  running_var = Tensor::ones({channels});
  register_parameter("weight", weight);
  register_parameter("bias", bias);
  register_state("running_mean", running_mean);
  register_state("running_var", running_var);
}

Tensor BatchNorm::operator()(const Tensor& x) {
  const Scope scope(*this);
  if (!training()) return called({&x}, batch_norm_inference(x, running_mean, running_var, weight, bias, eps));
  BatchNormResult batch = batch_norm(x, weight, bias, eps);
  const std::int64_t values = x.numel() / weight.numel();
  if (values < 2)
    throw ValueError(fmt::format("BatchNorm: training needs at least 2 values a channel, x is {}", x.shape().str()));
  if (!recomputing()) move_statistics(batch, values);
  return called({&x}, batch.y);
}

void BatchNorm::move_statistics(const BatchNormResult& batch, std::int64_t values) {
  const PauseRecording pause;
  move(running_mean, batch.mean.detach(), momentum);
  const auto n = static_cast<double>(values);
  move(running_var, batch.variance.detach() * (n / (n - 1.0)), momentum);
}

GroupNorm::GroupNorm(std::int64_t groups_, std::int64_t channels, double eps_) : groups(groups_), eps(eps_) {
  check_extent("GroupNorm", "groups", groups);
  check_extent("GroupNorm", "channels", channels);
  if (channels % groups != 0)
    throw ValueError(fmt::format("GroupNorm: {} groups do not divide {} channels", groups, channels));
  weight = Tensor::ones({channels});
  bias = Tensor::zeros({channels});
  register_parameter("weight", weight);
  register_parameter("bias", bias);
}

Tensor GroupNorm::operator()(const Tensor& x) const {
  const Scope scope(*this);
  return called({&x}, group_norm(x, groups, weight, bias, eps));
}

} // namespace eg::nn
