// Defences: each against plain loops or what it must keep; the accountant against published values.

#include "apps/attacks/accountant.h"
#include "apps/attacks/defences.h"
#include "autograd/check.h"
#include "autograd/tape.h"
#include "core/ops.h"
#include "permute/blocks_key.h"
#include "support/message.h"

#include <algorithm>
#include <cmath>
#include <doctest/doctest.h>
#include <limits>

using namespace eg;
using namespace eg::attacks;
using eg::test::message_of;

namespace {

Tensor pictures(std::uint64_t stream, std::int64_t count = 3, std::int64_t side = 12) {
  return random_uniform({count, 3, side, side}, {5, stream}, -1.0, 1.0, DType::f64);
}

std::vector<double> sorted(const Tensor& x) {
  std::vector<double> values = x.contiguous().to_vector<double>();
  std::sort(values.begin(), values.end());
  return values;
}

} // namespace

TEST_CASE("defences: noise has its deviation and is drawn from the key alone") {
  const Tensor x = pictures(1, 8, 32);
  const Tensor noise = gaussian_noise(x, 2.0, {1, 0}) - x;
  CHECK(std::abs(mean(noise).item()) < 0.05);
  CHECK(std_deviation(noise).item() == doctest::Approx(2.0).epsilon(0.02));
  CHECK(same_bits(gaussian_noise(x, 2.0, {1, 0}), gaussian_noise(x, 2.0, {1, 0})));
  CHECK_FALSE(same_bits(gaussian_noise(x, 2.0, {1, 0}), gaussian_noise(x, 2.0, {2, 0})));
  CHECK_THROWS_AS(gaussian_noise(x, -1.0, {}), ValueError);
}

TEST_CASE("defences: Gaussian blur is the sum in plain loops with repeated edges") {
  const Tensor x = pictures(2, 1, 9);
  const double sigma = 1.3;
  const Tensor y = gaussian_blur(x, sigma);
  const std::int64_t reach = 4; // ceil(3.9)
  for (const auto& [row, column] : {std::pair<std::int64_t, std::int64_t>{4, 4}, {0, 8}, {8, 2}}) {
    double total = 0.0, weights = 0.0;
    for (std::int64_t a = -reach; a <= reach; ++a)
      for (std::int64_t b = -reach; b <= reach; ++b) {
        const double w = std::exp(-0.5 * static_cast<double>(a * a + b * b) / (sigma * sigma));
        weights += w;
        total += w * x.at({0, 1, std::clamp<std::int64_t>(row + a, 0, 8), std::clamp<std::int64_t>(column + b, 0, 8)});
      }
    CHECK(y.at({0, 1, row, column}) == doctest::Approx(total / weights).epsilon(1e-12));
  }
  CHECK(same_bits(gaussian_blur(x, 0.0), x));
  CHECK(relative_error(gaussian_blur(x * 0.0 + 0.5, 2.0), x * 0.0 + 0.5) < 1e-14);
  CHECK_THROWS_AS(gaussian_blur(x.select(0, 0), 1.0), ShapeError);
}

TEST_CASE("defences: blur by resizing keeps the mean, loses detail, and refuses to grow") {
  const Tensor x = pictures(3, 2, 16);
  const Tensor y = blur_by_resizing(x, 4);
  CHECK(y.shape() == x.shape());
  CHECK(std_deviation(y).item() < 0.5 * std_deviation(x).item());
  CHECK(relative_error(blur_by_resizing(x * 0.0 + 0.25, 4), x * 0.0 + 0.25) < 1e-12);
  CHECK(message_of<ValueError>([&] { blur_by_resizing(x, 17); }) == "blur: pictures of 16 x 16 cannot be shrunk to 17");
}

