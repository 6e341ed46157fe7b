#include "permute/catalogue/training_rules.h"

namespace eg::permute {
namespace {

/// The state named, zeros at first.
Tensor& state_of(RuleState& state, const char* name, const Tensor& like) {
  Tensor& value = state[name];
  if (!value.defined()) value = Tensor::zeros(like.shape(), like.dtype());
  return value;
}

} // namespace

Tensor rate_of_element(RuleState&, const RuleStep& s) { return s.weight - s.along * s.gradient * s.rate; }

Tensor projected(RuleState&, const RuleStep& s) {
  return s.weight - (s.weight.rank() == 2 ? matmul(s.gradient, s.along) : s.gradient) * s.rate;
}

Tensor blockwise_momentum(RuleState& state, const RuleStep& s) {
  Tensor& m = state_of(state, "m", s.weight);
  const Tensor blocks = (m * 0.9 + s.gradient).reshape({-1, 4});
  const Tensor scale = amax(abs(blocks), {1}, true) / 7.0 + 1e-30;
  m = (round(blocks / scale) * scale).reshape(s.weight.shape());
  return s.weight - m * s.rate;
}

} // namespace eg::permute
