// Rows longer than the samples of the op rows: sorting by counting, vectors with more than one block, columns side by
// side; NaN, infinities, both zeros and equals among the elements.

#include "core/ops.h"
#include "core/threads/parallel.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <doctest/doctest.h>
#include <limits>
#include <numeric>
#include <vector>

using namespace eg;

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();

/// Numbers with many equals; with `odd`, also NaN, infinities and -0.
template <class T> Tensor numbers(const Shape& shape, bool odd, std::uint64_t seed) {
  Tensor x = Tensor::empty(shape, dtype_of<T>);
  T* to = x.template mutable_data<T>();
  std::uint64_t state = seed;
  for (std::int64_t i = 0; i < x.numel(); ++i) {
    state = state * 6364136223846793005U + 1442695040888963407U;
    const auto draw = static_cast<int>(state >> 33 & 0x3FF);
    double value = (draw - 512) / 64.0;
    if (odd && draw < 5)
      value = draw == 0 ? not_a_number : draw == 1 ? -0.0 : draw == 2 ? -infinity : draw == 3 ? infinity : not_a_number;
    to[i] = static_cast<T>(value);
  }
  return x;
}

template <class T> bool comes_before(T a, T b, bool descending) {
  const double left = std::isnan(a) ? 1e308 : std::clamp(static_cast<double>(a), -1e300, 1e300);
  const double right = std::isnan(b) ? 1e308 : std::clamp(static_cast<double>(b), -1e300, 1e300);
  return descending ? left > right : left < right;
}

template <class T> std::vector<std::int64_t> stable_places(const T* x, std::int64_t n, bool descending) {
  std::vector<std::int64_t> places(static_cast<std::size_t>(n));
  std::iota(places.begin(), places.end(), 0);
  std::stable_sort(places.begin(), places.end(),
                   [&](std::int64_t i, std::int64_t j) { return comes_before(x[i], x[j], descending); });
  return places;
}

template <class T> bool same_bits(T a, T b) { return std::memcmp(&a, &b, sizeof(T)) == 0; }

template <class T> void check_sorting(std::int64_t n, bool descending) {
  const Tensor x = numbers<T>({3, n}, true, 7 + static_cast<std::uint64_t>(n));
  const ValuesAndIndices sorted = sort(x, -1, descending);
  const Tensor across = argsort(x.transpose(0, 1), 0, descending);
  const std::int64_t k = n / 3;
  const ValuesAndIndices best = topk(x, k, -1, descending), few = topk(x, 4, -1, descending);
  for (std::int64_t row = 0; row < 3; ++row) {
    const T* own = x.data<T>() + row * n;
    const std::vector<std::int64_t> places = stable_places(own, n, descending);
    bool same = true;
    for (std::int64_t i = 0; i < n; ++i) {
      const std::int64_t place = places[static_cast<std::size_t>(i)];
      same = same && sorted.indices.data<std::int64_t>()[row * n + i] == place &&
             same_bits(sorted.values.data<T>()[row * n + i], own[place]) &&
             across.data<std::int64_t>()[i * 3 + row] == place;
      if (i < k) same = same && best.indices.data<std::int64_t>()[row * k + i] == place;
      if (i < 4) same = same && few.indices.data<std::int64_t>()[row * 4 + i] == place;
    }
    CHECK(same);
  }
}

template <class T> std::int64_t first_best(const T* x, std::int64_t n, std::int64_t stride, bool largest) {
  std::int64_t best = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    if (std::isnan(x[i * stride])) return i;
    if (largest ? x[i * stride] > x[best * stride] : x[i * stride] < x[best * stride]) best = i;
  }
  return best;
}

