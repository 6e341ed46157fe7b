// Weights in 8 bits and in bf16: what a number loses, products against plain loops, and what their bits depend on.

#include "core/gemm/low_bit_weights.h"

#include "core/ops.h"
#include "core/threads/parallel.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>
#include <vector>

using namespace eg;

namespace {

/// Random numbers of type B in a tensor whose bytes they are: any code, or normal numbers in bf16.
template <class B> Tensor numbers_of(const Shape& shape, std::uint64_t seed) {
  if constexpr (std::is_same_v<B, std::int8_t>) {
    return random_integers(shape, {71, seed}, 0, 256).to(DType::u8);
  } else {
    return random_normal(shape, {71, seed}).to(DType::bf16);
  }
}
template <class B> const B* numbers(const Tensor& x) { return reinterpret_cast<const B*>(x.bytes()); }

/// Random operands of a product, and the products in double by plain loops.
template <class T, class B> struct Operands {
  static constexpr bool scaled = std::is_same_v<B, std::int8_t>;
  std::int64_t m, n, k, lda = k + 3, ldb = k + 5, ldc = n + 2;
  double alpha;
  Tensor a = random_normal({m, lda}, {72, 0}, 0.0, 1.0, dtype_of<T>);
  Tensor b = numbers_of<B>({n, ldb}, 1);
  Tensor scales = random_uniform({n}, {72, 2}, 0.01, 0.02, dtype_of<T>);
  Tensor before = random_normal({m, ldc}, {72, 3}, 0.0, 1.0, dtype_of<T>);
  Tensor bias = random_normal({n}, {72, 4}, 0.0, 1.0, dtype_of<T>);
  std::vector<double> sums, sizes; ///< [n, m]: alpha sum a b, and the sum of the terms' magnitudes

  Operands(std::int64_t rows, std::int64_t columns, std::int64_t terms, double factor)
      : m(rows), n(columns), k(terms), alpha(factor) {
    std::vector<double> weights(static_cast<std::size_t>(k)); // a row of B
    for (std::int64_t j = 0; j < n; ++j) {
      const double scale = scaled ? static_cast<double>(scales.data<T>()[j]) : 1.0;
      for (std::int64_t l = 0; l < k; ++l)
        weights[static_cast<std::size_t>(l)] = scale * static_cast<double>(numbers<B>(b)[j * ldb + l]);
      for (std::int64_t i = 0; i < m; ++i) {
        const T* const row = a.data<T>() + i * lda;
        double sum = 0.0, size = 0.0;
        for (std::int64_t l = 0; l < k; ++l) {
          const double term = static_cast<double>(row[l]) * weights[static_cast<std::size_t>(l)];
          sum += term;
          size += std::abs(term);
        }
        sums.push_back(alpha * sum);
        sizes.push_back(std::abs(alpha) * size);
      }
    }
  }
  /// How far the product is from these, over eps k sum |a| |b|: at most about 1.
  double error(bool biased, bool added) const {
    Tensor c = before.clone();
    low_bit_weights::product<T, B>(m, n,
                                   {.k = k,
                                    .alpha = static_cast<T>(alpha),
                                    .a = a.data<T>(),
                                    .lda = lda,
                                    .b = numbers<B>(b),
                                    .ldb = ldb,
                                    .c = c.mutable_data<T>(),
                                    .ldc = ldc,
                                    .scales = scaled ? scales.data<T>() : nullptr},
                                   {biased ? bias.data<T>() : nullptr, added ? before.data<T>() : nullptr, ldc});
    double worst = 0.0;
    for (std::int64_t i = 0; i < m; ++i)
      for (std::int64_t j = 0; j < ldc; ++j) {
        const auto found = static_cast<double>(c.data<T>()[i * ldc + j]);
        double expected = static_cast<double>(before.data<T>()[i * ldc + j]), size = std::abs(expected);
        if (j < n) {
          const auto shift = static_cast<double>(bias.data<T>()[j]);
          const auto at = static_cast<std::size_t>(j * m + i);
          expected = (biased ? shift : 0.0) + (added ? expected : 0.0) + sums[at];
          size += std::abs(shift) + sizes[at];
        } else if (found != expected) {
          return INFINITY; // wrote beside C
        }
        const double bound = std::numeric_limits<T>::epsilon() * static_cast<double>(k + 3) * size;
        worst = std::max(worst, std::abs(found - expected) / bound);
      }
    return worst;
  }
};

template <class T, class B> void check_product(std::int64_t m, std::int64_t n, std::int64_t k) {
  CAPTURE(m);
  CAPTURE(n);
  CAPTURE(k);
  const Operands<T, B> given(m, n, k, 1.5);
  for (const bool biased : {false, true})
    for (const bool added : {false, true}) CHECK(given.error(biased, added) < 1.0);
}

template <class B> void check_products() {
  for (const std::int64_t m : {1, 2, 3, 4, 5, 6, 7, 8, 9, 20})
    for (const std::int64_t n : {1, 3, 4, 17})
      for (const std::int64_t k : {0, 1, 7, 8, 15, 16, 17, 33, 250}) check_product<float, B>(m, n, k);
  check_product<float, B>(1, 90, 768);   // two pieces of 64 KiB and one row more
  check_product<float, B>(9, 40, 40000); // 26 rows are widened at a time
  for (const std::int64_t m : {1, 9})
    for (const std::int64_t k : {1, 8, 33}) check_product<double, B>(m, 5, k);
}

Tensor codes_as_numbers(const Int8Matrix& m) {
  return dequantize_int8(m.codes, Tensor::ones(m.scales.shape(), m.scales.dtype()));
}

} // namespace

