#include "apps/attacks/metrics.h"

#include "core/ops.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <map>
#include <vector>

namespace eg::attacks {
namespace {

constexpr std::int64_t window = 11;
constexpr double sigma = 1.5;

/// [1, 1, 11, 11], weights of sum 1.
Tensor gaussian_window() {
  std::vector<double> line;
  constexpr std::int64_t middle = window / 2;
  for (std::int64_t i = 0; i < window; ++i) {
    const auto away = static_cast<double>(i - middle);
    line.push_back(std::exp(-away * away / (2.0 * sigma * sigma)));
  }
  const Tensor side = Tensor::from<double>(line, {window});
  const Tensor weights = side.reshape({window, 1}) * side.reshape({1, window});
  return (weights / sum(weights).item()).reshape({1, 1, window, window});
}

/// f64 [N, C, H, W].
Tensor images_of(const char* who, const Tensor& x) {
  if (x.rank() != 3 && x.rank() != 4)
    throw ShapeError(fmt::format("{}: images are [N, C, H, W] or [C, H, W], not {}", who, x.shape().str()));
  if (x.numel() == 0) throw ShapeError(fmt::format("{}: there are no pixels: {}", who, x.shape().str()));
  const Tensor wide = x.to(DType::f64);
  return x.rank() == 4 ? wide : wide.unsqueeze(0);
}

std::pair<Tensor, Tensor> checked(const char* who, const Tensor& x, const Tensor& y, double peak) {
  if (!(x.shape() == y.shape()))
    throw ShapeError(fmt::format("{}: images differ in shape: {} and {}", who, x.shape().str(), y.shape().str()));
  if (!(peak > 0.0)) throw ValueError(fmt::format("{}: peak is {}, it must be positive", who, peak));
  return {images_of(who, x), images_of(who, y)};
}

} // namespace

Tensor ssim(const Tensor& x, const Tensor& y, double peak) {
  const auto [a, b] = checked("ssim", x, y, peak);
  const std::int64_t n = a.size(0), channels = a.size(1), height = a.size(2), width = a.size(3);
  if (height < window || width < window)
    throw ShapeError(fmt::format("ssim: the window is 11 x 11, images are {} x {}", height, width));
  const Tensor weights = gaussian_window();
  const auto under = [&](const Tensor& t) { return conv2d(t.reshape({n * channels, 1, height, width}), weights); };
  const Tensor ma = under(a), mb = under(b);
  const Tensor va = under(a * a) - ma * ma, vb = under(b * b) - mb * mb, vab = under(a * b) - ma * mb;
  const double c1 = 0.01 * peak * 0.01 * peak, c2 = 0.03 * peak * 0.03 * peak;
  const Tensor map = ((ma * mb * 2.0 + c1) * (vab * 2.0 + c2)) / ((ma * ma + mb * mb + c1) * (va + vb + c2));
  return mean(map.reshape({n, -1}), {1});
}

Tensor psnr(const Tensor& x, const Tensor& y, double peak) {
  const auto [a, b] = checked("psnr", x, y, peak);
  const Tensor error = mean(square(a - b).reshape({a.size(0), -1}), {1});
  return log(error / (peak * peak)) * (-10.0 / std::log(10.0));
}

double recovery_rate(std::span<const std::int64_t> found, std::span<const std::int64_t> truth) {
  if (found.size() != truth.size())
    throw ShapeError(fmt::format("recovery rate: {} found, {} true", found.size(), truth.size()));
  if (truth.empty()) throw ValueError("recovery rate: there is nothing to recover");
  std::size_t right = 0;
  for (std::size_t i = 0; i < truth.size(); ++i) right += found[i] == truth[i] ? 1 : 0;
  return static_cast<double>(right) / static_cast<double>(truth.size());
}

double key_recovery_rate(const permute::Permutation& found, const permute::Permutation& truth) {
  return recovery_rate(found.gather(), truth.gather());
}

double token_recovery_rate(std::span<const std::int64_t> found, std::span<const std::int64_t> truth,
                           std::int64_t padding) {
  if (found.size() != truth.size())
    throw ShapeError(fmt::format("token recovery rate: {} found, {} true", found.size(), truth.size()));
  std::vector<std::int64_t> kept_found, kept_truth;
  for (std::size_t i = 0; i < truth.size(); ++i) {
    if (truth[i] == padding) continue;
    kept_found.push_back(found[i]);
    kept_truth.push_back(truth[i]);
  }
  return recovery_rate(kept_found, kept_truth);
}

double token_bag_rate(std::span<const std::int64_t> found, std::span<const std::int64_t> truth) {
  if (truth.empty()) throw ValueError("token bag rate: there is nothing to recover");
  std::map<std::int64_t, std::int64_t> left;
  for (const std::int64_t id : found) ++left[id];
  std::size_t right = 0;
  for (const std::int64_t id : truth)
    if (const auto at = left.find(id); at != left.end() && at->second > 0) {
      --at->second;
      ++right;
    }
  return static_cast<double>(right) / static_cast<double>(truth.size());
}

} // namespace eg::attacks