template <class T> void check_extremes(const Shape& shape, int axis, bool odd) {
  const Tensor x = numbers<T>(shape, odd, 91);
  std::int64_t outer = 1, inner = 1;
  for (int a = 0; a < axis; ++a) outer *= shape[a];
  for (int a = axis + 1; a < shape.rank(); ++a) inner *= shape[a];
  const std::int64_t n = shape[axis];
  for (const bool largest : {true, false}) {
    const ValuesAndIndices both = largest ? max_with_index(x, axis) : min_with_index(x, axis);
    const Tensor over = largest ? amax(x, {axis}) : amin(x, {axis});
    bool same = true;
    for (std::int64_t i = 0; i < outer * inner; ++i) {
      const T* own = x.data<T>() + i / inner * n * inner + i % inner;
      const std::int64_t place = first_best(own, n, inner, largest);
      const T value = own[place * inner], found = over.data<T>()[i];
      same = same && both.indices.data<std::int64_t>()[i] == place && same_bits(both.values.data<T>()[i], value) &&
             (found == value || (std::isnan(found) && std::isnan(value)));
    }
    CHECK(same);
  }
}

/// Relative to the size of what is expected, or to 1.
double error_of(double found, double expected) {
  return std::abs(found - expected) / std::max(1.0, std::abs(expected));
}

} // namespace

TEST_CASE_TEMPLATE("Long lines are sorted like a stable sort sorts them, NaN last", T, float, double) {
  for (const std::int64_t n : {33, 127, 128, 255, 256, 300, 5000})
    for (const bool descending : {false, true}) check_sorting<T>(n, descending);
}

TEST_CASE_TEMPLATE("Largest and smallest of long rows and of many columns", T, float, double) {
  for (const bool odd : {false, true}) {
    check_extremes<T>({5, 1003}, 1, odd);
    check_extremes<T>({301, 131}, 0, odd);
    check_extremes<T>({2, 77, 64}, 1, odd);
    check_extremes<T>({400, 3}, 1, odd);
  }
  CHECK(max(Tensor::zeros({3, 0}, dtype_of<T>), 0).numel() == 0);
  CHECK(argmin(Tensor::zeros({0, 3, 5}, dtype_of<T>), 1).numel() == 0);
}

TEST_CASE_TEMPLATE("Products of long rows neither overflow on the way nor lose a zero", T, float, double) {
  const std::int64_t n = 20011;
  Tensor x = numbers<T>({1, n}, false, 3);
  T* at = x.template mutable_data<T>();
  long double expected = 1;
  for (std::int64_t i = 0; i < n; ++i) {
    at[i] = i % 2 == 0 ? T(-3e30) : T(1) / at[i - 1]; // pairs of product near 1
    expected *= static_cast<long double>(at[i]);
  }
  CHECK(error_of(prod(x, {1}).item() / static_cast<double>(expected), 1.0) < 1e-6);
  at[77] = T(0);
  CHECK(prod(x, {1}).item() == 0.0);
  at[78] = static_cast<T>(infinity);
  CHECK(std::isnan(prod(x, {1}).item()));
  Tensor small = Tensor::full({40}, std::numeric_limits<T>::denorm_min(), dtype_of<T>);
  T* of_small = small.template mutable_data<T>();
  for (int i = 0; i < 20; ++i) of_small[i] = T(1) / std::numeric_limits<T>::min();
  for (int i = 20; i < 40; ++i) of_small[i] = std::numeric_limits<T>::min();
  CHECK(prod(small, {0}).item() == 1.0);
}

