// SSIM against its formula in plain loops and against numbers of scikit-image 0.25.2; PSNR; rates.

#include "apps/attacks/metrics.h"
#include "core/ops.h"
#include "support/message.h"

#include <cmath>
#include <doctest/doctest.h>
#include <limits>
#include <vector>

using namespace eg;

namespace {

/// Two images [C, H, W] with values in [0, 1] that a line of Python makes too.
Tensor image(std::int64_t channels, std::int64_t height, std::int64_t width, bool second) {
  std::vector<double> pixels;
  for (std::int64_t c = 0; c < channels; ++c)
    for (std::int64_t i = 0; i < height; ++i)
      for (std::int64_t j = 0; j < width; ++j)
        pixels.push_back(second ? static_cast<double>((3 * i + 11 * j + 2 * c + i * j) % 19) / 18.0
                                : static_cast<double>((7 * i + 13 * j + 5 * c) % 17) / 16.0);
  return Tensor::from<double>(pixels, {channels, height, width});
}

/// The formula for one channel, window by window.
double ssim_in_loops(const Tensor& x, const Tensor& y, double peak) {
  double weights[11][11], total = 0.0;
  for (int u = 0; u < 11; ++u)
    for (int v = 0; v < 11; ++v) total += weights[u][v] = std::exp(-((u - 5) * (u - 5) + (v - 5) * (v - 5)) / 4.5);
  double sum = 0.0;
  std::int64_t windows = 0;
  for (std::int64_t i = 0; i + 11 <= x.size(0); ++i)
    for (std::int64_t j = 0; j + 11 <= x.size(1); ++j) {
      double mx = 0, my = 0, vx = 0, vy = 0, vxy = 0;
      const auto over = [&](auto&& each) {
        for (int u = 0; u < 11; ++u)
          for (int v = 0; v < 11; ++v) each(weights[u][v] / total, x.at({i + u, j + v}), y.at({i + u, j + v}));
      };
      over([&](double w, double a, double b) { mx += w * a, my += w * b; });
      over([&](double w, double a, double b) {
        vx += w * (a - mx) * (a - mx), vy += w * (b - my) * (b - my), vxy += w * (a - mx) * (b - my);
      });
      const double c1 = std::pow(0.01 * peak, 2), c2 = std::pow(0.03 * peak, 2);
      sum += (2 * mx * my + c1) * (2 * vxy + c2) / ((mx * mx + my * my + c1) * (vx + vy + c2));
      ++windows;
    }
  return sum / static_cast<double>(windows);
}

} // namespace

TEST_CASE("SSIM is the mean of its formula over all windows and channels") {
  const Tensor x = image(3, 24, 20, false), y = image(3, 24, 20, true), mixed = x * 0.8 + y * 0.2;
  for (const Tensor& other : {y, mixed})
    for (const double peak : {1.0, 2.0}) {
      double expected = 0.0;
      for (std::int64_t c = 0; c < 3; ++c) expected += ssim_in_loops(x.select(0, c), other.select(0, c), peak) / 3.0;
      CHECK(attacks::ssim(x, other, peak).item() == doctest::Approx(expected).epsilon(1e-12));
    }
  CHECK(attacks::ssim(x, x, 1.0).item() == doctest::Approx(1.0).epsilon(1e-14));
  // Control: the peak matters.
  CHECK(std::abs(attacks::ssim(x, mixed, 1.0).item() - attacks::ssim(x, mixed, 2.0).item()) > 1e-4);
}

