// Reductions against long double, and dropout against its definition.

#include "core/call.h"
#include "core/ops.h"
#include "core/ops/list.h"
#include "core/ops/reduce/chains.h"
#include "core/ops/reduce/rows.h"
#include "core/threads/parallel.h"

#include <cmath>
#include <doctest/doctest.h>
#include <limits>

using eg::DType;
using eg::Shape;
using eg::Tensor;

namespace {

/// Sum over the middle of [outer, extent, inner] in long double.
template <class T> long double exact_sum(const Tensor& x, std::int64_t extent, std::int64_t inner, std::int64_t place) {
  long double sum = 0.0L;
  const T* first = x.data<T>() + place / inner * extent * inner + place % inner;
  for (std::int64_t e = 0; e < extent; ++e) sum += static_cast<long double>(first[e * inner]);
  return sum;
}

template <class T> double chains_of(const T* x, std::int64_t n) {
  double sum = -1;
  eg::reduce::row_chains_sums(x, 1, n, n, &sum);
  return sum;
}

/// Largest error of sum(x, {1}) in units of eps * (sum of |x|): the condition of the sum is taken out.
template <class T> double sum_error(std::int64_t outer, std::int64_t extent, std::int64_t inner) {
  const Tensor x = eg::random_uniform({outer, extent, inner}, {1, 5}, 0.0, 1.0, eg::dtype_of<T>);
  const Tensor y = eg::sum(x, {1});
  double worst = 0.0;
  for (std::int64_t i = 0; i < y.numel(); ++i) {
    const long double exact = exact_sum<T>(x, extent, inner, i);
    const auto error = std::abs(static_cast<long double>(y.data<T>()[i]) - exact) / exact;
    worst = std::max(worst, static_cast<double>(error) / static_cast<double>(std::numeric_limits<T>::epsilon()));
  }
  return worst;
}

/// Largest relative error of norm(x, p, {1}) of [outer, extent, inner] against long double, in eps.
template <class T> double norm_error(const Tensor& x, double p) {
  const std::int64_t extent = x.size(1), inner = x.size(2);
  const Tensor y = eg::norm(x, p, {1});
  double worst = 0.0;
  for (std::int64_t i = 0; i < y.numel(); ++i) {
    const T* first = x.data<T>() + i / inner * extent * inner + i % inner;
    long double want = 0.0L;
    for (std::int64_t e = 0; e < extent; ++e) {
      const auto value = static_cast<long double>(first[e * inner]);
      want = p == 2.0 ? want + value * value : std::max(want, std::abs(value));
    }
    if (p == 2.0) want = std::sqrt(want);
    const auto error = std::abs(static_cast<long double>(y.data<T>()[i]) - want);
    worst = std::max(worst, want == 0.0L ? static_cast<double>(error) * 1e300 : static_cast<double>(error / want));
  }
  return worst / static_cast<double>(std::numeric_limits<T>::epsilon());
}

} // namespace

TEST_CASE_TEMPLATE("norms of rows and columns of any number and size are good to a few units", T, float, double) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  std::uint64_t tag = 0;
  for (const std::int64_t extent : {1, 2, 15, 16, 33, 300, 5000})
    for (const std::int64_t inner : {1, 2, 15, 16, 17, 256, 300})
      for (const double scale : {0.0, 1.0, 1e-30, 1e30, 1e-200, 1e200}) {
        if (sizeof(T) == 4 && std::abs(std::log10(scale)) > 35 && scale > 0) continue;
        const Tensor x = eg::random_normal({2, extent, inner}, {3, ++tag}, 0.0, scale, eg::dtype_of<T>);
        CAPTURE(extent);
        CAPTURE(inner);
        CAPTURE(scale);
        CHECK(norm_error<T>(x, 2.0) < 8);
        CHECK(norm_error<T>(x, infinity) == 0);
      }
  for (const std::int64_t inner : {1, 3, 40}) { // a NaN wins, wherever it is
    Tensor x = eg::random_normal({1, 70, inner}, {3, ++tag}, 0.0, 1.0, eg::dtype_of<T>);
    x.mutable_data<T>()[69 * inner] = std::numeric_limits<T>::quiet_NaN();
    CHECK(std::isnan(eg::norm(x, 2.0, {1}).data<T>()[0]));
    CHECK(std::isnan(eg::norm(x, infinity, {1}).data<T>()[0]));
    CHECK((inner == 1 || std::isfinite(eg::norm(x, infinity, {1}).data<T>()[inner - 1])));
  }
}

