#include "nn/decoder.h"

#include "autograd/check.h"
#include "autograd/tape.h"
#include "core/base/error.h"
#include "core/base/interrupt.h"
#include "core/memory/allocator.h"
#include "core/ops.h"
#include "nn/bert.h"
#include "nn/generate.h"
#include "nn/init.h"
#include "optim/optimizer.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

using namespace eg;
using namespace eg::nn;

namespace {

/// Weights far from their initial values.
void roughen(Module& model, RandomKey key) {
  std::uint64_t tag = 0;
  for (Parameter& p : model.named_parameters()) {
    const bool gain = p.value.rank() == 1 && p.name.ends_with("weight");
    const Tensor noise = random_normal(p.value.shape(), key.fold(tag++), gain ? 1.0 : 0.0, 0.3, p.value.dtype());
    p.value.copy_from(noise);
  }
}

DecoderConfig small_llama(std::int64_t kv_heads = 2) {
  DecoderConfig c = llama_config(24, 4, kv_heads, 20, 2);
  c.vocabulary = 17;
  c.positions = 40;
  return c;
}

DecoderConfig small_gpt2() {
  DecoderConfig c = gpt2_config(24, 3, 2);
  c.vocabulary = 17;
  c.positions = 40;
  return c;
}

Tensor text(std::int64_t batch, std::int64_t tokens) { return random_integers({batch, tokens}, {3, 1}, 0, 17); }

std::vector<DecoderConfig> configs() {
  DecoderConfig interleaved = small_llama();
  interleaved.block.rotary.interleaved = true;
  DecoderConfig partial = small_llama();
  partial.block.rotary.dims = 4;
  partial.block.rotary.amplitude = 1.3;
  DecoderConfig layered = small_gpt2();
  layered.scale_by_layer = true;
  return {small_gpt2(), layered, small_llama(), small_llama(1), small_llama(4), interleaved, partial};
}

} // namespace

TEST_CASE("decoding token by token gives what the whole text gives, to rounding") {
  for (const DecoderConfig& config : configs()) {
    Decoder model(config, {1, 0});
    roughen(model, {2, 0});
    model.to(DType::f64);
    model.eval();
    const Tensor ids = text(2, 11);
    const Tensor whole = model.language_model(model({.ids = ids}));
    DecoderCache cache(config, 2, 11, DType::f64);
    std::vector<Tensor> parts = {model({.ids = slice(ids, 1, 0, 4)}, &cache)};
    for (std::int64_t t = 4; t < 11; ++t) parts.push_back(model({.ids = slice(ids, 1, t, t + 1)}, &cache));
    CHECK(relative_error(model.language_model(concat(parts, 1)), whole) < 1e-13);
    cache.truncate(4); // going back and on again
    CHECK(relative_error(model({.ids = slice(ids, 1, 4, 5)}, &cache), parts[1]) < 1e-14);
    cache.truncate(3); // control: one token less of the past
    CHECK(relative_error(model({.ids = slice(ids, 1, 4, 5)}, &cache), parts[1]) > 1e-3);
  }
}

TEST_CASE("a decoder does not see the future, nor padding") {
  for (const DecoderConfig& config : configs()) {
    Decoder model(config, {1, 0});
    roughen(model, {2, 0});
    model.to(DType::f64);
    model.eval();
    const Tensor ids = text(1, 9);
    const Tensor all = model({.ids = ids});
    CHECK(relative_error(model({.ids = slice(ids, 1, 0, 5)}), slice(all, 1, 0, 5)) < 1e-13);
    // Two texts, the shorter padded on the left: its positions begin behind the padding.
    const Tensor padded = concat({Tensor::zeros({1, 3}, DType::i64), ids}, 1);
    const Tensor mask = concat({Tensor::zeros({1, 3}, DType::i64), Tensor::ones({1, 9}, DType::i64)}, 1);
    const Tensor positions = concat({Tensor::zeros({1, 3}, DType::i64), Tensor::arange(9).unsqueeze(0)}, 1);
    const Tensor y = model({.ids = padded, .attention_mask = mask, .positions = positions});
    CHECK(relative_error(slice(y, 1, 3, 12), all) < 1e-13);
    CHECK(relative_error(slice(model({.ids = padded, .positions = positions}), 1, 3, 12), all) > 1e-3); // control
  }
}

