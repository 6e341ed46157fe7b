#include "autograd/check.h"
#include "core/base/error.h"
#include "core/ops.h"
#include "core/random.h"
#include "nn/block.h"

#include <doctest/doctest.h>

using namespace eg;

namespace {

Tensor normal(const Shape& shape, std::uint64_t stream, DType dtype) {
  return random_normal(shape, {79, stream}, 0.0, 1.0, dtype);
}

} // namespace

TEST_CASE("KvCache: decoding in steps gives what the whole sequence gives") {
  constexpr std::int64_t tokens = 90;
  for (const DType dtype : {DType::f64, DType::f32}) {
    const Tensor q = normal({2, 4, tokens, 8}, 1, dtype);
    const Tensor k = normal({2, 2, tokens, 8}, 2, dtype), v = normal({2, 2, tokens, 6}, 3, dtype);
    const Tensor whole = scaled_dot_product_attention(q, k, v, AttentionOptions{.causal = true});
    nn::KvCache cache({2, 2}, 128, 8, 6, dtype);
    std::vector<Tensor> steps;
    for (std::int64_t at = 0; at < tokens;) {
      const std::int64_t next = at == 0 ? 40 : at + 1; // a prompt, then one by one
      cache.append(k.slice(2, at, next), v.slice(2, at, next));
      steps.push_back(cache.attend(q.slice(2, at, next)));
      at = next;
    }
    CHECK(cache.length() == tokens);
    CHECK(relative_error(concat(steps, 2), whole) < (dtype == DType::f64 ? 1e-14 : 1e-6));
  }
}

TEST_CASE("KvCache: the memory stays where it is") {
  nn::KvCache cache({1}, 8, 4);
  const Tensor x = normal({1, 3, 4}, 4, DType::f32);
  cache.append(x, x);
  const float* const first = cache.keys().data<float>();
  cache.append(x, x);
  CHECK(cache.keys().data<float>() == first);
  cache.truncate(3);
  CHECK(cache.length() == 3);
  CHECK(relative_error(cache.values(), x) == 0.0);
}

TEST_CASE("KvCache: what does not fit is refused and changes nothing") {
  nn::KvCache cache({1, 2}, 4, 3);
  const Tensor x = Tensor::ones({1, 2, 3, 3});
  cache.append(x, x);
  CHECK_THROWS_AS(cache.append(x, x), ValueError);                               // no room
  CHECK_THROWS_AS(cache.append(Tensor::ones({1, 3, 1, 3}), x), ShapeError);      // heads
  CHECK_THROWS_AS(cache.append(x.slice(2, 0, 1), x.slice(2, 0, 0)), ShapeError); // tokens of k and v
  CHECK_THROWS_AS(cache.append(x.slice(2, 0, 1).to(DType::f64), x), DTypeError); // element type
  CHECK_THROWS_AS(cache.truncate(4), ValueError);
  CHECK_THROWS_AS(nn::KvCache({1}, -1, 3), ValueError);
  CHECK(cache.length() == 3);
}

TEST_CASE("KvCache: rows of a batch with caches of their own decode as each alone, bit for bit") {
  for (const bool rotary : {false, true}) {
    nn::BlockConfig c{.dim = 32, .heads = 4, .kv_heads = 2, .mlp = 48};
    c.causal = true;
    c.rotary.on = rotary;
    nn::Block block(c, {1, 0});
    block.eval();
    const std::int64_t rows = 3;
    std::vector<nn::KvCache> own, alone;
    for (std::int64_t b = 0; b < rows; ++b)
      for (auto* caches : {&own, &alone}) {
        caches->emplace_back(Shape{1, 2}, 20, 8);
        nn::AttentionContext context;
        context.cache = &caches->back();
        block(random_normal({1, 2 + 3 * b, 32}, {2, static_cast<std::uint64_t>(b)}), context); // pasts of 2, 5 and 8
      }
    const Tensor x = random_normal({rows, 2, 32}, {3, 0});
    std::vector<nn::KvCache*> pointers = {&own[0], &own[1], &own[2]};
    nn::AttentionContext together;
    together.caches = pointers;
    const Tensor y = block(x, together);
    for (std::int64_t b = 0; b < rows; ++b) {
      nn::AttentionContext context;
      context.cache = &alone[static_cast<std::size_t>(b)];
      CHECK(same_bits(slice(y, 0, b, b + 1), block(slice(x, 0, b, b + 1), context)));
      CHECK(own[static_cast<std::size_t>(b)].length() == 2 + 3 * b + 2);
    }
    pointers.pop_back();
    together.caches = pointers;
    CHECK_THROWS_AS(block(x, together), Error);
  }
}
