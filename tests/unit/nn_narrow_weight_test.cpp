// Decoders whose weights lie in 8 bits or bf16: what they compute, what memory they leave, what they refuse.

#include "autograd/tape.h"
#include "core/memory/allocator.h"
#include "core/threads/parallel.h"
#include "nn/generate.h"

#include <doctest/doctest.h>

#include <cmath>

using namespace eg;

namespace {

constexpr nn::WeightStorage narrow_storages[] = {nn::WeightStorage::bf16, nn::WeightStorage::int8};

nn::DecoderConfig small_gpt2() {
  nn::DecoderConfig config = nn::gpt2_config(48, 3, 2);
  config.vocabulary = 300;
  config.positions = 40;
  return config;
}
nn::DecoderConfig small_llama() {
  nn::DecoderConfig config = nn::llama_config(48, 4, 2, 80, 2);
  config.vocabulary = 300;
  config.positions = 40;
  return config;
}

bool is_matrix_of_product(const std::string& name) {
  return name.ends_with("qkv.weight") || name.ends_with("proj.weight") || name.ends_with("fc1.weight") ||
         name.ends_with("fc2.weight") || name == "lm_head.weight" || name == "token_embedding.weight";
}

/// The matrix that a narrow weight stands for.
Tensor as_narrow(const Tensor& weight, nn::WeightStorage storage) {
  if (storage == nn::WeightStorage::bf16) return weight.to(DType::bf16).to(DType::f32);
  const Int8Matrix m = quantize_int8(weight);
  return dequantize_int8(m.codes, m.scales);
}

Tensor logits(const nn::Decoder& model, const Tensor& ids, nn::DecoderCache* cache = nullptr) {
  return model.language_model(model({.ids = ids}, cache));
}

} // namespace

TEST_CASE("a narrow decoder computes with the matrices that its weights stand for") {
  for (const nn::DecoderConfig& config : {small_gpt2(), small_llama()})
    for (const nn::WeightStorage storage : narrow_storages) {
      nn::Decoder model(config, {81, 0}), wide(config, {81, 0});
      model.eval();
      wide.eval();
      const Tensor ids = random_integers({2, 12}, {81, 1}, 0, config.vocabulary);
      const Tensor before = logits(model, ids);
      std::size_t narrowed = 0;
      for (const nn::Parameter& p : wide.named_parameters())
        if (is_matrix_of_product(p.name)) {
          Tensor value = p.value;
          value.copy_from(as_narrow(value, storage));
          ++narrowed;
        }
      CHECK(narrowed == (config.tied ? 9 : 10));
      model.narrow_weights(storage);
      const Tensor after = logits(model, ids);
      CHECK(relative_error(after, logits(wide, ids)) < 1e-5);
      CHECK(relative_error(after, before) > 1e-5);
      CHECK(relative_error(after, before) < 0.05);
      CHECK(model.parameter_count() == wide.parameter_count());

      nn::DecoderCache cache(config, 1, 12);
      const Tensor text = ids.slice(0, 0, 1);
      for (std::int64_t t = 0; t < 12; ++t)
        CHECK(relative_error(logits(model, text.slice(1, t, t + 1), &cache).select(1, 0),
                             after.slice(0, 0, 1).select(1, t)) < 1e-5);
    }
}

TEST_CASE("the f32 copies are gone: bytes in use fall to what the narrow weights take") {
  nn::DecoderConfig config = small_gpt2();
  config.block.dim = 192;
  config.block.mlp = 768;
  for (const nn::WeightStorage storage : narrow_storages) {
    const std::size_t before = allocator::stats().live_bytes;
    nn::Decoder model(config, {82, 0});
    const double full = static_cast<double>(allocator::stats().live_bytes - before);
    model.narrow_weights(storage);
    const double left = static_cast<double>(allocator::stats().live_bytes - before);
    CHECK(left < full * (storage == nn::WeightStorage::int8 ? 0.30 : 0.55));
    CHECK(allocator::stats().cached_bytes == 0);
  }
}