TEST_CASE("gradients of decoders and of BERT along random directions") {
  const auto checked = [](Module& model, const std::function<Tensor()>& loss) {
    const std::vector<Tensor> parameters = model.parameters();
    const auto f = [&](const std::vector<Tensor>& p) -> std::vector<Tensor> {
      const ParameterScope scope(model, p);
      return {loss()};
    };
    CHECK(gradcheck(f, parameters).pass);
  };
  const Tensor ids = text(2, 6), labels = text(2, 6);
  for (const DecoderConfig& config : configs()) {
    Decoder model(config, {1, 0});
    model.to(DType::f64);
    roughen(model, {2, 0});
    model.eval();
    checked(model, [&] { return cross_entropy(model.language_model(model({.ids = ids})), labels); });
  }
  BertConfig config;
  config.vocabulary = 17;
  config.positions = 8;
  config.layers = 1;
  config.encoder.dim = 12;
  config.encoder.heads = 3;
  config.encoder.mlp = 10;
  config.padding = -1;
  config.head = Head::pretraining;
  Bert bert(config, {1, 0});
  bert.to(DType::f64);
  roughen(bert, {2, 0});
  bert.eval();
  const Tensor mask = Tensor::from<std::int64_t>({1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0}, {2, 6});
  checked(bert, [&] {
    const Tensor hidden = bert({.ids = ids, .attention_mask = mask, .token_types = ne(ids, 3.0).to(DType::i64)});
    return cross_entropy(bert.masked_lm(hidden), labels) + mean(bert.classify(hidden));
  });
}

TEST_CASE("the padding id's embedding gets no gradient as an input") {
  DecoderConfig config = small_llama();
  config.padding = 5;
  for (const bool constant : {true, false}) {
    config.constant_padding = constant;
    Decoder model(config, {1, 0});
    model.eval();
    const Tensor ids = Tensor::from<std::int64_t>({5, 2, 5, 3}, {1, 4});
    Tape tape;
    const Tensor g = tape.gradient(mean(square(model({.ids = ids}))), {model.token_embedding.weight})[0];
    const auto size = [&](std::int64_t row) { return sum(abs(g.select(0, row))).item(); };
    CHECK((size(5) == 0.0) == constant);
    CHECK(size(2) > 0.0);
  }
}

TEST_CASE("a GPT and a Llama learn a text, and generate it") {
  for (DecoderConfig config : {small_gpt2(), small_llama()}) {
    config.block.dropout = config.block.attention_dropout = config.embedding_dropout = 0.05;
    Decoder model(config, {1, 0});
    std::vector<std::int64_t> song;
    for (std::int64_t i = 0; i < 24; ++i) song.push_back((i * i + 3) % 17);
    const Tensor ids = Tensor::from<std::int64_t>(song, {1, 24});
    const std::vector<Tensor> parameters = model.parameters();
    const auto adam = optim::make_optimizer("adam", parameters);
    for (std::uint64_t step = 0; step < 150; ++step) {
      Tape tape;
      const Tensor logits = model.language_model(model({.ids = slice(ids, 1, 0, 23)}, nullptr, {5, step}));
      adam->step(tape.gradient(cross_entropy(logits, slice(ids, 1, 1, 24)), parameters), 3e-3);
    }
    CHECK_THROWS_WITH_AS(generate(model, {{3}}, {}), "generate: the model is in training; call eval()", ValueError);
    model.eval();
    const std::vector<std::int64_t> prompt(song.begin(), song.begin() + 6);
    const std::vector<std::int64_t> rest(song.begin() + 6, song.end());
    CHECK(generate(model, prompt, {.max_new_tokens = 18}) == rest);
    const auto first = std::find(rest.begin(), rest.end(), song[9]); // the text ends with the first of these
    const std::vector<std::int64_t> ended = generate(model, prompt, {.max_new_tokens = 18, .end_ids = {song[9]}});
    CHECK(ended == std::vector<std::int64_t>(rest.begin(), first + 1));
  }
}

