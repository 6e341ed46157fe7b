#include "core/exact/elementary.h"
#include "core/ops.h"
#include "optim/optimizer.h"
#include "optim/rule_checks.h"

#include <algorithm>
#include <cmath>

namespace eg::optim {
namespace {

/// Zero for no elements.
double root_mean_square(const Tensor& x) { return x.numel() == 0 ? 0.0 : std::sqrt(mean(x * x).item()); }

class Adafactor : public Optimizer {
public:
  Adafactor(std::vector<Tensor> parameters, const AdafactorOptions& options)
      : Optimizer(std::move(parameters), moments), options_(options) {
    check_range("adafactor", "decay_power", options.decay_power, 0.0, 1.0);
    check_not_negative("adafactor", "eps_squares", options.eps_squares);
    if (options.eps_squares == 0.0) throw ValueError("adafactor: eps_squares must be above 0");
    check_not_negative("adafactor", "eps_scale", options.eps_scale);
    check_not_negative("adafactor", "clip", options.clip);
    check_not_negative("adafactor", "weight_decay", options.weight_decay);
  }
  std::string name() const override { return "adafactor"; }

private:
  static std::vector<StateShape> moments(const Tensor& parameter, const ParameterSettings&) {
    if (parameter.rank() < 2) return {{"exp_avg_sq", parameter.shape()}};
    return {{"exp_avg_sq_row", mean_shape(parameter, -1)}, {"exp_avg_sq_column", mean_shape(parameter, -2)}};
  }
  static Shape mean_shape(const Tensor& x, int axis) {
    Shape shape = x.shape();
    shape[axis] = 1;
    return shape;
  }

  bool takes_whole(std::size_t) const override { return true; }
  void begin_step(double) override {
    new_share_ = elementary::pow(static_cast<double>(steps()), -options_.decay_power);
  }

  Updated updated(const Whole& p) const override {
    const std::vector<Tensor> moments = moments_with(p);
    Tensor direction = p.gradient * inverse_root(moments);
    if (options_.clip > 0.0) {
      const double divisor = std::max(1.0, root_mean_square(direction) / options_.clip);
      if (divisor > 1.0) direction = affine(direction, 1.0 / divisor, 0.0);
    }
    const double scale = options_.scale_parameter ? std::max(options_.eps_scale, root_mean_square(p.parameter)) : 1.0;
    const double keep = 1.0 - p.learning_rate * options_.weight_decay * p.decay_factor;
    const Tensor kept = keep == 1.0 ? p.parameter : affine(p.parameter, keep, 0.0);
    return {kept - affine(direction, p.learning_rate * scale, 0.0), moments};
  }

  /// The state with the squares of the gradient taken in.
  std::vector<Tensor> moments_with(const Whole& p) const {
    const Tensor squares = affine(p.gradient * p.gradient, 1.0, options_.eps_squares);
    if (p.state.size() == 1) return {lerp(p.state[0], squares, new_share_)};
    return {lerp(p.state[0], mean(squares, {-1}, true), new_share_),
            lerp(p.state[1], mean(squares, {-2}, true), new_share_)};
  }

  /// V^(-1/2), of the gradient's shape or one that broadcasts to it.
  static Tensor inverse_root(const std::vector<Tensor>& moments) {
    if (moments.size() == 1) return rsqrt(moments[0]);
    const Tensor &rows = moments[0], &columns = moments[1];
    // r / mean(r) first: r c alone would fall out of the range of f32.
    return rsqrt(rows / mean(rows, {-2}, true)) * rsqrt(columns);
  }

  const char* writer() const override { return "adafactor"; }
  AdafactorOptions options_;
  double new_share_ = 1.0; ///< t^-decay_power
};

} // namespace

std::unique_ptr<Optimizer> adafactor(std::vector<Tensor> parameters, const AdafactorOptions& options) {
  return std::make_unique<Adafactor>(std::move(parameters), options);
}

} // namespace eg::optim
