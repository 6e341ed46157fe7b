#include "apps/attacks/accountant.h"

#include "core/call.h"
#include "core/ops.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <limits>
#include <numbers>
#include <utility>

namespace eg::attacks {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

/// log(e^a + e^b)
double log_add(double a, double b) {
  const double large = std::max(a, b), small = std::min(a, b);
  return small == -infinity ? large : large + std::log1p(std::exp(small - large));
}

/// log(e^a - e^b), a >= b
double log_subtract(double a, double b) { return b == -infinity ? a : a + std::log1p(-std::exp(b - a)); }

/// log erfc(x); where erfc underflows, its asymptotic series.
double log_erfc(double x) {
  if (x < 20.0) return std::log(std::erfc(x));
  const double s = 1.0 / (x * x);
  return -x * x - std::log(x) - 0.5 * std::log(std::numbers::pi) + std::log1p(-0.5 * s + 0.75 * s * s);
}

/// log A for a whole order.
double log_a_whole(double q, double sigma, std::int64_t order) {
  double total = -infinity;
  const auto alpha = static_cast<double>(order);
  for (std::int64_t i = 0; i <= order; ++i) {
    const auto k = static_cast<double>(i);
    const double choose = std::lgamma(alpha + 1.0) - std::lgamma(k + 1.0) - std::lgamma(alpha - k + 1.0);
    total =
        log_add(total, choose + k * std::log(q) + (alpha - k) * std::log1p(-q) + (k * k - k) / (2.0 * sigma * sigma));
  }
  return total;
}

/// log A for any order: two series whose terms change sign once the index has passed the order.
double log_a_series(double q, double sigma, double alpha) {
  double first = -infinity, second = -infinity;
  const double middle = sigma * sigma * std::log(1.0 / q - 1.0) + 0.5, root = std::numbers::sqrt2 * sigma;
  double choose = 1.0; // C(alpha, i), with its sign
  for (int i = 0; i < 100000; ++i) {
    const double k = i, rest = alpha - k, log_choose = std::log(std::abs(choose));
    const double ahead = log_choose + k * std::log(q) + rest * std::log1p(-q);
    const double behind = log_choose + rest * std::log(q) + k * std::log1p(-q);
    const double s0 = ahead + (k * k - k) / (2.0 * sigma * sigma) + log_erfc((k - middle) / root) - std::log(2.0);
    const double s1 =
        behind + (rest * rest - rest) / (2.0 * sigma * sigma) + log_erfc((middle - rest) / root) - std::log(2.0);
    first = choose > 0.0 ? log_add(first, s0) : log_subtract(first, s0);
    second = choose > 0.0 ? log_add(second, s1) : log_subtract(second, s1);
    if (k > alpha && std::max(s0, s1) < std::max(first, second) - 40.0) break;
    choose *= rest / (k + 1.0);
  }
  return log_add(first, second);
}

void check(double q, double sigma, double order) {
  if (!(q >= 0.0 && q <= 1.0) || !(sigma > 0.0) || !(order > 1.0))
    throw ValueError(fmt::format("sampled_gaussian_rdp: q is in [0, 1], sigma positive and the order above 1, not {}, "
                                 "{} and {}",
                                 q, sigma, order));
}

} // namespace

double sampled_gaussian_rdp(double q, double sigma, double order) {
  check(q, sigma, order);
  if (q == 0.0) return 0.0;
  if (order == infinity) return infinity;
  if (q == 1.0) return order / (2.0 * sigma * sigma);
  const bool whole = order == std::floor(order);
  const double log_a = whole ? log_a_whole(q, sigma, static_cast<std::int64_t>(order)) : log_a_series(q, sigma, order);
  return log_a / (order - 1.0);
}

RdpAccountant::RdpAccountant() : orders_{1.25, 1.5, 1.75, 2.0, 2.25, 2.5} {
  for (int order = 3; order <= 64; ++order) orders_.push_back(order);
  for (const double order : {128.0, 256.0, 512.0}) orders_.push_back(order);
  rdp_.assign(orders_.size(), 0.0);
}

RdpAccountant::RdpAccountant(std::vector<double> orders) : orders_(std::move(orders)), rdp_(orders_.size(), 0.0) {
  if (orders_.empty()) throw ValueError("accountant: there are no orders");
}

void RdpAccountant::add(double q, double sigma, std::int64_t steps) {
  if (steps < 0) throw ValueError(fmt::format("accountant: {} steps", steps));
  for (std::size_t i = 0; i < orders_.size(); ++i)
    rdp_[i] += static_cast<double>(steps) * sampled_gaussian_rdp(q, sigma, orders_[i]);
}

PrivacySpent RdpAccountant::spent(double delta) const {
  if (!(delta > 0.0 && delta < 1.0))
    throw ValueError(fmt::format("accountant: delta is between 0 and 1, not {}", delta));
  PrivacySpent best{.epsilon = infinity, .order = orders_.front()};
  for (std::size_t i = 0; i < orders_.size(); ++i) {
    const double epsilon = rdp_[i] - std::log(delta) / (orders_[i] - 1.0);
    if (epsilon < best.epsilon) best = {.epsilon = epsilon, .order = orders_[i]};
  }
  return best;
}

std::vector<Tensor> private_gradient(const std::vector<Tensor>& per_sample, double clip, double sigma, double batch,
                                     RandomKey key) {
  if (!(clip > 0.0) || !(sigma >= 0.0) || !(batch > 0.0))
    throw ValueError(fmt::format("private_gradient: clip and batch are positive, sigma is not negative: {}, {}, {}",
                                 clip, batch, sigma));
  if (per_sample.empty()) throw ShapeError("private_gradient: there are no gradients");
  const PauseRecording pause;
  Tensor squares;
  for (const Tensor& g : per_sample) {
    if (g.rank() < 1 || g.size(0) != per_sample.front().size(0))
      throw ShapeError(fmt::format("private_gradient: gradients are [B, ...] of one B, not {}", g.shape().str()));
    const Tensor own = sum(square(g.to(DType::f64)).reshape({g.size(0), -1}), {1});
    squares = squares.defined() ? squares + own : own;
  }
  const Tensor factors = reciprocal(maximum(sqrt(squares) / clip, Tensor::ones({1}, DType::f64)));
  std::vector<Tensor> means;
  for (const Tensor& g : per_sample) {
    const std::int64_t samples = g.size(0);
    std::vector<std::int64_t> shape(g.shape().dims().begin() + 1, g.shape().dims().end());
    const Tensor flat = g.reshape({samples, -1});
    const Tensor clipped = matmul(factors.to(g.dtype()).reshape({1, samples}), flat).reshape(Shape(shape));
    const Tensor noise = random_normal(clipped.shape(), key.fold(means.size()), 0.0, sigma * clip, g.dtype());
    means.push_back((clipped + noise) / batch);
  }
  return means;
}

std::vector<std::int64_t> poisson_sample(std::int64_t count, double q, RandomKey key) {
  std::vector<std::int64_t> drawn;
  for (std::int64_t i = 0; i < count; ++i)
    if (uniform_at(key, static_cast<std::uint64_t>(i)) < q) drawn.push_back(i);
  return drawn;
}

} // namespace eg::attacks