TEST_CASE_TEMPLATE("Log of a sum of many exponentials, and its slopes", T, float, double) {
  const std::int64_t n = 9001;
  const Tensor x = numbers<T>({2, n}, false, 5);
  const Tensor y = logsumexp(x, {1}, true), down = logsumexp(x.transpose(0, 1), {0});
  const double tolerance = sizeof(T) == 4 ? 1e-7 : 4e-16;
  for (std::int64_t row = 0; row < 2; ++row) {
    long double sum = 0;
    for (std::int64_t i = 0; i < n; ++i) sum += std::exp(static_cast<long double>(x.data<T>()[row * n + i]));
    for (const T found : {y.data<T>()[row], down.data<T>()[row]})
      CHECK(error_of(static_cast<double>(found), static_cast<double>(std::log(sum))) < tolerance);
  }
  Tensor wide = numbers<T>({2, 300, 1100}, false, 6); // columns beyond one block, rows beyond another
  T* const of_wide = wide.template mutable_data<T>();
  of_wide[7] = static_cast<T>(not_a_number);
  of_wide[1100 + 9] = static_cast<T>(infinity);
  of_wide[1100 + 11] = static_cast<T>(-infinity);
  for (std::int64_t r = 0; r < 300; ++r) of_wide[r * 1100 + 1099] = static_cast<T>(-infinity);
  const Tensor columns = logsumexp(wide, {1}), rows = logsumexp(wide.transpose(1, 2).contiguous(), {2});
  CHECK(std::isnan(columns.data<T>()[7]));
  CHECK(columns.data<T>()[9] == static_cast<T>(infinity));
  CHECK(columns.data<T>()[1099] == static_cast<T>(-infinity));
  for (std::int64_t c = 0; c < columns.numel(); ++c) {
    const auto a = static_cast<double>(columns.data<T>()[c]), b = static_cast<double>(rows.data<T>()[c]);
    CHECK((a == b || (std::isnan(a) && std::isnan(b)) || error_of(a, b) < tolerance));
  }
  // Near 0 an error of the largest term, which is 1, would be all that is left.
  CHECK(logsumexp(Tensor::full({1}, 1e-9, dtype_of<T>)).item() == static_cast<double>(static_cast<T>(1e-9)));
  for (const Tensor& pair :
       {Tensor::from<T>({T(0), T(-20)}, {2}), Tensor::from<T>({T(0), T(0), T(-20), T(-20)}, {2, 2})})
    for (const T found : logsumexp(pair, {0}).template to_vector<T>())
      CHECK(error_of(static_cast<double>(found), std::log1p(std::exp(-20.0))) < 1e-6);
  for (const double odd : {not_a_number, infinity, -infinity}) {
    const double found = logsumexp(Tensor::full({70}, odd, dtype_of<T>)).item();
    CHECK((std::isnan(odd) ? std::isnan(found) : found == odd));
  }
}

TEST_CASE_TEMPLATE("Long groups are reduced in pieces, with the same bits for any number of threads", T, float,
                   double) {
  const std::int64_t n = 200003; // pieces of 65536: three, and one that is shorter
  Tensor x = numbers<T>({2, n}, false, 9);
  T* const at = x.template mutable_data<T>();
  for (std::int64_t i = 0; i < 2 * n; ++i)
    at[i] = static_cast<T>(static_cast<double>(at[i]) + static_cast<double>(i % 7) / 32.0);
  const std::int64_t last = n - 1; // of the shorter piece
  at[last] = T(50);
  const auto all = [&x] {
    return std::vector<Tensor>{norm(x, 2.0, {1}), norm(x, 1.0, {1}), norm(x, infinity, {1}), var(x, {1}),
                               amax(x, {1}),      amin(x, {1}),      logsumexp(x, {1}),      prod(x * 0.01 + 1.0, {1}),
                               mean(x, {1}),      center(x, {1})};
  };
  parallel::set_threads(1);
  const std::vector<Tensor> alone = all();
  parallel::set_threads(3);
  const std::vector<Tensor> shared = all();
  parallel::set_threads(0);
  for (std::size_t i = 0; i < alone.size(); ++i) CHECK(eg::same_bits(alone[i], shared[i]));

  const double tolerance = sizeof(T) == 4 ? 2e-7 : 1e-14;
  for (std::int64_t row = 0; row < 2; ++row) {
    long double squares = 0, sizes = 0, sum = 0, exponentials = 0, logarithms = 0;
    std::int64_t count = 0;
    for (std::int64_t i = row * n; i < (row + 1) * n; ++i) {
      const auto v = static_cast<long double>(at[i]);
      squares += v * v;
      sizes += std::abs(v);
      sum += v;
      exponentials += std::exp(v);
      logarithms += std::log(static_cast<long double>(at[i] * static_cast<T>(0.01) + T(1)));
      count += at[i] != T(0) ? 1 : 0;
    }
    const long double variance = (squares - sum * sum / n) / (n - 1);
    const double expected[] = {static_cast<double>(std::sqrt(squares)),
                               static_cast<double>(sizes),
                               *std::max_element(at + row * n, at + (row + 1) * n),
                               static_cast<double>(variance),
                               *std::max_element(at + row * n, at + (row + 1) * n),
                               *std::min_element(at + row * n, at + (row + 1) * n),
                               static_cast<double>(std::log(exponentials))};
    for (std::size_t i = 0; i < std::size(expected); ++i) {
      CAPTURE(i);
      CHECK(error_of(static_cast<double>(alone[i].template data<T>()[row]), expected[i]) < tolerance);
    }
    const auto product = static_cast<double>(std::log(static_cast<long double>(alone[7].template data<T>()[row])));
    CHECK(std::abs(product - static_cast<double>(logarithms)) < (sizeof(T) == 4 ? 1e-6 : 1e-9));
    CHECK(count_nonzero(x, {1}).template data<std::int64_t>()[row] == count);
  }
  at[last] = T(0);
  CHECK(prod(x, {1}).template data<T>()[0] == T(0));
  at[last] = static_cast<T>(not_a_number);
  for (const Tensor& y :
       {amax(x, {1}), amin(x, {1}), norm(x, 2.0, {1}), norm(x, infinity, {1}), logsumexp(x, {1}), prod(x, {1})}) {
    CHECK(std::isnan(y.template data<T>()[0]));
    CHECK_FALSE(std::isnan(y.template data<T>()[1]));
  }
}