TEST_CASE("narrow products: every number of rows, odd extents, leading dimensions, alpha, bias and addend") {
  check_products<std::int8_t>();
  check_products<BFloat16>();
}

TEST_CASE("quantize_int8: no number is off by more than half a step, and steps are as small as they can be") {
  for (const double size : {1e-30, 1e-3, 1.0, 1e30}) {
    const Tensor w = random_normal({37, 129}, {73, 0}, 0.0, size);
    const Int8Matrix m = quantize_int8(w);
    const Tensor wide = dequantize_int8(m.codes, m.scales), q = codes_as_numbers(m);
    for (std::int64_t o = 0; o < 37; ++o) {
      const double scale = m.scales.at({o});
      double largest = 0.0, most = 0.0;
      for (std::int64_t i = 0; i < 129; ++i) {
        CHECK(std::abs(w.at({o, i}) - wide.at({o, i})) <= scale / 2 * (1 + 1e-15));
        largest = std::max(largest, std::abs(w.at({o, i})));
        most = std::max(most, std::abs(q.at({o, i})));
      }
      CHECK(most == 127.0);
      CHECK(std::abs(scale * 127.0 / largest - 1.0) <= 0x1p-16);
    }
    CHECK(same_bits(wide.to(DType::f64), dequantize_int8(m.codes, m.scales.to(DType::f64)))); // no product was rounded
    const Int8Matrix in_f64 = quantize_int8(w.to(DType::f64));
    CHECK(same_bits(in_f64.codes, m.codes));
    CHECK(same_bits(in_f64.scales, m.scales.to(DType::f64)));
  }
}

TEST_CASE("quantize_int8: rows of zeros, subnormal rows, the largest numbers") {
  Tensor w = Tensor::zeros({4, 3});
  auto* at = w.mutable_data<float>();
  at[3] = 1e-45F; // the least subnormal number: lost
  at[6] = 1e-37F;
  at[7] = -1e-38F;
  at[9] = std::numeric_limits<float>::max();
  at[10] = -at[9];
  at[11] = at[9] / 2;
  const Int8Matrix m = quantize_int8(w);
  const Tensor wide = dequantize_int8(m.codes, m.scales);
  for (std::int64_t i = 0; i < 3; ++i) {
    CHECK(wide.at({0, i}) == 0.0);
    CHECK(wide.at({1, i}) == 0.0);
    CHECK(std::abs(wide.at({2, i}) - w.at({2, i})) <= m.scales.at({2}) / 2);
    CHECK(std::isfinite(wide.at({3, i})));
    CHECK(std::abs(wide.at({3, i}) - w.at({3, i})) <= m.scales.at({3}) / 2);
  }
  CHECK(std::isfinite(m.scales.at({0})));
  const Tensor x = random_normal({2, 3}, {74, 0});
  CHECK(linear_int8(x, m.codes.slice(0, 0, 1), m.scales.slice(0, 0, 1)).at({0, 0}) == 0.0);
}

TEST_CASE("quantize_int8 refuses NaN and infinities and says where the first is, for any number of threads") {
  Tensor w = random_normal({500, 100}, {75, 0});
  w.mutable_data<float>()[320 * 100 + 7] = NAN;
  w.mutable_data<float>()[460 * 100 + 9] = INFINITY;
  for (const int threads : {1, 2, 3}) {
    parallel::set_threads(threads);
    CHECK_THROWS_WITH_AS(quantize_int8(w), "quantize_int8: weight is nan at [320, 7]", ValueError);
    CHECK_THROWS_WITH_AS(quantize_int8(w.slice(0, 400, 500).to(DType::f64)), "quantize_int8: weight is inf at [60, 9]",
                         ValueError);
  }
  parallel::set_threads(0);
}

