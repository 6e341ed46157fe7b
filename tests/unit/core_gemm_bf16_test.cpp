// Products in bf16: against operands rounded beforehand and sums in double, what their bits depend on, and what sees
// the scope.

#include "autograd/checkpoint.h"
#include "autograd/tape.h"
#include "core/bf16.h"
#include "core/error.h"
#include "core/gemm_bf16.h"
#include "core/ops.h"
#include "core/parallel.h"
#include "core/products.h"
#include "core/reduction.h"

#include <cmath>
#include <doctest/doctest.h>
#include <limits>
#include <optional>

using namespace eg;

namespace {

const auto nothing = [](const blas::Tile&) {};

/// False, with a message, where there is nothing to test.
bool has_bf16() {
  if (!gemm::bf16_available()) MESSAGE("skipped: this processor has no AVX512-BF16");
  return gemm::bf16_available();
}

double rounded(double x) { return static_cast<double>(static_cast<float>(BFloat16(static_cast<float>(x)))); }

/// A product of random operands that lie in matrices with `gap` more columns, C among NaN.
struct Case {
  std::int64_t m, n, k;
  bool ta, tb;
  std::int64_t gap = 3;
  Tensor a = random_normal(ta ? Shape{k, m + gap} : Shape{m, k + gap}, {5, 1});
  Tensor b = random_normal(tb ? Shape{n, k + gap} : Shape{k, n + gap}, {5, 2});

  gemm::Product<float> product(Tensor& c, float alpha, float beta, bool parallel) const {
    return {m,
            n,
            k,
            alpha,
            {a.data<float>(), a.size(1), ta},
            {b.data<float>(), b.size(1), tb},
            beta,
            c.mutable_data<float>(),
            c.size(1),
            parallel};
  }
  Tensor in_bf16(float alpha, float beta, bool parallel) const {
    Tensor c = Tensor::full({m, n + gap}, beta == 0.0F ? std::numeric_limits<double>::quiet_NaN() : 2.0);
    gemm::product_bf16(product(c, alpha, beta, parallel), nothing, nothing);
    return c;
  }
  double left(std::int64_t i, std::int64_t p) const { return ta ? a.at({p, i}) : a.at({i, p}); }
  double right(std::int64_t p, std::int64_t j) const { return tb ? b.at({j, p}) : b.at({p, j}); }
};

/// |C - what operands rounded beforehand give| against eps k (|A||B|) in f32.
bool is_right(const Case& given, const Tensor& c, double alpha, double before) {
  const std::int64_t i_step = given.m > 60 ? 7 : 1, j_step = given.n > 60 ? 11 : 1; // every register row and lane
  for (std::int64_t i = 0; i < given.m; i += i_step)
    for (std::int64_t j = 0; j < given.n; j += j_step) {
      double sum = 0, size = 0;
      for (std::int64_t p = 0; p < given.k; ++p) {
        const double term = rounded(given.left(i, p)) * rounded(given.right(p, j));
        sum += term;
        size += std::abs(term);
      }
      const double eps = std::numeric_limits<float>::epsilon();
      const double bound = eps * (static_cast<double>(given.k) * std::abs(alpha) * size + std::abs(before) + 1e-6);
      if (!(std::abs(c.at({i, j}) - (alpha * sum + before)) <= bound)) return false;
    }
  return true;
}

void check_product(std::int64_t m, std::int64_t n, std::int64_t k) {
  for (const bool ta : {false, true})
    for (const bool tb : {false, true})
      for (const float beta : {0.0F, 3.0F}) {
        const Case given{m, n, k, ta, tb};
        const Tensor c = given.in_bf16(0.5F, beta, m > 20);
        bool untouched = true; // the columns behind C
        for (std::int64_t i = 0; i < m; ++i)
          for (std::int64_t j = n; j < n + given.gap; ++j)
            untouched = untouched && (beta == 0.0F ? std::isnan(c.at({i, j})) : c.at({i, j}) == 2.0);
        CHECK_MESSAGE(is_right(given, c, 0.5, 2.0 * beta), m << "x" << n << "x" << k << (ta ? " T" : " N") << tb);
        CHECK_MESSAGE(untouched, m << "x" << n << "x" << k << (ta ? " T" : " N") << tb);
      }
}

Tensor matrix(std::int64_t rows, std::int64_t columns, std::uint64_t tag) {
  return random_normal({rows, columns}, {7, tag});
}

/// An attention block with a product on either side, and its gradients.
struct Block {
  Tensor x = random_normal({2, 20, 24}, {8, 1}), w = random_normal({72, 24}, {8, 2}, 0.0, 0.2),
         out = random_normal({24, 24}, {8, 3}, 0.0, 0.2);

  Tensor value(const Tensor& in) const { return linear(gelu(attention_qkv(linear(in, w), 3)), out); }
  std::vector<Tensor> gradients(bool checkpointed) const {
    Tape tape;
    const Tensor y = checkpointed ? checkpoint([this](const Tensor& in) { return value(in); }, x) : value(x);
    return tape.gradient(sum(y * y), {x, w, out});
  }
};

} // namespace

