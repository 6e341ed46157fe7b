// Products with few rows: against plain loops, and what their bits depend on.

#include "core/gemm/skinny_gemm.h"

#include "core/gemm/blas.h"
#include "core/ops.h"
#include "core/threads/parallel.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

using namespace eg;

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

/// Rows of `columns` elements inside wider ones.
template <class T> Tensor rows_of(std::int64_t rows, std::int64_t columns, std::int64_t ld, std::uint64_t seed) {
  return random_normal({rows, ld}, {61, seed}, 0.0, 1.0, dtype_of<T>).slice(1, 0, columns);
}

/// Of C = alpha A B^T + beta C or, with `plain`, of alpha A B + beta C: in units of eps sum |a| |b|, entry by entry.
/// Elements outside of C must not change.
template <class T>
double largest_error(std::int64_t m, std::int64_t n, std::int64_t k, double alpha, double beta, bool plain) {
  const Tensor a = rows_of<T>(m, k, k + 3, 1), b = plain ? rows_of<T>(k, n, n + 5, 2) : rows_of<T>(n, k, k + 5, 2);
  const Tensor before = random_normal({m, n + 2}, {62, 0}, 0.0, 1.0, dtype_of<T>);
  Tensor c = before.clone();
  const skinny_gemm::Operands<T> operands{.k = k,
                                          .alpha = static_cast<T>(alpha),
                                          .a = a.data<T>(),
                                          .lda = k + 3,
                                          .b = b.data<T>(),
                                          .ldb = (plain ? n : k) + 5,
                                          .beta = static_cast<T>(beta),
                                          .c = c.mutable_data<T>(),
                                          .ldc = n + 2};
  if (plain)
    skinny_gemm::product_of_rows(m, n, operands);
  else
    skinny_gemm::product(m, n, operands);
  double error = 0.0;
  const std::int64_t step = plain ? n + 5 : 1; // from one term of a column of B to the next
  for (std::int64_t i = 0; i < m; ++i)
    for (std::int64_t j = 0; j < n + 2; ++j) {
      double expected = before.at({i, j}), size = std::abs(expected) + 1.0;
      if (j < n) {
        expected *= beta;
        const T *const row = a.data<T>() + i * (k + 3), *const column = b.data<T>() + (plain ? j : j * (k + 5));
        for (std::int64_t l = 0; l < k; ++l) {
          const double term = alpha * static_cast<double>(row[l]) * static_cast<double>(column[l * step]);
          expected += term;
          size += std::abs(term);
        }
      }
      const double off = std::abs(c.at({i, j}) - expected);
      error = std::max(error, j < n ? off / (size * std::numeric_limits<T>::epsilon()) : off * infinity);
    }
  return error;
}

} // namespace

TEST_CASE("few rows: every number of rows, odd extents, leading dimensions, alpha and beta") {
  for (const bool plain : {false, true})
    for (std::int64_t m = 1; m <= skinny_gemm::most; ++m)
      for (const std::int64_t n : {1, 3, 4, 17, 600})
        for (const std::int64_t k : {1, 7, 16, 33, 250, 515}) {
          if (n * k > 20000 && m % 3 != 1) continue;
          CAPTURE(plain);
          CAPTURE(m);
          CAPTURE(n);
          CAPTURE(k);
          for (const double beta : {0.0, 1.0, -0.5}) {
            CHECK(largest_error<float>(m, n, k, 1.5, beta, plain) < 8.0);
            CHECK(largest_error<double>(m, n, k, 1.5, beta, plain) < 16.0); // the sum it is compared with rounds too
          }
        }
}

TEST_CASE("few rows: beta 0 does not read C") {
  const Tensor a = Tensor::ones({2, 5}), b = Tensor::ones({3, 5});
  Tensor c = Tensor::full({2, 3}, std::nan(""));
  skinny_gemm::product<float>(2, 3,
                              {5, 1.0F, a.data<float>(), 5, b.data<float>(), 5, 0.0F, c.mutable_data<float>(), 3});
  CHECK(same_bits(c, Tensor::full({2, 3}, 5.0)));
  const Tensor rows = Tensor::ones({5, 3});
  c = Tensor::full({2, 3}, std::nan(""));
  skinny_gemm::product_of_rows<float>(
      2, 3, {5, 1.0F, a.data<float>(), 5, rows.data<float>(), 3, 0.0F, c.mutable_data<float>(), 3});
  CHECK(same_bits(c, Tensor::full({2, 3}, 5.0)));
}

