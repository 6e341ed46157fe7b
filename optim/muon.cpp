#include "core/ops.h"
#include "optim/adam.h"
#include "optim/rule_checks.h"

#include <algorithm>
#include <cmath>

namespace eg::optim {
namespace {

bool made_orthogonal(const Tensor& parameter, const ParameterSettings& settings) {
  return settings.hidden && parameter.rank() == 2;
}

class Muon : public Adam {
public:
  Muon(std::vector<Tensor> parameters, const MuonOptions& options)
      : Adam(std::move(parameters),
             {.beta1 = 0.9, .beta2 = 0.95, .eps = options.eps, .weight_decay = options.weight_decay}, true, plan),
        options_(options) {
    check_range("muon", "momentum", options.momentum, 0.0, 1.0);
    if (options.iterations < 1 || options.iterations > 100)
      throw ValueError(fmt::format("muon: iterations must be from 1 to 100, not {}", options.iterations));
  }

  std::string name() const override { return "muon"; }

private:
  static std::vector<StateShape> plan(const Tensor& parameter, const ParameterSettings& settings) {
    return (made_orthogonal(parameter, settings) ? alike({"momentum"}) : moments())(parameter, settings);
  }
  bool takes_whole(std::size_t i) const override { return made_orthogonal(parameters()[i], settings()[i]); }

  Updated updated(const Whole& p) const override {
    const Tensor momentum = lerp(p.state[0], p.gradient, 1.0 - options_.momentum);
    const Tensor looked_at = options_.nesterov ? lerp(p.gradient, momentum, options_.momentum) : momentum;
    const auto larger = static_cast<double>(std::max(p.parameter.size(0), p.parameter.size(1)));
    const double step = p.learning_rate * 0.2 * std::sqrt(larger);
    const double keep = 1.0 - p.learning_rate * options_.weight_decay * p.decay_factor;
    const Tensor kept = keep == 1.0 ? p.parameter : affine(p.parameter, keep, 0.0);
    return {kept - affine(orthogonalized(looked_at, options_.iterations), step, 0.0), {momentum}};
  }

  const char* writer() const override { return "muon"; }
  MuonOptions options_;
};

} // namespace

Tensor orthogonalized(const Tensor& x, int iterations) {
  constexpr double a = 3.4445, b = -4.7750, c = 2.0315;
  constexpr double least_norm = 1e-7;
  if (x.rank() != 2) throw ShapeError(fmt::format("orthogonalized: x has two axes, not {}", x.shape().str()));
  if (x.numel() == 0) return x;
  const bool tall = x.size(0) > x.size(1); // the products are of the smaller side
  Tensor y =
      affine(tall ? x.transpose().contiguous() : x, 1.0 / std::max(std::sqrt(sum(x * x).item()), least_norm), 0.0);
  for (int i = 0; i < iterations; ++i) {
    const Tensor gram = matmul(y, y, false, true);
    y = affine(y, a, 0.0) + matmul(affine(gram, b, 0.0) + affine(matmul(gram, gram), c, 0.0), y);
  }
  return tall ? y.transpose().contiguous() : y;
}

std::unique_ptr<Optimizer> muon(std::vector<Tensor> parameters, const MuonOptions& options) {
  return std::make_unique<Muon>(std::move(parameters), options);
}

} // namespace eg::optim
