// Our own product: sizes on both sides of every cut, operands inside larger matrices, and what its bits depend on.

#include "core/gemm.h"
#include "core/ops.h"
#include "core/parallel.h"

#include <cmath>
#include <doctest/doctest.h>
#include <limits>

using namespace eg;

namespace {

const auto nothing = [](const blas::Tile&) {};

/// A product of random operands that lie in matrices with `gap` more columns, C among NaN.
template <class T> struct Case {
  std::int64_t m, n, k;
  bool ta, tb;
  std::int64_t gap = 3;
  Tensor a = random_normal(ta ? Shape{k, m + gap} : Shape{m, k + gap}, {3, 1}, 0, 1, dtype_of<T>);
  Tensor b = random_normal(tb ? Shape{n, k + gap} : Shape{k, n + gap}, {3, 2}, 0, 1, dtype_of<T>);

  Tensor product(T alpha, T beta, bool parallel) const {
    Tensor c = Tensor::full({m, n + gap}, beta == T(0) ? std::numeric_limits<double>::quiet_NaN() : 2.0, dtype_of<T>);
    gemm::product<T>({m,
                      n,
                      k,
                      alpha,
                      {a.data<T>(), a.size(1), ta},
                      {b.data<T>(), b.size(1), tb},
                      beta,
                      c.mutable_data<T>(),
                      n + gap,
                      parallel},
                     nothing, nothing);
    return c;
  }
  double left(std::int64_t i, std::int64_t p) const { return ta ? a.at({p, i}) : a.at({i, p}); }
  double right(std::int64_t p, std::int64_t j) const { return tb ? b.at({j, p}) : b.at({p, j}); }
};

template <class T> void check_product(std::int64_t m, std::int64_t n, std::int64_t k) {
  for (const bool ta : {false, true})
    for (const bool tb : {false, true})
      for (const T beta : {T(0), T(3)}) {
        const Case<T> given{m, n, k, ta, tb};
        const Tensor c = given.product(T(0.5), beta, m > 20);
        bool within = true;
        const std::int64_t i_step = m > 60 ? 7 : 1,
                           j_step = n > 60 ? 11 : 1; // every place in a register's row and lane
        for (std::int64_t i = 0; i < m; i += i_step)
          for (std::int64_t j = 0; j < n; j += j_step) {
            double sum = 0;
            double size = 0;
            for (std::int64_t p = 0; p < k; ++p) {
              const double term = given.left(i, p) * given.right(p, j);
              sum += term;
              size += std::abs(term);
            }
            const double expected = 0.5 * sum + (beta == T(0) ? 0.0 : 6.0);
            const double eps = std::numeric_limits<T>::epsilon();
            within = within && std::abs(c.at({i, j}) - expected) <= eps * (static_cast<double>(k) * 0.5 * size + 8.0);
          }
        bool untouched = true; // the columns behind C
        for (std::int64_t i = 0; i < m; ++i)
          for (std::int64_t j = n; j < n + given.gap; ++j)
            untouched = untouched && (beta == T(0) ? std::isnan(c.at({i, j})) : c.at({i, j}) == 2.0);
        CHECK_MESSAGE(within, m << "x" << n << "x" << k << (ta ? " T" : " N") << (tb ? "T" : "N"));
        CHECK_MESSAGE(untouched, m << "x" << n << "x" << k << (ta ? " T" : " N") << (tb ? "T" : "N"));
      }
}

} // namespace

TEST_CASE("the packed product is right on both sides of every cut") {
  REQUIRE(gemm::available());
  for (const std::int64_t m : {1, 5, 11, 12, 13, 25})
    for (const std::int64_t n : {1, 7, 15, 16, 17, 33, 63}) check_product<float>(m, n, 9);
  check_product<float>(37, 300, 515);
  check_product<float>(600, 37, 1030); // not swapped
  check_product<float>(49, 530, 512);
  check_product<double>(13, 17, 5);
  check_product<double>(29, 143, 700);
}

TEST_CASE("regions larger than what is packed at once add up") {
  // 16 MiB are packed at once: regions of at most 4 Mi floats or 2 Mi doubles.
  check_product<float>(14, 130, 30000); // along k; with 14 rows and both operands along k: swapped
  check_product<float>(9, 9000, 600);   // along the columns
  check_product<float>(513, 3, 150000); // swapped is not, but for one operand: three narrow regions along k
  check_product<double>(14, 130, 15000);
}

TEST_CASE("an element's bits depend on its row, its column and k alone") {
  const std::int64_t m = 40, n = 70, k = 600;
  for (const bool tb : {false, true}) {
    const Case<float> given{m, n, k, false, tb, 0};
    const Tensor whole = given.product(1.0F, 0.0F, true);
    const std::int64_t rows = 3, columns = 21, from_row = 17, from_col = 30;
    Tensor part = Tensor::empty({rows, columns});
    const float* b = given.b.data<float>() + (tb ? from_col * k : from_col);
    gemm::product<float>({rows,
                          columns,
                          k,
                          1.0F,
                          {given.a.data<float>() + from_row * k, k, false},
                          {b, tb ? k : n, tb},
                          0.0F,
                          part.mutable_data<float>(),
                          columns},
                         nothing, nothing);
    CHECK(same_bits(part,
                    slice(slice(whole, 0, from_row, from_row + rows), 1, from_col, from_col + columns).contiguous()));
    // The other way around: the roles of rows and columns, and of packed and read in place.
    Tensor transposed = Tensor::empty({n, m});
    gemm::product<float>({n,
                          m,
                          k,
                          1.0F,
                          {given.b.data<float>(), tb ? k : n, !tb},
                          {given.a.data<float>(), k, true},
                          0.0F,
                          transposed.mutable_data<float>(),
                          m},
                         nothing, nothing);
    CHECK(same_bits(transposed.transpose(0, 1).contiguous(), whole.contiguous()));
  }
}

TEST_CASE("blocks are announced before they are written and after they are whole") {
  for (const std::int64_t m : {30, 700}) { // swapped and not
    const Case<float> given{m, 530, 1100, false, true, 0};
    const Tensor plain = given.product(1.0F, 0.0F, true);
    Tensor c = Tensor::full({m, 530}, std::numeric_limits<double>::quiet_NaN());
    float* out = c.mutable_data<float>();
    const auto each = [&](const blas::Tile& t, auto&& change) {
      for (std::int64_t i = t.row; i < t.row + t.rows; ++i)
        for (std::int64_t j = t.col; j < t.col + t.cols; ++j) change(out[i * 530 + j]);
    };
    gemm::product<float>(
        {m,
         530,
         1100,
         1.0F,
         {given.a.data<float>(), 1100, false},
         {given.b.data<float>(), 1100, true},
         1.0F,
         out,
         530,
         true},
        [&](const blas::Tile& t) { each(t, [](float& x) { x = 0.0F; }); },
        [&](const blas::Tile& t) { each(t, [](float& x) { x *= 2.0F; }); });
    CHECK(same_bits(c, plain * 2.0));
  }
}
