// Forward hooks, recorded attention, parameters that are assigned.

#include "autograd/tape.h"
#include "nn/attention_recorder.h"
#include "nn/decoder.h"
#include "nn/vit.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

using namespace eg;
using namespace eg::nn;

namespace {

VitConfig small() {
  return {.image = 8, .patch = 4, .classes = 3, .layers = 2, .encoder = {.dim = 8, .heads = 2, .mlp = 12}};
}

const Tensor images = random_normal({2, 3, 8, 8}, {2, 0});

} // namespace

TEST_CASE("nn: hooks see the calls of parts and may replace what they give") {
  Vit vit(small(), {1, 0});
  const Tensor plain = vit(images);
  std::vector<std::string> seen;
  std::vector<std::pair<Module*, std::uint64_t>> hooks;
  vit.each_module([&](Module& part) {
    hooks.emplace_back(&part, part.add_forward_hook([&](const Module& m, const auto& inputs, const Tensor& output) {
      CHECK(!inputs.empty());
      CHECK(output.defined());
      seen.push_back(m.name());
      return Tensor();
    }));
  });
  CHECK(vit.has_forward_hooks());
  CHECK(relative_error(vit(images), plain) < 1e-6);
  CHECK(seen.size() == hooks.size()); // each once
  for (const auto& [part, hook] : hooks) part->remove_forward_hook(hook);
  CHECK(!vit.has_forward_hooks());
  CHECK(same_bits(vit(images), plain));

  Block& block = *vit.blocks[0];
  const std::uint64_t zero =
      block.add_forward_hook([](const Module&, const auto&, const Tensor& output) { return output * 0.0; });
  CHECK(!same_bits(vit(images), plain));
  CHECK(&block.attention.qkv.owner() == &vit);
  block.remove_forward_hook(zero);
  block.remove_forward_hook(zero); // nothing happens
  CHECK(same_bits(vit(images), plain));
}

TEST_CASE("nn: a recorder gives what attention computed, and refuses a cache") {
  Vit vit(small(), {1, 0});
  {
    const AttentionRecorder recorder;
    const Tensor logits = vit(images);
    REQUIRE(recorder.items().size() == 2);
    const auto traces = vit.trace(images);
    for (std::size_t i = 0; i < 2; ++i) {
      CHECK(relative_error(recorder.items()[i].trace.scores, traces[i].scores) < 1e-6);
      CHECK(relative_error(softmax(recorder.items()[i].logits()), traces[i].scores) < 1e-6);
    }
  }
  CHECK(AttentionRecorder::current() == nullptr);
  Decoder decoder(llama_config(8, 2, 1, 12, 1), {1, 0});
  DecoderCache cache(decoder.config, 1, 4);
  const AttentionRecorder recorder;
  const DecoderInput input{.ids = Tensor::from<std::int64_t>({1, 2}, {1, 2})};
  CHECK_THROWS_WITH_AS(decoder(input, &cache), doctest::Contains("key-value cache"), ValueError);
}

TEST_CASE("nn: a tensor that is assigned to two parameters is one") {
  struct Pair : Module {
    Pair() : a(3, 3, {1, 0}), b(3, 3, {2, 0}) {
      register_module("a", a);
      register_module("b", b);
    }
    Linear a, b;
  } pair;
  CHECK(pair.parameters().size() == 4);
  CHECK(pair.b.assign_parameter("weight", pair.a.weight));
  CHECK(parameter_names(pair) == std::vector<std::string>{"a.weight", "a.bias", "b.bias"});
  CHECK(pair.state_dict().size() == 4);
  pair.to(DType::f64);
  CHECK(pair.a.weight.id() == pair.b.weight.id());
  {
    const std::vector<Tensor> values = {Tensor::ones({3, 3}, DType::f64), pair.a.bias, pair.b.bias};
    const ParameterScope scope(pair, values);
    CHECK(same_bits(pair.b.weight, values[0]));
  }
  CHECK(!same_bits(pair.b.weight, Tensor::ones({3, 3}, DType::f64)));
  Tape tape;
  const Tensor y = sum(pair.b(pair.a(Tensor::ones({1, 3}, DType::f64))));
  CHECK(tape.gradient(y, pair.parameters()).size() == 3);

  CHECK(!pair.assign_parameter("weight", pair.a.weight)); // its own alone
  CHECK_THROWS_WITH_AS(pair.a.assign_parameter("weight", Tensor::ones({2, 3}, DType::f64)),
                       doctest::Contains("'weight' is [3, 3]"), ShapeError);
  CHECK_THROWS_AS(pair.a.assign_parameter("weight", Tensor::ones({3, 3})), DTypeError);
}
