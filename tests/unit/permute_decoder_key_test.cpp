// Keys of decoder blocks: GPT-2's and Llama's, with shared key heads, rotary positions, gated MLPs, RMSNorm and no
// biases. The pass with permuted columns is the plain one, forward and backward, whatever the config.

#include "support/message.h"

#include "autograd/tape.h"
#include "core/base/error.h"
#include "core/ops.h"
#include "nn/decoder.h"
#include "permute/blocks_key.h"
#include "permute/permuted_pass.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

using namespace eg;
using namespace eg::permute;
using namespace eg::test;

namespace {

struct Kind {
  const char* name;
  nn::DecoderConfig config;
};

std::vector<Kind> kinds() {
  std::vector<Kind> all;
  const auto add = [&](const char* name, nn::DecoderConfig c) {
    c.vocabulary = 17;
    c.positions = 12;
    all.push_back({name, c});
  };
  nn::DecoderConfig gpt2 = nn::gpt2_config(12, 3, 2);
  gpt2.block.dropout = gpt2.block.attention_dropout = gpt2.embedding_dropout = 0.0;
  add("gpt2", gpt2);
  add("llama", nn::llama_config(12, 3, 3, 10, 2));
  add("llama, shared keys", nn::llama_config(24, 6, 2, 10, 2));
  add("llama, one key head", nn::llama_config(16, 4, 1, 10, 2));
  nn::DecoderConfig still = nn::llama_config(24, 6, 3, 10, 2);
  still.block.rotary.on = false;
  add("shared keys without rotary positions", still);
  nn::DecoderConfig biased = nn::llama_config(24, 6, 3, 10, 2);
  biased.block.qkv_bias = biased.block.proj_bias = biased.block.mlp_bias = true;
  add("llama with biases", biased);
  return all;
}

/// Every parameter away from 0 and 1, so that no bias or gain is special.
void draw_generic(nn::Module& module, RandomKey key) {
  std::uint64_t i = 0;
  for (const nn::Parameter& p : module.named_parameters())
    Tensor(p.value).copy_from(random_normal(p.value.shape(), key.fold(i++), 0.2, 0.3, DType::f64));
}

std::unique_ptr<nn::Decoder> generic(const nn::DecoderConfig& config) {
  auto model = std::make_unique<nn::Decoder>(config, RandomKey{5, 0});
  model->to(DType::f64);
  draw_generic(*model, {6, 0});
  return model;
}

/// The blocks' gradients and output for a cotangent, through the pass.
struct Outcome {
  Tensor output;
  nn::StateDict gradients;
};
Outcome outcome(const nn::Decoder& model, const Tensor& z, const Tensor& cotangent, const PermutedPass& pass) {
  Tape tape;
  const Tensor y = pass.through(z, [&](const Tensor& x) { return model.encode(x, {.ids = {}}); });
  std::vector<std::string> names;
  for (const std::string& name : nn::parameter_names(model))
    if (name.starts_with("blocks.")) names.push_back(name);
  const std::vector<Tensor> found = tape.gradient(y, nn::parameters_named(model, names), cotangent);
  Outcome o{y, {}};
  for (std::size_t i = 0; i < names.size(); ++i) o.gradients.emplace_back(names[i], found[i]);
  return o;
}

double largest_error(const nn::StateDict& a, const nn::StateDict& b) {
  double worst = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) worst = std::max(worst, relative_error(a[i].second, b[i].second));
  return worst;
}

} // namespace

TEST_CASE("decoder keys: columns leave the pass as it is and move gradients with the weights") {
  for (const auto& kind : kinds()) {
    const auto& name = kind.name; // clang 14 captures no structured binding
    const auto& config = kind.config;
    CAPTURE(name);
    const auto plain = generic(config);
    const AxisMap axes = blocks_axes(config.block, config.layers);
    const Tensor z = random_normal({2, 7, config.block.dim}, {8, 0}, 0.0, 1.0, DType::f64),
                 c = random_normal(z.shape(), {9, 0}, 0.0, 1.0, DType::f64);
    const Outcome before = outcome(*plain, z, c, {});
    for (const KeyForm form : {KeyForm::residual, KeyForm::decoupled})
      for (std::uint64_t draw = 0; draw < 20; ++draw) {
        CAPTURE(name_of(form));
        const BlocksKey key = BlocksKey::random(config.block, config.layers, form, {10, draw});
        const PermutationSet moves = key.permutations(config.block);
        const auto moved = generic(config);
        transform_module(*moved, axes, moves);
        const PermutedPass pass{.columns = &key.residual};
        const Outcome after = outcome(*moved, z, c, pass);
        CHECK(relative_error(after.output, before.output) < 1e-12);
        CHECK(largest_error(after.gradients, transform(before.gradients, axes, moves)) < 1e-10);
        // Controls: weights that stay, and a key that goes to the inner axes alone.
        CHECK(relative_error(outcome(*plain, z, c, pass).output, before.output) > 1e-3);
        CHECK(largest_error(after.gradients, before.gradients) > 1e-3);
      }
  }
}

TEST_CASE("decoder keys: heads that share keys stay together, and with rotary positions features of a head stay") {
  const nn::BlockConfig config = nn::llama_config(24, 6, 2, 10, 2).block;
  for (std::uint64_t draw = 0; draw < 50; ++draw) {
    const BlocksKey key = BlocksKey::random(config, 2, KeyForm::decoupled, {11, draw});
    for (const BlockKey& block : key.blocks) {
      CHECK(is_block_permutation(block.qk, 12)); // three queries of a key head
      CHECK(is_block_permutation(block.v, 12));
      bool still = true;
      for (std::int64_t i = 0; i < 24; ++i) still = still && block.qk[i] % 4 == i % 4;
      CHECK(still);
      CHECK_FALSE(block.v.is_identity());
    }
  }
  // A head that leaves its group gives another function.
  BlocksKey key = BlocksKey::random(config, 2, KeyForm::decoupled, {11, 0});
  std::vector<std::int64_t> swapped = key.blocks[0].qk.gather();
  for (std::size_t i = 0; i < 4; ++i) std::swap(swapped[i], swapped[12 + i]);
  key.blocks[0].qk = Permutation(std::move(swapped));
  nn::DecoderConfig whole = nn::llama_config(24, 6, 2, 10, 2);
  whole.vocabulary = 17;
  const auto plain = generic(whole), moved = generic(whole);
  transform_module(*moved, blocks_axes(config, 2), key.permutations(config));
  const Tensor z = random_normal({1, 5, 24}, {12, 0}, 0.0, 1.0, DType::f64);
  CHECK(relative_error(outcome(*moved, z, z, {.columns = &key.residual}).output, outcome(*plain, z, z, {}).output) >
        1e-3);
}

TEST_CASE("decoder keys: the papers' forms are refused where blocks have no room for them") {
  const auto refused = [](const nn::BlockConfig& config, KeyForm form) {
    return message_of<ValueError>([&] { BlocksKey::random(config, 1, form, {1, 0}); });
  };
  for (const KeyForm form : {KeyForm::paper, KeyForm::tied}) {
    CHECK(refused(nn::llama_config(24, 6, 2, 10, 1).block, form).find("shared key heads") != std::string::npos);
    CHECK(refused(nn::llama_config(24, 6, 6, 10, 1).block, form).find("rotary positions") != std::string::npos);
    CHECK_NOTHROW(BlocksKey::random(nn::gpt2_config(12, 3, 1).block, 1, form, {1, 0}));
  }
}