TEST_CASE("SSIM is what scikit-image computes") {
  // structural_similarity(x, y, data_range=peak, channel_axis=0, gaussian_weights=True, sigma=1.5,
  //                       use_sample_covariance=False), scikit-image 0.25.2
  const Tensor x = image(3, 24, 20, false), y = image(3, 24, 20, true), mixed = x * 0.8 + y * 0.2;
  CHECK(attacks::ssim(x, y, 1.0).item() == doctest::Approx(0.023712762167780625).epsilon(1e-12));
  CHECK(attacks::ssim(x, y, 2.0).item() == doctest::Approx(0.03785916569976012).epsilon(1e-12));
  CHECK(attacks::ssim(x, mixed, 1.0).item() == doctest::Approx(0.9541672831392959).epsilon(1e-12));
  CHECK(attacks::ssim(x, mixed, 2.0).item() == doctest::Approx(0.9549411149991028).epsilon(1e-12));
}

TEST_CASE("PSNR: 10 log10(peak^2 / mse), infinite for equal images, 6.02 dB lower with the paper's peak") {
  const Tensor x = image(1, 12, 12, false), y = x + 0.1;
  CHECK(attacks::psnr(x, y, 1.0).item() == doctest::Approx(20.0).epsilon(1e-12));
  CHECK(attacks::psnr(x, y, attacks::signed_peak).item() - attacks::psnr(x, y, attacks::papers_peak).item() ==
        doctest::Approx(20.0 * std::log10(2.0)).epsilon(1e-12));
  CHECK(attacks::psnr(x, x, 1.0).item() == std::numeric_limits<double>::infinity());
  const Tensor both = attacks::psnr(stack({x, x}, 0), stack({y, x + 0.01}, 0), 1.0);
  CHECK(both.at({0}) == doctest::Approx(20.0).epsilon(1e-12));
  CHECK(both.at({1}) == doctest::Approx(40.0).epsilon(1e-10));
}

TEST_CASE("metrics of images refuse what are no two images") {
  const Tensor x = image(1, 12, 12, false);
  CHECK(test::message_of<ShapeError>([&] { attacks::ssim(x, image(1, 12, 13, true), 1.0); }).find("differ in shape") !=
        std::string::npos);
  CHECK(test::message_of<ShapeError>([&] {
          attacks::ssim(image(1, 10, 12, false), image(1, 10, 12, true), 1.0);
        }).find("window is 11 x 11") != std::string::npos);
  CHECK(test::message_of<ValueError>([&] { attacks::psnr(x, x, 0.0); }).find("must be positive") != std::string::npos);
  CHECK_THROWS_AS(attacks::psnr(x.select(0, 0), x.select(0, 0), 1.0), ShapeError);
  CHECK_THROWS_AS(attacks::psnr(Tensor::zeros({0, 1, 4, 4}), Tensor::zeros({0, 1, 4, 4}), 1.0), ShapeError);
}

TEST_CASE("rates count places") {
  const std::vector<std::int64_t> truth = {4, 4, 2, 0, 0}, found = {4, 2, 4, 0, 9};
  CHECK(attacks::recovery_rate(found, truth) == doctest::Approx(0.4));
  CHECK(attacks::token_recovery_rate(found, truth, 0) == doctest::Approx(1.0 / 3.0));
  CHECK(attacks::token_bag_rate(found, truth) == doctest::Approx(0.8));
  CHECK(attacks::token_bag_rate(std::vector<std::int64_t>{4, 4, 4}, truth) == doctest::Approx(0.4));
  const permute::Permutation p(std::vector<std::int64_t>{2, 0, 1, 3}), q(std::vector<std::int64_t>{2, 1, 0, 3});
  CHECK(attacks::key_recovery_rate(p, p) == 1.0);
  CHECK(attacks::key_recovery_rate(q, p) == doctest::Approx(0.5));
  CHECK_THROWS_AS(attacks::recovery_rate(found, std::vector<std::int64_t>{1}), ShapeError);
  CHECK_THROWS_AS(attacks::recovery_rate(std::vector<std::int64_t>{}, std::vector<std::int64_t>{}), ValueError);
  CHECK_THROWS_AS(attacks::token_recovery_rate(std::vector<std::int64_t>{3}, std::vector<std::int64_t>{0}, 0),
                  ValueError);
}