TEST_CASE("sampling: temperature, top_k and top_p, as many times as they say") {
  const Tensor logits = Tensor::from<double>({std::log(0.4), std::log(0.1), std::log(0.3), std::log(0.2)}, {4});
  const auto counts = [&](const SamplingOptions& options) {
    std::map<std::int64_t, int> seen;
    for (std::uint64_t i = 0; i < 4000; ++i) ++seen[sample(logits, options, uniform_at({8, 0}, i))];
    return seen;
  };
  CHECK(counts({}) == std::map<std::int64_t, int>{{0, 4000}});
  const auto plain = counts({.temperature = 1.0});
  for (const auto& [id, p] : std::map<std::int64_t, double>{{0, 0.4}, {1, 0.1}, {2, 0.3}, {3, 0.2}})
    CHECK(std::abs(plain.at(id) / 4000.0 - p) < 0.03);
  CHECK(counts({.temperature = 1.0, .top_k = 2}).size() == 2);
  CHECK(counts({.temperature = 1.0, .top_p = 0.65}).size() == 2); // 0.4 + 0.3
  CHECK(counts({.temperature = 1.0, .top_p = 0.75}).size() == 3);
  CHECK(counts({.temperature = 1.0, .top_p = 1e-9}).size() == 1);
  const auto sharp = counts({.temperature = 0.5}); // 16 : 1 : 9 : 4
  CHECK(std::abs(sharp.at(0) / 4000.0 - 16.0 / 30.0) < 0.03);
  const Tensor equal = Tensor::zeros({4});
  std::map<std::int64_t, int> seen;
  for (std::uint64_t i = 0; i < 400; ++i)
    ++seen[sample(equal, {.temperature = 1.0, .top_k = 1}, uniform_at({8, 0}, i))];
  CHECK(seen.size() == 4); // equals of the k-th stay
}

TEST_CASE("what cannot be generated is said") {
  Decoder model(small_llama(), {});
  model.eval();
  const auto says = [&](std::vector<std::int64_t> prompt, const GenerateOptions& options, const char* words) {
    CHECK_THROWS_WITH_AS(generate(model, prompt, options), doctest::Contains(words), ValueError);
  };
  says({}, {}, "the prompt is empty");
  says({17}, {}, "17 is not one of 17 ids");
  CHECK(generate(model, {{1, 2}}, {.max_new_tokens = 39}).size() == 39); // rotary positions have no end
  Decoder learned(small_gpt2(), {});
  learned.eval();
  CHECK_THROWS_WITH_AS(generate(learned, {{1, 2}}, {.max_new_tokens = 39}),
                       doctest::Contains("a prompt of 2 tokens and 39 new ones are more than the model's 40 positions"),
                       ValueError);
  says({1}, {.max_new_tokens = -1}, "max_new_tokens must not be negative");
  says({1}, {.max_new_tokens = 1, .sampling = {.temperature = -1.0}}, "temperature must not be negative");
  says({1}, {.max_new_tokens = 1, .sampling = {.top_p = 0.0}}, "top_p must be in (0, 1]");
  says({1}, {.max_new_tokens = 1, .sampling = {.top_k = -2}}, "top_k must not be negative");
  CHECK_THROWS_WITH_AS(sample(Tensor::from<double>({1.0, std::nan("")}, {2}), {}, 0.5),
                       "sample: the logit of token 1 is NaN", ValueError);
  DecoderConfig headless = small_llama();
  headless.head = Head::none;
  Decoder body(headless, {});
  body.eval();
  CHECK_THROWS_WITH_AS(generate(body, {{1}}, {}), doctest::Contains("head is none"), ValueError);
}