TEST_CASE("defences: batch shuffle moves rows across the batch and keeps the share that stays") {
  const std::int64_t batch = 5, tokens = 11, special = 1;
  const Tensor z = Tensor::arange(batch * tokens * 2, DType::f64).reshape({batch, tokens, 2});
  const Tensor y = batch_shuffle(z, 0.4, {3, 0}, special);
  CHECK(sorted(y) == sorted(z)); // the same rows
  std::int64_t foreign = 0;
  for (std::int64_t b = 0; b < batch; ++b) {
    CHECK(y.at({b, 0, 0}) == z.at({b, 0, 0})); // the class token
    std::int64_t stayed = 0;
    for (std::int64_t t = 1; t < tokens; ++t) {
      CHECK(y.at({b, t, 1}) == y.at({b, t, 0}) + 1.0); // whole rows
      stayed += y.at({b, t, 0}) == z.at({b, t, 0}) ? 1 : 0;
      foreign += static_cast<std::int64_t>(y.at({b, t, 0})) / (2 * tokens) == b ? 0 : 1;
    }
    CHECK(stayed >= 4); // 0.4 of ten
    CHECK(stayed <= 7);
  }
  CHECK(foreign > 15);
  CHECK(same_bits(batch_shuffle(z, 1.0, {3, 0}), z));
  CHECK_THROWS_AS(batch_shuffle(z, 1.5, {}), ValueError);
  CHECK_THROWS_AS(batch_shuffle(z, 0.5, {}, 12), ShapeError);
}

TEST_CASE("defences: cutmix takes one rectangle of each picture from another") {
  const Tensor x = pictures(4, 6, 16);
  const Tensor changed = ne(cut_and_paste(x, {4, 1}), x).to(DType::f64);
  const Tensor first = changed.select(0, 0).select(0, 0);
  CHECK(sum(changed).item() > 0.0);
  for (std::int64_t i = 0; i < 6; ++i) {
    const Tensor here = changed.select(0, i).select(0, 0);
    if (sum(here).item() > 0.0 && sum(first).item() > 0.0) CHECK(same_bits(here.contiguous(), first.contiguous()));
  }
}

TEST_CASE("defences: names with strengths, and what is wrong with others") {
  CHECK(protection_named("low-pass:3") == Protection{Defence::low_pass, 3.0});
  CHECK(protection_named("noise") == Protection{Defence::noise, 2.0});
  CHECK(name_of(protection_named("batch-shuffle:0.25")) == "batch-shuffle:0.25");
  for (const DefenceInfo& info : defences()) CHECK(name_of({info.defence, info.usual}).starts_with(info.name));
  CHECK(message_of<ValueError>([] { protection_named("nois"); }).find("did you mean noise?") != std::string::npos);
  CHECK(message_of<ValueError>([] { protection_named("noise:x"); }) ==
        "defence noise: its strength is a number, not 'x'");
  CHECK_THROWS_AS(protection_named("noise:"), ValueError);
  CHECK_THROWS_AS(protection_named("none:1"), ValueError);
  CHECK_THROWS_AS(protection_named("low-pass:1.5"), ValueError);
  CHECK_THROWS_AS(protection_named("low-pass:-1"), ValueError);
  CHECK_THROWS_AS(protection_named("batch-shuffle:2"), ValueError);
  CHECK_THROWS_AS(protection_named("noise:nan"), ValueError);
}

TEST_CASE("defences: with an order of rows and columns the same leaves the edge, permuted, and comes back") {
  const Tensor x = pictures(6, 4, 12), weight = random_normal({10, 48}, {6, 1}, 0.0, 0.2, DType::f64);
  for (const DefenceInfo& info : defences()) {
    CAPTURE(info.name);
    EdgeView view{.embed = [&](const Tensor& p) { return linear(patchify(p, 4), weight); },
                  .protection = {info.defence, info.usual}};
    const Leaving plain = view(x, {7, 0});
    CHECK_FALSE(plain.rows.defined());
    CHECK(same_bits(view(x, {7, 0}).features, plain.features));
    view.rows = true;
    view.columns = permute::Permutation::random_nonidentity(10, {8, 0});
    const Leaving moved = view(x, {7, 0});
    CHECK_FALSE(same_bits(moved.features, plain.features));
    CHECK(same_bits(view.pass(moved.rows).leave(moved.features).contiguous(), plain.features.contiguous()));
    if (info.defence != Defence::none) {
      const EdgeView open{.embed = view.embed};
      CHECK_FALSE(same_bits(open(x, {7, 0}).features, plain.features));
    }
  }
}