TEST_CASE("linear: a row's bits are the same beside others (up to few_rows::most), and for any number of threads") {
  const Tensor x = random_normal({skinny_gemm::most, 301}, {63, 0}), w = random_normal({701, 301}, {63, 1});
  const Tensor bias = random_normal({701}, {63, 2});
  const Tensor y = linear(x, w, bias);
  for (std::int64_t i = 0; i < skinny_gemm::most; ++i)
    CHECK(same_bits(linear(x.slice(0, i, i + 1), w, bias), y.slice(0, i, i + 1)));
  CHECK(same_bits(linear(x.slice(0, 2, 5), w, bias), y.slice(0, 2, 5)));
  for (const int threads : {1, 2, 3}) {
    parallel::set_threads(threads);
    CHECK(same_bits(linear(x, w, bias), y));
  }
  parallel::set_threads(0);
  // The columns' order does not matter either, as the order of W's rows.
  const Tensor order = random_nonidentity_permutation(701, {64, 0});
  CHECK(same_bits(linear(x, index_select(w, 0, order), index_select(bias, 0, order)), index_select(y, 1, order)));
  CHECK(relative_error(y.to(DType::f64), linear(x.to(DType::f64), w.to(DType::f64), bias.to(DType::f64))) < 1e-6);
  CHECK(relative_error(linear_gelu(x, w, bias), gelu(y)) < 1e-6);
}

TEST_CASE("matmul: few rows times a matrix have the same bits beside others, in any order, for any number of threads") {
  const Tensor x = random_normal({skinny_gemm::most, 301}, {65, 0}), w = random_normal({301, 701}, {65, 1});
  const Tensor y = matmul(x, w);
  for (std::int64_t i = 0; i < skinny_gemm::most; ++i)
    CHECK(same_bits(matmul(x.slice(0, i, i + 1), w), y.slice(0, i, i + 1)));
  for (const int threads : {1, 2, 3}) {
    parallel::set_threads(threads);
    CHECK(same_bits(matmul(x, w), y));
  }
  parallel::set_threads(0);
  const Tensor order = random_nonidentity_permutation(701, {66, 0});
  CHECK(same_bits(matmul(x, index_select(w, 1, order)), index_select(y, 1, order)));
  const Tensor inner = random_nonidentity_permutation(301, {66, 1}); // another order of the sums
  CHECK_FALSE(same_bits(matmul(index_select(x, 1, inner), index_select(w, 0, inner)), y));
  CHECK(relative_error(y.to(DType::f64), matmul(x.to(DType::f64), w.to(DType::f64))) < 1e-6);
}

TEST_CASE("matmul: a matrix times a vector is the product of the vector with its rows, bit for bit") {
  const Tensor w = random_normal({701, 301}, {67, 0}), v = random_normal({301, 1}, {67, 1});
  const Tensor y = matmul(w, v);
  CHECK(same_bits(y, linear(v.reshape({1, 301}), w).reshape({701, 1})));
  CHECK(relative_error(y.to(DType::f64), matmul(w.to(DType::f64), v.to(DType::f64))) < 1e-6);
  const Tensor strided = random_normal({301, 3}, {67, 2}).slice(1, 1, 2); // a column of a wider matrix
  CHECK(relative_error(matmul(w, strided).to(DType::f64), matmul(w.to(DType::f64), strided.to(DType::f64))) < 1e-6);
  const Tensor order = random_nonidentity_permutation(701, {68, 0});
  CHECK(same_bits(matmul(index_select(w, 0, order), v), index_select(y, 0, order)));
}

TEST_CASE("einsum: a dot product of each pair of rows") {
  const Tensor a = random_normal({5, 7, 90}, {69, 0}), b = random_normal({5, 7, 90}, {69, 1});
  const Tensor y = einsum("bij,bij->b", {a, b});
  CHECK(relative_error(y.to(DType::f64), sum(a.to(DType::f64) * b.to(DType::f64), {1, 2})) < 1e-6);
  const Tensor order = random_nonidentity_permutation(5, {70, 0});
  CHECK(same_bits(einsum("bij,bij->b", {index_select(a, 0, order), index_select(b, 0, order)}),
                  index_select(y, 0, order)));
}
