// Exact sums: the same bits for every order, right to a rounding, and what IEEE says where terms are not finite.

#include "autograd/tape.h"
#include "core/exact/exact.h"
#include "core/ops.h"
#include "core/random.h"
#include "core/reduction.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

using namespace eg;

namespace {

/// Terms of very different sizes and both signs.
std::vector<double> wild_terms(std::int64_t n, std::uint64_t stream, int spread) {
  const Tensor mantissa = random_normal({n}, {71, stream}, 0.0, 1.0, DType::f64);
  const Tensor exponent = random_uniform({n}, {72, stream}, -spread, spread, DType::f64);
  std::vector<double> terms;
  for (std::int64_t i = 0; i < n; ++i)
    terms.push_back(std::ldexp(mantissa.data<double>()[i], static_cast<int>(exponent.data<double>()[i])));
  return terms;
}

std::vector<double> shuffled(const std::vector<double>& terms, std::uint64_t stream) {
  const auto n = static_cast<std::int64_t>(terms.size());
  const Tensor keys = random_uniform({n}, {73, stream}, 0.0, 1.0, DType::f64);
  std::vector<std::size_t> order(terms.size());
  std::iota(order.begin(), order.end(), 0U);
  std::sort(order.begin(), order.end(),
            [&](std::size_t a, std::size_t b) { return keys.data<double>()[a] < keys.data<double>()[b]; });
  std::vector<double> moved;
  for (const std::size_t i : order) moved.push_back(terms[i]);
  return moved;
}

} // namespace

TEST_CASE("an exact sum is the same for every order, where an ordinary one is not") {
  int ordinary_differs = 0;
  for (const std::int64_t n : {2, 7, 33, 1000, 40000})
    for (std::uint64_t draw = 0; draw < 4; ++draw) {
      const std::vector<double> terms = wild_terms(n, draw, 30);
      const std::vector<double> moved = shuffled(terms, draw + 10);
      CHECK(exact::sum(terms) == exact::sum(moved));
      ordinary_differs +=
          std::accumulate(terms.begin(), terms.end(), 0.0) != std::accumulate(moved.begin(), moved.end(), 0.0);
    }
  CHECK(ordinary_differs > 5);
}

TEST_CASE("an exact sum is the real one, rounded") {
  for (std::uint64_t draw = 0; draw < 5; ++draw) {
    const std::vector<double> terms = wild_terms(501, 100 + draw, 10);
    long double total = 0.0L; // Neumaier's in extended precision: 128 bits
    long double lost = 0.0L;
    for (const double t : terms) {
      const long double next = total + t;
      lost += std::abs(total) >= std::abs(static_cast<long double>(t)) ? (total - next) + t : (t - next) + total;
      total = next;
    }
    CHECK(exact::sum(terms) == static_cast<double>(total + lost));
  }
  const std::vector<double> cancelling{1e16, 1.0, -1e16};
  CHECK(exact::sum(cancelling) == 1.0);
  CHECK(exact::sum({}) == 0.0);
}

TEST_CASE("exact sums at the ends of the range") {
  constexpr double inf = std::numeric_limits<double>::infinity();
  constexpr double most = std::numeric_limits<double>::max();
  constexpr double least = std::numeric_limits<double>::denorm_min();
  const auto sum_of = [](std::initializer_list<double> terms) { return exact::sum({terms.begin(), terms.size()}); };
  CHECK(sum_of({most, most, -most}) == most); // no overflow on the way
  CHECK(sum_of({most, most}) == inf);
  CHECK(sum_of({least, least, least}) == 3 * least);
  CHECK(sum_of({inf, 1.0}) == inf);
  CHECK(sum_of({-inf, most}) == -inf);
  CHECK(std::isnan(sum_of({inf, 1.0, -inf})));
  CHECK(std::isnan(sum_of({1.0, std::nan("")})));
}

TEST_CASE("the mean of a plane does not depend on where its pixels are, in exact mode") {
  const ReductionScope scope(Reduction::exact);
  const std::vector<double> pixels = wild_terms(7 * 9, 200, 20);
  const std::vector<double> moved = shuffled(pixels, 201);
  CHECK(pixels != moved);
  const Tensor x = Tensor::from<double>(pixels, {1, 1, 7, 9}), shuffled_x = Tensor::from<double>(moved, {1, 1, 7, 9});
  const double mean = exact::sum(pixels) / 63.0;
  for (const Tensor& image : {x, shuffled_x}) {
    CHECK(adaptive_avg_pool2d(image, 1).item() == mean);
    CHECK(avg_pool2d(image, {7, 9}).item() == mean);
  }
}

TEST_CASE("columns are summed as rows are") {
  const Tensor x = random_normal({37, 29}, {74, 1}, 0.0, 1.0, DType::f64);
  std::vector<double> columns(29);
  exact::column_sums(x.data<double>(), 37, 29, 29, columns.data());
  const Tensor rows = x.transpose().contiguous();
  for (std::int64_t j = 0; j < 29; ++j)
    CHECK(columns[static_cast<std::size_t>(j)] == exact::row_sum(rows.data<double>() + j * 37, 37));
}

TEST_CASE("the gradient of a convolution's weights does not depend on the order of the images, in exact mode") {
  const Tensor x = Tensor::from<double>(wild_terms(5 * 4 * 6 * 6, 300, 20), {5, 4, 6, 6});
  const Tensor g = Tensor::from<double>(wild_terms(5 * 4 * 4 * 4, 301, 20), {5, 4, 4, 4});
  const Tensor order = Tensor::from<std::int64_t>({3, 0, 4, 2, 1}, {5});
  for (const std::int64_t groups : {1, 2, 4}) {
    CAPTURE(groups);
    const Tensor w = random_normal({4, 4 / groups, 3, 3}, {75, 1}, 0.0, 1.0, DType::f64);
    const auto gradient = [&](const Tensor& images, const Tensor& cotangent) {
      Tape tape;
      const Tensor y = conv2d(images, w, {}, {.groups = groups});
      return tape.gradient(y, {w}, cotangent)[0];
    };
    const auto same_in_both_orders = [&] {
      const Tensor one = gradient(x, g), other = gradient(index_select(x, 0, order), index_select(g, 0, order));
      return std::equal(one.data<double>(), one.data<double>() + one.numel(), other.data<double>());
    };
    CHECK_FALSE(same_in_both_orders()); // the control: ordinary sums do depend on it
    const ReductionScope scope(Reduction::exact);
    CHECK(same_in_both_orders());
  }
}
