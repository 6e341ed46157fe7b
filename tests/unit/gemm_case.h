#pragma once
// What our two matrix products (gemm.h, gemm_bf16.h) are asked alike.

#include "core/gemm/gemm.h"
#include "core/ops.h"

#include <cmath>
#include <doctest/doctest.h>
#include <limits>
#include <vector>

namespace eg::test {

template <class T> using Multiply = void (*)(const gemm::Product<T>&, FunctionRef<void(const blas::Tile&)>);

inline constexpr auto nothing = [](const blas::Tile&) {};

/// A product of random operands that lie in matrices with `gap` more columns, C among NaN.
template <class T> struct GemmCase {
  std::int64_t m, n, k;
  bool ta, tb;
  std::int64_t gap = 3;
  Tensor a = random_normal(ta ? Shape{k, m + gap} : Shape{m, k + gap}, {3, 1}, 0, 1, dtype_of<T>);
  Tensor b = random_normal(tb ? Shape{n, k + gap} : Shape{k, n + gap}, {3, 2}, 0, 1, dtype_of<T>);

  gemm::Product<T> product(Tensor& c, T alpha, T beta, bool parallel) const {
    const blas::Matrix<T> left{a.data<T>(), a.size(1), ta}, right{b.data<T>(), b.size(1), tb};
    return {m, n, k, alpha, left, right, beta, c.mutable_data<T>(), c.size(1), parallel};
  }
  Tensor by(Multiply<T> multiply, T alpha, T beta, bool parallel) const {
    Tensor c = Tensor::full({m, n + gap}, beta == T(0) ? std::numeric_limits<double>::quiet_NaN() : 2.0, dtype_of<T>);
    multiply(product(c, alpha, beta, parallel), nothing);
    return c;
  }
  /// Line i of the left operand's rows, or of the right one's columns.
  std::vector<double> row(std::int64_t i) const { return line(a, i, !ta); }
  std::vector<double> column(std::int64_t j) const { return line(b, j, tb); }

private:
  std::vector<double> line(const Tensor& x, std::int64_t i, bool along) const {
    std::vector<double> values(static_cast<std::size_t>(k));
    const T* const data = x.data<T>();
    const std::int64_t ld = x.size(1);
    for (std::int64_t p = 0; p < k; ++p)
      values[static_cast<std::size_t>(p)] = static_cast<double>(along ? data[i * ld + p] : data[p * ld + i]);
    return values;
  }
};

/// |C - (alpha A B + before)| against eps (k |alpha| |A||B| + |before|), with the operands as `rounded` makes them, at
/// elements in every place of a register's rows and lanes.
template <class T>
bool is_right(const GemmCase<T>& given, const Tensor& c, double alpha, double before, double (*rounded)(double)) {
  const auto lines = [&](std::int64_t count, std::int64_t step, auto&& get) {
    std::vector<std::pair<std::int64_t, std::vector<double>>> found;
    for (std::int64_t i = 0; i < count; i += step) {
      found.push_back({i, get(i)});
      for (double& x : found.back().second) x = rounded(x);
    }
    return found;
  };
  const auto columns = lines(given.n, given.n > 60 ? 11 : 1, [&](std::int64_t j) { return given.column(j); });
  for (const auto& [i, row] : lines(given.m, given.m > 60 ? 7 : 1, [&](std::int64_t r) { return given.row(r); }))
    for (const auto& [j, column] : columns) {
      double sum = 0, size = 0;
      const double* y = column.data();
      for (const double x : row) {
        const double term = x * *y++;
        sum += term;
        size += std::abs(term);
      }
      const double eps = std::numeric_limits<T>::epsilon();
      const double bound = eps * (static_cast<double>(given.k) * std::abs(alpha) * size + std::abs(before) + 1e-6);
      if (!(std::abs(c.at({i, j}) - (alpha * sum + before)) <= bound)) return false;
    }
  return true;
}

/// Every transposition, C overwritten and added to: right, and nothing written beside C.
template <class T>
void check_product(Multiply<T> multiply, double (*rounded)(double), std::int64_t m, std::int64_t n, std::int64_t k) {
  for (const bool ta : {false, true})
    for (const bool tb : {false, true})
      for (const T beta : {T(0), T(3)}) {
        const GemmCase<T> given{m, n, k, ta, tb};
        const Tensor c = given.by(multiply, T(0.5), beta, m > 20);
        bool untouched = true; // the columns behind C
        for (std::int64_t i = 0; i < m; ++i)
          for (std::int64_t j = n; j < n + given.gap; ++j)
            untouched = untouched && (beta == T(0) ? std::isnan(c.at({i, j})) : c.at({i, j}) == 2.0);
        CHECK_MESSAGE(is_right(given, c, 0.5, 2.0 * static_cast<double>(beta), rounded),
                      m << "x" << n << "x" << k << (ta ? " T" : " N") << (tb ? "T" : "N"));
        CHECK_MESSAGE(untouched, m << "x" << n << "x" << k << (ta ? " T" : " N") << (tb ? "T" : "N"));
      }
}

/// The bits of a part of C, and of C transposed, are those of the whole.
inline void check_bits_of_parts(Multiply<float> multiply, std::int64_t k) {
  const std::int64_t m = 40, n = 70, rows = 3, columns = 21, row = 17, col = 30;
  for (const bool tb : {false, true}) {
    const GemmCase<float> given{m, n, k, false, tb, 0};
    const Tensor whole = given.by(multiply, 1.0F, 0.0F, true);
    const float *a = given.a.data<float>(), *b = given.b.data<float>();
    const std::int64_t ldb = given.b.size(1);
    Tensor part = Tensor::empty({rows, columns});
    multiply({rows,
              columns,
              k,
              1.0F,
              {a + row * k, k, false},
              {b + (tb ? col * k : col), ldb, tb},
              0.0F,
              part.mutable_data<float>(),
              columns},
             nothing);
    CHECK(same_bits(part, slice(slice(whole, 0, row, row + rows), 1, col, col + columns).contiguous()));
    // The other way around: the roles of rows and columns, and of packed and read in place.
    Tensor transposed = Tensor::empty({n, m});
    multiply({n, m, k, 1.0F, {b, ldb, !tb}, {a, k, true}, 0.0F, transposed.mutable_data<float>(), m}, nothing);
    CHECK(same_bits(transposed.transpose(0, 1).contiguous(), whole.contiguous()));
  }
}

/// Bias and addend, alone and together: the bits of a C that was filled with them beforehand and added to.
inline void check_addends(Multiply<float> multiply, std::int64_t m) {
  const std::int64_t n = 75;
  const Tensor bias = random_normal({n}, {3, 3}), addend = random_normal({m, n + 5}, {3, 4});
  for (const bool tb : {false, true})
    for (const int given : {1, 2, 3}) {
      const GemmCase<float> product{m, n, 1100, false, tb, 0};
      const blas::Addends<float> plus{(given & 1) != 0 ? bias.data<float>() : nullptr,
                                      (given & 2) != 0 ? addend.data<float>() : nullptr, n + 5};
      Tensor added = Tensor::full({m, n}, std::numeric_limits<double>::quiet_NaN()), filled = Tensor::empty({m, n});
      gemm::Product<float> p = product.product(added, 1.0F, 0.0F, true);
      p.plus = plus;
      multiply(p, nothing);
      plus.fill(m, n, filled.mutable_data<float>(), n);
      CHECK(filled.at({m - 1, n - 1}) ==
            ((given & 1) != 0 ? bias.data<float>()[n - 1] : 0.0F) +
                ((given & 2) != 0 ? addend.data<float>()[(m - 1) * (n + 5) + n - 1] : 0.0F));
      multiply(product.product(filled, 1.0F, 1.0F, true), nothing);
      CHECK_MESSAGE(same_bits(added, filled), m << (tb ? " NT, " : " NN, ") << given);
    }
}

/// Every block of C is announced after it is whole, once.
inline void check_announcements(Multiply<float> multiply, std::int64_t m) {
  const std::int64_t n = 530;
  const GemmCase<float> given{m, n, 1100, false, true, 0};
  const Tensor plain = given.by(multiply, 1.0F, 0.0F, true);
  Tensor c = Tensor::full({m, n}, std::numeric_limits<double>::quiet_NaN());
  float* const out = c.mutable_data<float>();
  const auto each = [&](const blas::Tile& t, auto&& change) {
    for (std::int64_t i = t.row; i < t.row + t.rows; ++i)
      for (std::int64_t j = t.col; j < t.col + t.cols; ++j) change(out[i * n + j]);
  };
  multiply(given.product(c, 1.0F, 0.0F, true), [&](const blas::Tile& t) { each(t, [](float& x) { x *= 2.0F; }); });
  CHECK(same_bits(c, plain * 2.0));
}

} // namespace eg::test