TEST_CASE("bf16 products are those of rounded operands on both sides of every cut") {
  if (!has_bf16()) return;
  for (const std::int64_t m : {1, 5, 11, 12, 13, 25})
    for (const std::int64_t n : {1, 7, 15, 16, 17, 31, 32, 33, 63})
      for (const std::int64_t k : {1, 2, 7, 8, 9}) check_product(m, n, k);
  check_product(37, 300, 515);
  check_product(600, 37, 1030);
  check_product(49, 530, 512);
  check_product(14, 530, 1027);
}

TEST_CASE("bf16 products larger than what is packed at once add up") {
  if (!has_bf16()) return;
  check_product(14, 130, 65001); // 16 MiB are packed at once: 8 Mi terms
}

TEST_CASE("bf16 rounding is seen: generic operands do not give the f32 product") {
  if (!has_bf16()) return;
  const Case given{40, 50, 60, false, true};
  Tensor full = Tensor::full({40, 53}, 0.0);
  gemm::product<float>(given.product(full, 1.0F, 0.0F, false), nothing, nothing);
  CHECK_FALSE(is_right(given, full, 1.0, 0.0)); // the check can tell the two apart
  const double apart = relative_error(slice(given.in_bf16(1.0F, 0.0F, false), 1, 0, 50), slice(full, 1, 0, 50));
  CHECK(apart > 1e-4);
  CHECK(apart < 2e-2);
}

