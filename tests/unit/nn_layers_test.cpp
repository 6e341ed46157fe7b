// Layers against their formulas; the encoder block and the ViT in all their forms; training.

#include "autograd/tape.h"
#include "core/memory/allocator.h"
#include "nn/vit.h"
#include "optim/optimizer.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

using namespace eg;
using namespace eg::nn;

namespace {

VitConfig tiny(Pooling pooling = Pooling::cls, PositionEmbedding position = PositionEmbedding::learned,
               bool pre_norm = true) {
  VitConfig c;
  c.image = 8;
  c.patch = 2;
  c.layers = 2;
  c.encoder = {.dim = 12, .heads = 3, .head_dim = 5, .mlp = 14, .pre_norm = pre_norm};
  c.pooling = pooling;
  c.position = position;
  return c;
}

Tensor random64(const Shape& shape, std::uint64_t stream) {
  return random_normal(shape, {11, stream}, 0.0, 1.0, DType::f64);
}

} // namespace

TEST_CASE("nn: attention's fused path equals the explicit one and the residual is added") {
  MultiHeadAttention attention(12, 3, 5, {1, 0});
  attention.to(DType::f64);
  const Tensor x = random64({2, 7, 12}, 0), residual = random64({2, 7, 12}, 1);
  const MultiHeadAttention::Trace trace = attention.trace(x);
  CHECK(trace.q.shape() == Shape{2, 3, 7, 5});
  CHECK(trace.scores.shape() == Shape{2, 3, 7, 7});
  CHECK(relative_error(sum(trace.scores, {-1}), Tensor::ones({2, 3, 7}, DType::f64)) < 1e-14);
  CHECK(relative_error(attention(x), trace.output) < 1e-13);
  CHECK(relative_error(attention(x, residual), trace.output + residual) < 1e-13);
}

TEST_CASE("nn: an MLP is fc2 of the activation of fc1, whatever the activation") {
  for (const char* name : {"gelu", "gelu_tanh", "relu", "silu", "tanh"}) {
    CAPTURE(name);
    Mlp mlp(6, 9, activation_named(name), {1, 0});
    CHECK(name_of(mlp.activation) == name);
    mlp.to(DType::f64);
    const Tensor x = random64({4, 6}, 0), residual = random64({4, 6}, 1);
    const Tensor expected =
        linear(activate(linear(x, mlp.fc1.weight, mlp.fc1.bias), mlp.activation), mlp.fc2.weight, mlp.fc2.bias);
    CHECK(relative_error(mlp(x), expected) < 1e-13);
    CHECK(relative_error(mlp(x, residual), expected + residual) < 1e-13);
  }
}

TEST_CASE("nn: pre- and post-norm blocks are what their formulas say") {
  for (const bool pre : {true, false}) {
    CAPTURE(pre);
    Block block(tiny(Pooling::cls, PositionEmbedding::learned, pre).encoder, {1, 0});
    block.to(DType::f64);
    const Tensor x = random64({2, 5, 12}, 0);
    const auto attention = [&](const Tensor& in) { return block.attention.trace(in).output; };
    Tensor expected;
    if (pre) {
      const Tensor y = x + attention(block.norm1(x));
      expected = y + block.mlp(block.norm2(y));
    } else {
      const Tensor y = block.norm1(x + attention(x));
      expected = block.norm2(y + block.mlp(y));
    }
    CHECK(relative_error(block(x), expected) < 1e-13);
    MultiHeadAttention::Trace trace;
    CHECK(relative_error(block.traced(x, trace), expected) < 1e-13);
    CHECK(trace.scores.shape() == Shape{2, 3, 5, 5});
  }
}