TEST_CASE("quantising commutes with permutations of rows and of columns, bit for bit") {
  const Tensor w = random_normal({65, 33}, {76, 0});
  const Tensor rows = random_nonidentity_permutation(65, {76, 1}),
               columns = random_nonidentity_permutation(33, {76, 2});
  const Int8Matrix m = quantize_int8(w);
  const Int8Matrix moved = quantize_int8(index_select(index_select(w, 0, rows), 1, columns));
  CHECK(same_bits(moved.codes, index_select(index_select(m.codes, 0, rows), 1, columns)));
  CHECK(same_bits(moved.scales, index_select(m.scales, 0, rows)));
  CHECK_FALSE(same_bits(moved.scales, m.scales));
}

namespace {

/// One way to keep a weight: y(x) of rows of W in the order given.
using Product = Tensor (*)(const Tensor& x, const Tensor& weight, const Tensor& bias);

Tensor by_int8(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  const Int8Matrix m = quantize_int8(weight);
  return linear_int8(x, m.codes, m.scales, bias);
}
Tensor by_bf16(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  return linear_bf16(x, weight.to(DType::bf16), bias);
}

} // namespace

TEST_CASE(
    "narrow weights: a row's bits are the same beside others, for any number of threads, and move with W's rows") {
  const Tensor w = random_normal({701, 301}, {77, 0}), bias = random_normal({701}, {77, 1});
  const Tensor many = random_normal({40, 301}, {77, 2});
  const Tensor few = many.slice(0, 0, skinny_gemm::most);
  const Tensor order = random_nonidentity_permutation(701, {77, 3});
  for (const Product product : {by_int8, by_bf16}) {
    const Tensor y = product(few, w, bias);
    for (std::int64_t i = 0; i < skinny_gemm::most; ++i)
      CHECK(same_bits(product(few.slice(0, i, i + 1), w, bias), y.slice(0, i, i + 1)));
    for (const Tensor& x : {few, many}) {
      const Tensor whole = product(x, w, bias);
      for (const int threads : {1, 2, 3}) {
        parallel::set_threads(threads);
        CHECK(same_bits(product(x, w, bias), whole));
      }
      parallel::set_threads(0);
      const Tensor moved = product(x, index_select(w, 0, order), index_select(bias, 0, order));
      CHECK(same_bits(moved, index_select(whole, 1, order)));
      CHECK_FALSE(same_bits(product(x, index_select(w, 0, order), bias), index_select(whole, 1, order))); // bias stayed
    }
    CHECK(relative_error(product(many, w, bias).slice(0, 0, skinny_gemm::most), y) < 1e-6); // another order of sums
    CHECK(relative_error(y, linear(few, w, bias)) < 0.02);
  }
  const Int8Matrix m = quantize_int8(w);
  const Tensor wrong = linear_int8(few, index_select(m.codes, 0, order), m.scales); // the scales stayed
  CHECK_FALSE(same_bits(wrong, index_select(linear_int8(few, m.codes, m.scales), 1, order)));
}

TEST_CASE("linear_int8 and linear_bf16 are linear of the matrix that they stand for") {
  const Tensor w = random_normal({67, 45}, {78, 0}), bias = random_normal({67}, {78, 1});
  const Int8Matrix m = quantize_int8(w);
  for (const std::int64_t rows : {3, 30}) {
    const Tensor wider = random_normal({rows, 301}, {78, 4}), table = random_normal({211, 301}, {78, 5});
    const Int8Matrix large = quantize_int8(table);
    const Tensor same = linear(wider, dequantize_int8(large.codes, large.scales)); // f32 has a kernel for few rows too
    CHECK((same_bits(linear_int8(wider, large.codes, large.scales), same) || rows > skinny_gemm::most));
    CHECK((same_bits(linear_bf16(wider, table.to(DType::bf16)), linear(wider, table.to(DType::bf16))) ||
           rows > skinny_gemm::most));
    const Tensor x = random_normal({rows, 45}, {78, 2}), addend = random_normal({rows, 67}, {78, 3});
    const auto wide = [](const Tensor& t) { return t.to(DType::f64); };
    const Tensor int8 = linear_int8(x, m.codes, m.scales, bias, addend);
    CHECK(relative_error(wide(int8), linear_int8(wide(x), m.codes, wide(m.scales), wide(bias), wide(addend))) < 1e-6);
    CHECK(relative_error(int8, linear(x, dequantize_int8(m.codes, m.scales), bias, addend)) < 1e-6);
    const Tensor half = w.to(DType::bf16);
    const Tensor bf16 = linear_bf16(x, half, bias, addend);
    CHECK(relative_error(bf16, linear(x, half.to(DType::f32), bias, addend)) < 1e-6);
    CHECK(relative_error(wide(bf16), linear_bf16(wide(x), half, wide(bias), wide(addend))) < 1e-6);
  }
}