TEST_CASE("Long groups of whole numbers are added in pieces") {
  const std::int64_t n = 200003;
  const Tensor x = random_integers({n}, {5, 3}, -1000, 1001);
  const std::int64_t expected = std::accumulate(x.data<std::int64_t>(), x.data<std::int64_t>() + n, std::int64_t{0});
  CHECK(sum(x).data<std::int64_t>()[0] == expected);
  CHECK(std::abs(mean(x).item() - static_cast<double>(expected) / static_cast<double>(n)) < 1e-5);
  Tensor bits = Tensor::zeros({n}, DType::boolean);
  CHECK_FALSE(any(bits).data<bool>()[0]);
  bits.mutable_data<bool>()[n - 1] = true;
  CHECK(any(bits).data<bool>()[0]);
  CHECK_FALSE(all(bits).data<bool>()[0]);
  CHECK(amax(bits).data<bool>()[0]);
}

TEST_CASE_TEMPLATE("Centred rows and columns have the mean 0 and keep their differences", T, float, double) {
  const Tensor x = numbers<T>({130, 301}, false, 11) + 1000.0;
  for (const std::int64_t axis : {0, 1}) {
    const Tensor y = center(x, {axis});
    CHECK(amax(abs(mean(y, {axis}))).item() < (sizeof(T) == 4 ? 1e-5 : 1e-13));
    CHECK(amax(abs((x - y) - mean(x, {axis}, true))).item() < (sizeof(T) == 4 ? 2e-4 : 1e-12));
  }
}

TEST_CASE("Long rows: the same bits for any number of threads") {
  const Tensor x = numbers<float>({700, 1100}, false, 13);
  const auto all = [&] {
    return std::vector<Tensor>{logsumexp(x, {1}),  logsumexp(x, {0}), center(x, {1}), center(x, {0}),
                               prod(x * 1.7, {1}), sort(x, 1).values, max(x, 0),      var(x, {1})};
  };
  parallel::set_threads(1);
  const std::vector<Tensor> alone = all();
  parallel::set_threads(3);
  const std::vector<Tensor> together = all();
  parallel::set_threads(0);
  for (std::size_t i = 0; i < alone.size(); ++i)
    CHECK(std::memcmp(alone[i].data<float>(), together[i].data<float>(),
                      static_cast<std::size_t>(alone[i].numel()) * sizeof(float)) == 0);
}