TEST_CASE("generation from narrow weights gives the same text for every number of threads") {
  for (const nn::WeightStorage storage : narrow_storages) {
    nn::Decoder model(small_llama(), {83, 0});
    model.eval();
    model.narrow_weights(storage);
    const std::vector<std::int64_t> prompt{1, 2, 3};
    const std::vector<std::int64_t> text = nn::generate(model, prompt, {.max_new_tokens = 20});
    CHECK(text.size() == 20);
    for (const int threads : {1, 2, 3}) {
      parallel::set_threads(threads);
      CHECK(nn::generate(model, prompt, {.max_new_tokens = 20}) == text);
    }
    parallel::set_threads(0);
  }
}

TEST_CASE("weights that cannot be narrowed are named, and the model is as it was") {
  for (const nn::WeightStorage storage : narrow_storages) {
    nn::Decoder model(small_llama(), {84, 0});
    model.eval();
    model.lm_head->weight.mutable_data<float>()[5 * 48 + 7] = NAN; // the last one
    const Tensor ids = random_integers({1, 4}, {84, 1}, 0, 300);
    const Tensor before = model({.ids = ids});
    const char* words = storage == nn::WeightStorage::int8 ? "quantize_int8: weight is nan at [5, 7] (at lm_head)"
                                                           : "bf16: weight is nan at [5, 7] (at lm_head)";
    CHECK_THROWS_WITH_AS(model.narrow_weights(storage), words, ValueError);
    CHECK(same_bits(model({.ids = ids}), before));
    CHECK(model.token_embedding.weight.has_storage());
  }
  nn::Decoder model(small_gpt2(), {84, 2});
  model.blocks[1]->mlp.fc2.weight.mutable_data<float>()[3] = 3.4e38F; // finite in f32
  CHECK_THROWS_WITH_AS(model.narrow_weights(nn::WeightStorage::bf16),
                       doctest::Contains("at [0, 3] (at blocks.1.mlp.fc2)"), ValueError);
  model.narrow_weights(nn::WeightStorage::int8); // whose scale reaches it
}

TEST_CASE("narrow weights are neither narrowed again, saved, loaded nor converted") {
  nn::Decoder model(small_gpt2(), {85, 0}), other(small_gpt2(), {85, 1});
  model.eval();
  model.narrow_weights(nn::WeightStorage::full);
  CHECK(model.token_embedding.weight.has_storage());
  model.narrow_weights(nn::WeightStorage::int8);
  const Tensor ids = random_integers({1, 4}, {85, 2}, 0, 300);
  const Tensor before = logits(model, ids);
  CHECK_THROWS_WITH_AS(model.narrow_weights(nn::WeightStorage::bf16),
                       "narrow_weights: token_embedding is narrow already", ValueError);
  CHECK_THROWS_WITH_AS(model.load_state_dict(other.state_dict()),
                       doctest::Contains("token_embedding.weight has no values to write to in the model"), ValueError);
  CHECK_THROWS_AS(model.to(DType::f64), Error);
  CHECK_THROWS_AS(other.load_state_dict(model.state_dict()), ValueError);
  CHECK(same_bits(logits(model, ids), before));
  CHECK_THROWS_WITH_AS(nn::weight_storage_named("int4"), "weights: 'int4' is not one of f32, bf16, int8", ValueError);
  for (const nn::WeightStorage storage : narrow_storages) CHECK(nn::weight_storage_named(name_of(storage)) == storage);
}

TEST_CASE("gradients by the input pass through narrow weights, and none go to them") {
  nn::Linear layer(6, 5, {86, 0});
  const Tensor x = random_normal({3, 6}, {86, 1});
  const Tensor matrix = as_narrow(layer.weight, nn::WeightStorage::int8);
  layer.narrow(nn::WeightStorage::int8);
  Tape tape;
  const Tensor loss = sum(square(layer(x)));
  const std::vector<Tensor> g = tape.gradient(loss, {x, layer.bias});
  CHECK(relative_error(g[0], matmul(layer(x) * 2.0, matrix)) < 1e-5);
  CHECK(relative_error(g[1], sum(layer(x) * 2.0, {0})) < 1e-5);
}