TEST_CASE("sums of many terms are good to a few units in the last place") {
  CHECK(sum_error<float>(1, 3000001, 1) <= 4.0);
  CHECK(sum_error<float>(7, 1000, 1) <= 4.0);
  CHECK(sum_error<float>(1, 41600, 33) <= 8.0);
  CHECK(sum_error<float>(3, 100, 130) <= 6.0);
  CHECK(sum_error<float>(2, 5, 4100) <= 4.0);
  CHECK(sum_error<double>(1, 3000001, 1) <= 4.0);
  CHECK(sum_error<double>(1, 41600, 3) <= 8.0);
}

TEST_CASE("sum and mean take any axes") {
  const Tensor x = eg::random_normal({3, 4, 5, 6}, {2, 7}, 0.5, 1.0, DType::f64);
  CHECK(eg::sum(x).shape() == Shape{});
  CHECK(eg::sum(x, {}, true).shape() == Shape{1, 1, 1, 1});
  CHECK(eg::sum(x, {-1, 1}).shape() == Shape{3, 5});
  CHECK(eg::mean(x, {0, 2}, true).shape() == Shape{1, 4, 1, 6});
  const Tensor by_steps = eg::sum(eg::sum(eg::sum(x, {3}), {1}), {0});
  CHECK(eg::relative_error(eg::sum(x, {0, 1, 3}), by_steps) < 1e-14);
  CHECK(eg::relative_error(eg::sum(x.transpose(0, 3), {1}), eg::sum(x, {1}).transpose(0, 2)) < 1e-14);
  CHECK(eg::relative_error(eg::mean(x, {0, 3}) * 18.0, eg::sum(x, {0, 3})) < 1e-14);
  CHECK(eg::sum(Tensor::zeros({0, 3}), {0}).to_vector<float>() == std::vector<float>{0, 0, 0});
  CHECK(eg::sum(Tensor::zeros({0})).item() == 0.0);
  CHECK(std::isnan(eg::mean(Tensor::zeros({0})).item()));
  CHECK(eg::relative_error(eg::sum_to(x, {5, 1}), eg::sum(x, {0, 1, 3}).reshape({5, 1})) < 1e-14);
  CHECK(eg::same_bits(eg::sum_to(x, x.shape()), x));
}

TEST_CASE_TEMPLATE("eight chains in vectors have the bits of the loop", T, float, double) {
  const Tensor x = eg::random_normal({200}, {3, 9}, 0.5, 1.0, eg::dtype_of<T>);
  for (std::int64_t begin : {0, 1, 3})
    for (std::int64_t n = 0; n <= 190; ++n) {
      const T* const from = x.data<T>() + begin;
      const auto term = [from](std::int64_t i) { return static_cast<double>(from[i]); };
      CHECK(chains_of(from, n) == eg::reduce::chains_sum(0, n, term));
    }
  const auto all = [&x](std::int64_t i) { return static_cast<double>(x.data<T>()[i]); };
  double sums[3]; // of rows that overlap
  eg::reduce::row_chains_sums(x.data<T>(), 3, 50, 40, sums);
  for (std::int64_t r = 0; r < 3; ++r) CHECK(sums[r] == eg::reduce::chains_sum(40 * r, 40 * r + 50, all));
  const T large[] = {T(1), T(1e18), T(1), T(-1e18), T(3)}; // from first to last: 3
  CHECK(chains_of(large, 5) == 5.0);
}