namespace {

/// Leaves room for so many more bytes while it lives.
class MemoryFor {
public:
  explicit MemoryFor(std::size_t bytes) : limit_(allocator::limit()) {
    allocator::set_limit(allocator::stats().live_bytes + bytes);
  }
  ~MemoryFor() { allocator::set_limit(limit_); }
  MemoryFor(const MemoryFor&) = delete;
  MemoryFor& operator=(const MemoryFor&) = delete;

private:
  std::size_t limit_;
};

} // namespace

TEST_CASE("generating takes memory for the tokens that there are, not for all that there may be") {
  Decoder model(small_llama(), {1, 0});
  model.eval();
  const auto first_three = [&](std::int64_t most) {
    int left = 3;
    return generate(model, {{1, 2}}, {.max_new_tokens = most}, [&](std::int64_t) { return --left > 0; });
  };
  const std::vector<std::int64_t> few = first_three(3);
  for (const std::int64_t most : {std::int64_t{1'000'000'000'000}, std::numeric_limits<std::int64_t>::max()}) {
    const MemoryFor a_little(std::size_t{8} << 20);
    CHECK(first_three(most) == few);
  }
  const MemoryFor too_little(std::size_t{256} << 10);
  CHECK_THROWS_WITH_AS(
      generate(model, {{1, 2}}, {.max_new_tokens = 1'000'000}),
      doctest::Contains("a prompt of 2 and up to 1000000 new ones; --max-new-tokens asks for fewer): out of memory"),
      MemoryError);
}

TEST_CASE("a cache that grows gives the bits of one that does not") {
  for (const std::int64_t prompt : {1, 300}) {
    Decoder model(small_llama(), {1, 0});
    roughen(model, {2, 0});
    model.eval();
    const Tensor given = text(1, prompt);
    const std::vector<std::int64_t> ids = given.to_vector<std::int64_t>();
    const GenerateOptions options{.max_new_tokens = 700, .sampling = {.temperature = 1.0}, .key = {4, 0}};
    DecoderCache cache(model.config, 1, prompt + 700);
    const auto all = [](std::int64_t) { return true; };
    const std::vector<std::int64_t> wanted =
        generate(model, ids, options, all, [&](const Tensor& next) { return model({.ids = next}, &cache); });
    CHECK(generate(model, ids, options) == wanted);
  }
}

TEST_CASE("a pass that is stopped leaves the cache as it was") {
  nn::DecoderConfig config = nn::llama_config(12, 3, 1, 10, 3);
  config.vocabulary = 11;
  const nn::Decoder model(config, {5, 0});
  const auto ids = [](std::vector<std::int64_t> of) {
    return Tensor::from<std::int64_t>(of, {1, static_cast<std::int64_t>(of.size())});
  };
  nn::DecoderCache cache(config, 1, 8), fresh(config, 1, 8);
  model({.ids = ids({1, 2, 3})}, &cache);
  model({.ids = ids({1, 2, 3})}, &fresh);
  struct Stop {};
  int stopped = 0;
  for (int last = 1; last < 200; ++last) { // at every operation of the pass
    int asked = 0;
    const auto check = [&] {
      if (++asked == last) throw Stop{};
    };
    const InterruptScope scope(check);
    try {
      model({.ids = ids({4})}, &cache);
      break;
    } catch (const Stop&) {
      ++stopped;
      for (const nn::KvCache& layer : cache.layers()) REQUIRE(layer.length() == 3);
    }
  }
  CHECK(stopped > 20);
  CHECK(cache.length() == 4);
  CHECK(same_bits(model({.ids = ids({5})}, &cache),
                  (model({.ids = ids({4})}, &fresh), model({.ids = ids({5})}, &fresh))));
  config.layers = 0;
  CHECK_THROWS_AS(nn::DecoderCache(config, 1, 8), ValueError);
}
