#include "permute/catalogue/training_rules.h"

#include <cmath>

namespace eg::permute {
namespace {

/// The state named, zeros at first.
Tensor& state_of(RuleState& state, const char* name, const Tensor& like) {
  Tensor& value = state[name];
  if (!value.defined()) value = Tensor::zeros(like.shape(), like.dtype());
  return value;
}

/// Close to the nearest orthogonal matrix of x.
Tensor orthogonalised(const Tensor& x) {
  const bool tall = x.size(0) > x.size(1);
  Tensor y = x / sqrt(sum(x * x));
  if (tall) y = y.transpose().contiguous();
  for (int i = 0; i < 5; ++i) {
    const Tensor a = matmul(y, y, false, true);
    y = y * 3.4445 + matmul(a * -4.7750 + matmul(a, a) * 2.0315, y);
  }
  return tall ? y.transpose().contiguous() : y;
}

} // namespace

Tensor lion(RuleState& state, const RuleStep& s) {
  Tensor& m = state_of(state, "m", s.weight);
  const Tensor direction = sign(m * 0.9 + s.gradient * 0.1);
  m = m * 0.99 + s.gradient * 0.01;
  return s.weight - direction * s.rate;
}

Tensor adafactor(RuleState& state, const RuleStep& s) {
  const double keep = 1.0 - std::pow(static_cast<double>(s.number), -0.8);
  const Tensor squares = s.gradient * s.gradient + 1e-30;
  if (s.weight.rank() != 2) {
    Tensor& v = state_of(state, "v", s.weight);
    v = v * keep + squares * (1.0 - keep);
    return s.weight - s.gradient * rsqrt(v) * s.rate;
  }
  const Tensor of_rows = mean(squares, {1}, true), of_columns = mean(squares, {0}, true);
  Tensor &r = state_of(state, "r", of_rows), &c = state_of(state, "c", of_columns);
  r = r * keep + of_rows * (1.0 - keep);
  c = c * keep + of_columns * (1.0 - keep);
  return s.weight - s.gradient * rsqrt(r * c / mean(r)) * s.rate;
}

Tensor muon(RuleState& state, const RuleStep& s) {
  Tensor& m = state_of(state, "m", s.weight);
  m = m * 0.95 + s.gradient;
  return s.weight - (s.weight.rank() == 2 ? orthogonalised(m) : m) * s.rate;
}

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