TEST_CASE("nn: every form of ViT gives logits, and its parts compose to the whole") {
  const Tensor images = random64({3, 3, 8, 8}, 5);
  for (const Pooling pooling : {Pooling::cls, Pooling::mean})
    for (const PositionEmbedding position :
         {PositionEmbedding::learned, PositionEmbedding::sinusoidal, PositionEmbedding::none})
      for (const bool pre : {true, false}) {
        Vit model(tiny(pooling, position, pre), {1, 0});
        model.to(DType::f64);
        CAPTURE(name_of(pooling));
        CAPTURE(name_of(position));
        const Tensor z = model.embed(images);
        CHECK(z.shape() == Shape{3, model.config.tokens(), 12});
        const Tensor logits = model(images);
        CHECK(logits.shape() == Shape{3, 10});
        CHECK(same_bits(model.head(model.encode(z)), logits));
        Tensor traced = z;
        CHECK(model.trace_encoder(traced).size() == 2);
        CHECK(relative_error(model.head(traced), logits) < 1e-12);
      }
}

TEST_CASE("nn: tokens without positions can be shuffled before the encoder") {
  Vit model(tiny(Pooling::mean, PositionEmbedding::none), {1, 0});
  model.to(DType::f64);
  const Tensor z = model.embed(random64({2, 3, 8, 8}, 5));
  const Tensor shuffled = permute_rows(z, random_permutation(16, {3, 3}));
  CHECK(relative_error(model.head(model.encode(shuffled)), model.head(model.encode(z))) < 1e-12);
}

TEST_CASE("nn: inference keeps no activations") {
  VitConfig c = tiny();
  c.layers = 8;
  const Vit model(c, {1, 0});
  const Tensor images = random_normal({16, 3, 8, 8}, {1, 1});
  const std::size_t before = allocator::stats().live_bytes;
  allocator::reset_peak();
  const Tensor logits = model(images);
  const std::size_t working = allocator::stats().peak_bytes - before;
  const std::size_t after = allocator::stats().live_bytes - before;
  CHECK(after < 4096);
  // One block's values, not eight blocks': qkv is the largest one.
  const std::size_t tokens = 16 * 17 * sizeof(float);
  CHECK(working < tokens * (3 * 12 + 3 * 15 + 14 + 40));
}

TEST_CASE("nn: changing weights under an open tape is reported with both names") {
  const Vit model(tiny(), {1, 0});
  const Tensor images = random_normal({2, 3, 8, 8}, {1, 1});
  const std::vector<Tensor> parameters = model.parameters();
  const auto optimizer = optim::adam(parameters);
  Tape tape;
  const Tensor loss = sum(model(images));
  std::vector<Tensor> fake;
  for (const Tensor& p : parameters) fake.push_back(Tensor::ones(p.shape()));
  optimizer->step(fake, 0.1);
  std::string text;
  try {
    tape.gradient(loss, parameters);
  } catch (const AutogradError& e) {
    text = e.what();
  }
  CAPTURE(text);
  CHECK(text.find("adam") != std::string::npos);
  CHECK(text.find("linear") != std::string::npos);
}

TEST_CASE("nn: a tiny ViT learns eight images by heart") {
  VitConfig c;
  c.image = 16;
  c.patch = 4;
  c.layers = 2;
  c.encoder = {.dim = 32, .heads = 2, .mlp = 64};
  const Vit model(c, {1, 0});
  const Tensor images = random_normal({8, 3, 16, 16}, {2, 0});
  const Tensor labels = Tensor::from<std::int64_t>({0, 1, 2, 3, 4, 5, 6, 7}, {8});
  const std::vector<Tensor> parameters = model.parameters();
  const auto optimizer = optim::adamw(parameters);
  double loss_value = 0.0;
  const std::size_t before = allocator::stats().live_bytes;
  for (int step = 0; step < 200; ++step) {
    Tape tape;
    const Tensor loss = cross_entropy(model(images), labels);
    std::vector<Tensor> gradients = tape.gradient(loss, parameters);
    optim::clip_gradients(gradients, 1.0);
    optimizer->step(gradients, 3e-3);
    loss_value = loss.item();
  }
  CHECK(loss_value < 0.01);
  CHECK(allocator::stats().live_bytes == before);
}