TEST_CASE("accountant: the published values of the sampled Gaussian mechanism") {
  // TensorFlow Privacy's tests of its accountant: compute_rdp and get_privacy_spent.
  CHECK(10 * sampled_gaussian_rdp(0.1, 2.0, 5.0) == doctest::Approx(0.07737).epsilon(1e-3));
  const std::pair<double, double> published[] = {
      {1.5, 0.00065}, {2.5, 0.001085}, {5.0, 0.00218075}, {50.0, 0.023846}, {100.0, 167.416307}};
  for (const auto& [order, rdp] : published) CHECK(std::abs(50 * sampled_gaussian_rdp(0.01, 2.5, order) - rdp) < 1e-5);
  CHECK(sampled_gaussian_rdp(0.01, 2.5, std::numeric_limits<double>::infinity()) > 1e300);

  std::vector<double> whole;
  for (int order = 2; order <= 32; ++order) whole.push_back(order);
  RdpAccountant one(whole);
  one.add(0.01, 4.0, 10000);
  CHECK(one.spent(1e-5).epsilon == doctest::Approx(1.258575).epsilon(1e-6));
  CHECK(one.spent(1e-5).order == 20.0);

  RdpAccountant two({1.25, 1.5, 1.75, 2, 2.5, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28, 32, 64, 256});
  two.add(0.01, 4.0, 10000);
  two.add(0.1, 2.0, 100);
  CHECK(two.spent(1e-5).epsilon == doctest::Approx(3.276237).epsilon(1e-6));
  CHECK(two.spent(1e-5).order == 8.0);
}

TEST_CASE("accountant: without sampling it is the Gaussian mechanism; orders between whole ones lie between") {
  CHECK(sampled_gaussian_rdp(1.0, 3.0, 7.0) == doctest::Approx(7.0 / 18.0));
  CHECK(sampled_gaussian_rdp(0.0, 3.0, 7.0) == 0.0);
  for (const double q : {0.001, 0.05, 0.4})
    for (const double sigma : {0.7, 2.0}) {
      const double below = sampled_gaussian_rdp(q, sigma, 3.0), above = sampled_gaussian_rdp(q, sigma, 4.0);
      const double between = sampled_gaussian_rdp(q, sigma, 3.5);
      CHECK(between > below);
      CHECK(between < above);
      CHECK(sampled_gaussian_rdp(q, sigma, 3.0 + 1e-7) == doctest::Approx(below).epsilon(1e-5));
    }
  CHECK_THROWS_AS(sampled_gaussian_rdp(1.5, 1.0, 2.0), ValueError);
  CHECK_THROWS_AS(sampled_gaussian_rdp(0.1, 0.0, 2.0), ValueError);
  CHECK_THROWS_AS(sampled_gaussian_rdp(0.1, 1.0, 1.0), ValueError);
  CHECK_THROWS_AS(RdpAccountant().spent(0.0), ValueError);
}

TEST_CASE("DP-SGD: every sample's gradient is clipped over all parameters, and noise has its size") {
  const std::vector<Tensor> g = {Tensor::from<double>({3, 0, 0.3, 0.1}, {2, 2}),
                                 Tensor::from<double>({4, 0.2}, {2, 1})};
  const std::vector<Tensor> mean_of = private_gradient(g, 1.0, 0.0, 4.0, {1, 0});
  // |g_0| = 5: scaled to 1; |g_1| < 1: as it is.
  CHECK(mean_of[0].at({0}) == doctest::Approx((0.6 + 0.3) / 4));
  CHECK(mean_of[0].at({1}) == doctest::Approx(0.1 / 4));
  CHECK(mean_of[1].at({0}) == doctest::Approx((0.8 + 0.2) / 4));
  const std::vector<Tensor> zeros = {Tensor::zeros({2, 4000}, DType::f64)};
  const Tensor noise = private_gradient(zeros, 0.5, 3.0, 10.0, {2, 0})[0];
  CHECK(std_deviation(noise).item() == doctest::Approx(0.5 * 3.0 / 10.0).epsilon(0.05));
  CHECK_THROWS_AS(private_gradient(g, 0.0, 1.0, 4.0, {}), ValueError);
  CHECK_THROWS_AS(private_gradient({}, 1.0, 1.0, 4.0, {}), ShapeError);
  const auto drawn = poisson_sample(10000, 0.1, {3, 0});
  CHECK(drawn.size() > 900);
  CHECK(drawn.size() < 1100);
  CHECK(std::is_sorted(drawn.begin(), drawn.end()));
}
