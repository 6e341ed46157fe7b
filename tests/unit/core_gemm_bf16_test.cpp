// Products in bf16: against operands rounded beforehand and sums in double, what their bits depend on, and what sees
// the scope.

#include "autograd/checkpoint.h"
#include "autograd/tape.h"
#include "core/base/error.h"
#include "core/bf16.h"
#include "core/gemm/gemm_bf16.h"
#include "core/gemm/matmul_precision.h"
#include "core/ops.h"
#include "core/reduction.h"
#include "core/threads/parallel.h"
#include "unit/gemm_case.h"

#include <cmath>
#include <doctest/doctest.h>
#include <limits>
#include <optional>

using namespace eg;

namespace {

/// False, with a message, where there is nothing to test.
bool has_bf16() {
  if (!gemm::bf16_available()) MESSAGE("skipped: this processor has no AVX512-BF16");
  return gemm::bf16_available();
}

double rounded(double x) { return static_cast<double>(static_cast<float>(BFloat16(static_cast<float>(x)))); }

void check(std::int64_t m, std::int64_t n, std::int64_t k) {
  test::check_product<float>(gemm::product_bf16, rounded, m, n, k);
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
      for (const std::int64_t k : {1, 2, 7, 8, 9}) check(m, n, k);
  check(37, 300, 515);
  check(600, 37, 1030);
  check(49, 530, 512);
  check(14, 530, 1027);
}

TEST_CASE("bf16 products larger than what is packed at once add up") {
  if (!has_bf16()) return;
  check(14, 130, 65001); // 16 MiB are packed at once: 8 Mi terms
}

TEST_CASE("bf16 rounding is seen: generic operands do not give the f32 product") {
  if (!has_bf16()) return;
  const test::GemmCase<float> given{40, 50, 60, false, true, 0};
  const Tensor full = given.by(gemm::product<float>, 1.0F, 0.0F, false);
  CHECK_FALSE(test::is_right(given, full, 1.0, 0.0, rounded)); // the check can tell the two apart
  const double apart = relative_error(given.by(gemm::product_bf16, 1.0F, 0.0F, false), full);
  CHECK(apart > 1e-4);
  CHECK(apart < 2e-2);
}

TEST_CASE("an element's bits in bf16 depend on its row, its column and k alone") {
  if (has_bf16()) test::check_bits_of_parts(gemm::product_bf16, 601);
}

TEST_CASE("bf16 products have the same bits for any number of threads") {
  if (!has_bf16()) return;
  const MatmulPrecisionScope scope(MatmulPrecision::bf16);
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

TEST_CASE("what is added to a bf16 product has the bits of a C that held it before") {
  if (!has_bf16()) return;
  for (const std::int64_t m : {30, 700}) test::check_addends(gemm::product_bf16, m);
}

TEST_CASE("bf16 blocks are announced after they are whole") {
  if (!has_bf16()) return;
  for (const std::int64_t m : {30, 700}) test::check_announcements(gemm::product_bf16, m);
}

TEST_CASE("NaN and infinities pass through bf16 products, subnormal operands count as zeros") {
  if (!has_bf16()) return;
  const MatmulPrecisionScope scope(MatmulPrecision::bf16);
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
  CHECK(matmul_precision() == MatmulPrecision::full);
  {
    const MatmulPrecisionScope outer(MatmulPrecision::bf16);
    CHECK(matmul_precision() == MatmulPrecision::bf16);
    {
      const MatmulPrecisionScope inner(MatmulPrecision::full);
      CHECK(matmul_precision() == MatmulPrecision::full);
    }
    CHECK(matmul_precision() == MatmulPrecision::bf16);
  }
  try {
    const MatmulPrecisionScope scope(MatmulPrecision::bf16);
    throw ValueError("thrown");
  } catch (const ValueError&) {
  }
  CHECK(matmul_precision() == MatmulPrecision::full);
  CHECK(matmul_precision_named("bf16") == MatmulPrecision::bf16);
  CHECK(matmul_precision_named(name_of(MatmulPrecision::full)) == MatmulPrecision::full);
  CHECK_THROWS_AS(matmul_precision_named("f16"), ValueError);
}

TEST_CASE("the scope reaches products of every kind in f32, and neither f64 nor exact sums") {
  if (!has_bf16()) return;
  const Tensor a = matrix(30, 40, 1), b = matrix(40, 50, 2), x = random_normal({2, 4, 9, 9}, {7, 3}),
               w = random_normal({5, 4, 3, 3}, {7, 4}), batch = random_normal({20, 9, 11}, {7, 5});
  const auto differs = [](auto&& f) {
    const Tensor full = f();
    const MatmulPrecisionScope scope(MatmulPrecision::bf16);
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
    const MatmulPrecisionScope scope(MatmulPrecision::bf16);
    CHECK(same(block.gradients(false), block.gradients(true)));
  }
  // The forward pass inside the scope, the gradient outside: the function runs again as it ran first.
  std::vector<MatmulPrecision> seen;
  const auto watched = [&](const Tensor& in) {
    seen.push_back(matmul_precision());
    return block.value(in);
  };
  Tape tape;
  Tensor y;
  {
    const MatmulPrecisionScope scope(MatmulPrecision::bf16);
    y = checkpoint(watched, block.x);
  }
  tape.gradient(sum(y), {block.x});
  CHECK(seen == std::vector<MatmulPrecision>{MatmulPrecision::bf16, MatmulPrecision::bf16});
}

TEST_CASE("gradients in bf16 are near those in f32") {
  if (!has_bf16()) return;
  const Block block;
  const std::vector<Tensor> full = block.gradients(false);
  const MatmulPrecisionScope scope(MatmulPrecision::bf16);
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