TEST_CASE("sums of views have the bits of the packed tensor") {
  for (const DType dtype : {DType::f32, DType::f64}) {
    const Tensor x = eg::random_normal({3, 70, 2100}, {3, 7}, 0.5, 1.0, dtype);
    const Tensor views[] = {x.permute({0, 2, 1}),
                            x.permute({2, 1, 0}),
                            x.permute({1, 2, 0}),
                            x.slice(2, 0, 2048).permute({2, 0, 1}),
                            x.slice(0, 0, 1).permute({2, 0, 1}),
                            x.permute({2, 0, 1}).slice(0, 0, 2048).permute({1, 2, 0}),
                            x.slice(2, 0, 1024).permute({0, 2, 1}).contiguous().permute({0, 2, 1}),
                            x.slice(2, 1, 2099, 2),
                            x.slice(2, 0, 5).permute({0, 2, 1}),
                            x.slice(2, 0, 77).slice(1, 0, 13).permute({2, 0, 1}),
                            x.slice(1, 3, 9).slice(2, 5, 700),
                            x.slice(1, 3, 4).expand({3, 40, 2100}),
                            x.slice(1, 3, 4).slice(2, 0, 2048).expand({3, 40, 2048}),
                            x.reshape({1, 441000}).slice(1, 0, 3072).expand({50, 3072}).unsqueeze(0),
                            x.reshape({1, 441000}).slice(1, 0, 10240).expand({20, 10240}).unsqueeze(0),
                            x.slice(1, 3, 4).slice(2, 0, 2048).expand({3, 5, 2048}).slice(0, 0, 3, 2),
                            x.slice(2, 3, 4).expand({3, 70, 1500}),
                            x.slice(2, 0, 0).permute({2, 1, 0})};
    for (const Tensor& view : views)
      for (const std::vector<std::int64_t>& axes :
           {std::vector<std::int64_t>{}, {0}, {1}, {2}, {0, 1}, {0, 2}, {1, 2}}) {
        CAPTURE(view.shape().str());
        CAPTURE(axes.size());
        CHECK(eg::same_bits(eg::sum(view, axes), eg::sum(view.contiguous(), axes)));
      }
  }
}

TEST_CASE("sums are the same bits for any number of threads") {
  const Tensor x = eg::random_normal({1000, 2100}, {4, 9});
  eg::parallel::set_threads(1);
  const Tensor columns = eg::sum(x, {0}), rows = eg::sum(x, {1}), all = eg::sum(x), turned = eg::sum(x.transpose());
  eg::parallel::set_threads(3);
  CHECK(eg::same_bits(eg::sum(x, {0}), columns));
  CHECK(eg::same_bits(eg::sum(x, {1}), rows));
  CHECK(eg::same_bits(eg::sum(x), all));
  CHECK(eg::same_bits(eg::sum(x.transpose()), turned));
  eg::parallel::set_threads(0);
}

TEST_CASE("max and argmax find the first of equals and put NaN first") {
  const Tensor x = Tensor::from<float>({1, 5, 5, 2, 9, -1, 9, 9}, {2, 4});
  CHECK(eg::max(x, 1).to_vector<float>() == std::vector<float>{5, 9});
  CHECK(eg::argmax(x, 1).to_vector<std::int64_t>() == std::vector<std::int64_t>{1, 0});
  CHECK(eg::argmax(x, 0, true).to_vector<std::int64_t>() == std::vector<std::int64_t>{1, 0, 1, 1});
  const float nan = std::nanf("");
  const Tensor y = Tensor::from<float>({1, nan, 7}, {3});
  CHECK(std::isnan(eg::max(y, 0).item()));
  CHECK(eg::argmax(y, 0).item() == 1.0);
}

TEST_CASE("dropout keeps what its key says, whatever the layout and the number of threads") {
  const eg::RandomKey key{77, 0xFFFFFFFF00000003U};
  const Tensor x = eg::random_normal({257, 129}, {6, 1});
  const double p = 0.3;
  const Tensor y = eg::dropout(x, p, key);
  const float scale = static_cast<float>(1.0 / (1.0 - p));
  std::int64_t dropped = 0;
  bool agrees = true;
  for (std::int64_t i = 0; i < x.numel(); ++i) {
    const bool kept = eg::uniform_at(key, static_cast<std::uint64_t>(i)) >= p;
    dropped += kept ? 0 : 1;
    agrees = agrees && y.data<float>()[i] == (kept ? x.data<float>()[i] * scale : 0.0F);
  }
  CHECK(agrees);
  const auto share = static_cast<double>(dropped) / static_cast<double>(x.numel());
  CHECK(std::abs(share - p) < 0.01);
  eg::parallel::set_threads(1);
  CHECK(eg::same_bits(eg::dropout(x, p, key), y));
  eg::parallel::set_threads(0);
  CHECK(eg::same_bits(eg::dropout(x.transpose().clone().transpose(), p, key), y));
  CHECK(eg::same_bits(eg::dropout(x, 0.0, key), x));
  CHECK_FALSE(eg::same_bits(eg::dropout(x, p, key.fold(1)), y));
  CHECK_THROWS_WITH_AS(eg::dropout(x, 1.0, key), "dropout: p must be in [0, 1), it is 1", eg::ValueError);
}