TEST_CASE("an element's bits in bf16 depend on its row, its column and k alone") {
  if (!has_bf16()) return;
  const std::int64_t m = 40, n = 70, k = 601;
  for (const bool tb : {false, true}) {
    const Case given{m, n, k, false, tb, 0};
    const Tensor whole = given.in_bf16(1.0F, 0.0F, true);
    const std::int64_t rows = 3, columns = 21, row = 17, col = 30;
    const float* b = given.b.data<float>() + (tb ? col * k : col);
    Tensor part = Tensor::empty({rows, columns});
    gemm::product_bf16({rows,
                        columns,
                        k,
                        1.0F,
                        {given.a.data<float>() + row * k, k, false},
                        {b, tb ? k : n, tb},
                        0.0F,
                        part.mutable_data<float>(),
                        columns},
                       nothing, nothing);
    CHECK(same_bits(part, slice(slice(whole, 0, row, row + rows), 1, col, col + columns).contiguous()));
    // The other way around: the roles of rows and columns.
    Tensor transposed = Tensor::empty({n, m});
    gemm::product_bf16({n,
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

TEST_CASE("bf16 products have the same bits for any number of threads") {
  if (!has_bf16()) return;
  const ProductsScope scope(Products::bf16);
  const Tensor a = matrix(300, 700, 1), b = matrix(400, 700, 2), x = random_normal({3, 4, 9, 9}, {7, 3}),
               w = random_normal({5, 4, 3, 3}, {7, 4}), batch = random_normal({20, 9, 11}, {7, 5});
  std::vector<Tensor> first;
  for (const int threads : {1, 2, 3}) {
    parallel::set_threads(threads);
    const std::vector<Tensor> found = {matmul(a, b, false, true), conv2d(x, w), matmul(batch, batch, true),
                                       Block().value(Block().x)};
    if (first.empty()) first = found;
    for (std::size_t i = 0; i < found.size(); ++i) CHECK(same_bits(found[i], first[i]));
  }
  parallel::set_threads(0);
}

TEST_CASE("bf16 blocks are announced before they are written and after they are whole") {
  if (!has_bf16()) return;
  for (const std::int64_t m : {30, 700}) {
    const Case given{m, 530, 1100, false, true, 0};
    const Tensor plain = given.in_bf16(1.0F, 0.0F, true);
    Tensor c = Tensor::full({m, 530}, std::numeric_limits<double>::quiet_NaN());
    float* out = c.mutable_data<float>();
    const auto each = [&](const blas::Tile& t, auto&& change) {
      for (std::int64_t i = t.row; i < t.row + t.rows; ++i)
        for (std::int64_t j = t.col; j < t.col + t.cols; ++j) change(out[i * 530 + j]);
    };
    gemm::product_bf16(
        given.product(c, 1.0F, 1.0F, true), [&](const blas::Tile& t) { each(t, [](float& x) { x = 0.0F; }); },
        [&](const blas::Tile& t) { each(t, [](float& x) { x *= 2.0F; }); });
    CHECK(same_bits(c, plain * 2.0));
  }
}

TEST_CASE("NaN and infinities pass through bf16 products, subnormal operands count as zeros") {
  if (!has_bf16()) return;
  const ProductsScope scope(Products::bf16);
  const float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  Tensor a = Tensor::ones({13, 9}), b = Tensor::ones({9, 17});
  float* left = a.mutable_data<float>();
  left[2 * 9 + 8] = nan;
  left[4 * 9 + 3] = inf;
  left[5 * 9 + 3] = inf, left[5 * 9 + 4] = -inf;
  left[6 * 9 + 0] = std::numeric_limits<float>::max(); // rounds up, beyond the largest
  left[7 * 9 + 0] = 1e-40F;
  const Tensor c = matmul(a, b);
  for (const std::int64_t j : {0, 15, 16}) {
    CHECK(std::isnan(c.at({2, j})));
    CHECK(c.at({4, j}) == inf);
    CHECK(std::isnan(c.at({5, j})));
    CHECK(c.at({6, j}) == inf);
    CHECK(c.at({7, j}) == 8.0);
    CHECK(c.at({12, j}) == 9.0);
  }
  CHECK(matmul(Tensor::full({13, 1}, 1e-40), Tensor::full({1, 17}, 1e30)).at({0, 0}) == 0.0);
}

TEST_CASE("scopes of products nest, and are restored by exceptions") {
  CHECK(products() == Products::full);
  {
    const ProductsScope outer(Products::bf16);
    CHECK(products() == Products::bf16);
    {
      const ProductsScope inner(Products::full);
      CHECK(products() == Products::full);
    }
    CHECK(products() == Products::bf16);
  }
  try {
    const ProductsScope scope(Products::bf16);
    throw ValueError("thrown");
  } catch (const ValueError&) {
  }
  CHECK(products() == Products::full);
  CHECK(products_named("bf16") == Products::bf16);
  CHECK(products_named(name_of(Products::full)) == Products::full);
  CHECK_THROWS_AS(products_named("f16"), ValueError);
}

TEST_CASE("the scope reaches products of every kind in f32, and neither f64 nor exact sums") {
  if (!has_bf16()) return;
  const Tensor a = matrix(30, 40, 1), b = matrix(40, 50, 2), x = random_normal({2, 4, 9, 9}, {7, 3}),
               w = random_normal({5, 4, 3, 3}, {7, 4}), batch = random_normal({20, 9, 11}, {7, 5});
  const auto differs = [](auto&& f) {
    const Tensor full = f();
    const ProductsScope scope(Products::bf16);
    return !same_bits(full, f());
  };
  CHECK(differs([&] { return matmul(a, b); }));
  CHECK(differs([&] { return linear(a, matrix(50, 40, 6)); }));
  CHECK(differs([&] { return matmul(batch, batch, true); }));
  CHECK(differs([&] { return conv2d(x, w); }));
  CHECK(differs([&] { return attention_qkv(random_normal({2, 10, 24}, {7, 8}), 2); }));
  CHECK_FALSE(differs([&] { return matmul(a.to(DType::f64), b.to(DType::f64)); }));
  CHECK_FALSE(differs([&] { return softmax(a); }));
  const ReductionScope exact(Reduction::exact);
  CHECK_FALSE(differs([&] { return matmul(a, b); }));
  CHECK_FALSE(differs([&] { return linear(a, matrix(50, 40, 6)); }));
  CHECK_FALSE(differs([&] { return conv2d(x, w); }));
  CHECK_FALSE(differs([&] { return attention_qkv(random_normal({2, 10, 24}, {7, 8}), 2); }));
}

TEST_CASE("a checkpoint runs again with the products of its forward pass") {
  if (!has_bf16()) return;
  const Block block;
  const auto same = [](const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
    bool all = a.size() == b.size();
    for (std::size_t i = 0; all && i < a.size(); ++i) all = same_bits(a[i], b[i]);
    return all;
  };
  {
    const ProductsScope scope(Products::bf16);
    CHECK(same(block.gradients(false), block.gradients(true)));
  }
  // The forward pass inside the scope, the gradient outside: the function runs again as it ran first.
  std::vector<Products> seen;
  const auto watched = [&](const Tensor& in) {
    seen.push_back(products());
    return block.value(in);
  };
  Tape tape;
  Tensor y;
  {
    const ProductsScope scope(Products::bf16);
    y = checkpoint(watched, block.x);
  }
  tape.gradient(sum(y), {block.x});
  CHECK(seen == std::vector<Products>{Products::bf16, Products::bf16});
}

TEST_CASE("gradients in bf16 are near those in f32") {
  if (!has_bf16()) return;
  const Block block;
  const std::vector<Tensor> full = block.gradients(false);
  const ProductsScope scope(Products::bf16);
  const std::vector<Tensor> found = block.gradients(false);
  for (std::size_t i = 0; i < full.size(); ++i) {
    CHECK(relative_error(found[i], full[i]) < 2e-2);
    CHECK(relative_error(found[i], full[i]) > 1e-5);
    CHECK(found[i].dtype() == DType::f32);
  }
}

TEST_CASE("who asks for bf16 is told where it does not pay") {
  const std::string refusal = gemm::bf16_refusal();
  if (!gemm::bf16_available()) {
    CHECK(refusal.find("no bf16 multiply-add") != std::string::npos);
    CHECK_FALSE(gemm::bf16_pays());
    return;
  }
  CHECK(gemm::bf16_rates().f32 > 0.0);
  CHECK(gemm::bf16_rates().bf16 > 0.0);
  if (gemm::bf16_pays()) CHECK(refusal.empty());
  if (!refusal.empty()) CHECK(refusal.find("EQUIGRAD_BF16=force") != std::string::npos);
}
