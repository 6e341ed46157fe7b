// Attacks on the states of a text.

#include "apps/attacks/attack_views.h"
#include "apps/attacks/fingerprints.h"
#include "apps/attacks/metrics.h"
#include "permute/recovery/vocabulary.h"

#include "core/base/words.h"
#include "core/call.h"
#include "core/ops.h"

#include <algorithm>
#include <fmt/format.h>

namespace eg::attacks {

using permute::BlockWeights;
using permute::Columns;
namespace {

/// Behind blocks every token is tried with a pass of its own: for large vocabularies that takes hours.
constexpr std::int64_t most_passes = 4096, chunk = 1024;

std::int64_t layer_seen(const Setting& s) {
  if (s.layer > s.model.layers)
    throw ValueError(fmt::format("vocabulary: the model has {}, not {}",
                                 count_of(static_cast<std::uint64_t>(s.model.layers), "block"), s.layer));
  if (s.layer > 0 && !s.model.block.causal)
    throw ValueError("vocabulary: behind the blocks of an encoder a token depends on those after it; only layer 0 can "
                     "be tried token by token");
  if (s.layer >= 0) return s.layer;
  return s.model.block.causal && s.model.text->vocabulary <= most_passes ? s.model.layers : 0;
}

/// States of all tokens of the vocabulary behind `layer` blocks of the attacker's model.
permute::NextStates next_states(const BlockWeights& known, std::int64_t layer) {
  auto blocks = std::make_shared<nn::Blocks>(permute::blocks_with(known.block, layer, known.weights));
  return [blocks, layer, text = *known.text](std::span<const std::int64_t> prefix) {
    const auto before = static_cast<std::int64_t>(prefix.size());
    std::vector<Tensor> parts;
    for (std::int64_t begin = 0; begin < text.vocabulary; begin += chunk) {
      const std::int64_t count = std::min(chunk, text.vocabulary - begin);
      const Tensor last = arange(static_cast<double>(begin), static_cast<double>(begin + count)).unsqueeze(1);
      const Tensor first = expand(Tensor::from<std::int64_t>(prefix, {1, before}), {count, before});
      const Tensor ids = before == 0 ? last : concat({first, last}, 1);
      parts.push_back(through(*blocks, layer, text.embed(ids).to(DType::f64)).select(1, before).contiguous());
    }
    return concat(parts, 0);
  };
}

/// P_C from states of tokens that are known by now.
void add_key(Findings& f, const Scene& scene, const Tensor& seen, const Tensor& plain) {
  const permute::Permutation& truth = scene.cloud.key.at("residual");
  f.list.push_back(
      {.what = "P_C from the first token's state",
       .value = key_recovery_rate(permute::features_from_states(seen.slice(0, 0, 1), plain.slice(0, 0, 1)), truth)});
  f.list.push_back({.what = "P_C from the text's states",
                    .value = key_recovery_rate(permute::features_from_states(seen, plain), truth)});
}

Findings match_tokens(const Setting& s) {
  const Scene scene(s);
  const PauseRecording pause;
  const std::int64_t layer = layer_seen(s);
  const Tensor ids = scene.texts(1);
  const auto text = ids.to_vector<std::int64_t>();
  const nn::Blocks blocks = permute::blocks_with(s.model.block, layer, scene.cloud.weights);
  const Tensor plain = s.model.text->embed(ids).to(DType::f64);
  // Under fresh keys the cloud gets weights under the key of the query: one new key.
  const Tensor inside = scene.noisy(through(blocks, layer, scene.cloud.enter(plain)), 0).select(0, 0).contiguous();
  const permute::Permutation order = scene.order(s.tokens, 0);
  const Tensor seen = order.apply(inside, 0);
  const permute::NextStates next = next_states(scene.known, layer);
  const permute::VocabularyMatch found = permute::match_vocabulary(seen, next, {scene.rows(), scene.moves_features()});
  const bool exact = s.scheme.columns != Columns::orthogonal && !s.scheme.noise;
  Findings f;
  if (scene.rows() && layer == 0)
    f.list.push_back({.what = "tokens, whatever their order",
                      .value = token_bag_rate(found.ids, text),
                      .theory = scene.all_if(exact)});
  else
    f.list.push_back({.what = "tokens at their places",
                      .value = token_recovery_rate(found.ids, text),
                      .theory = scene.all_if(exact)});
  if (scene.moves_features() && !scene.cloud.map.defined() && s.base == Base::published && !scene.rows()) {
    const nn::Blocks own = permute::blocks_with(s.model.block, layer, scene.known.weights);
    add_key(f, scene, seen, through(own, layer, plain).select(0, 0).contiguous());
  }
  f.remarks.push_back(fmt::format("{} tokens of {} seen behind {} of {} blocks", s.tokens, s.model.text->vocabulary,
                                  layer, s.model.layers));
  if (s.model.text->drawn) f.remarks.emplace_back("embeddings are drawn: the files hold none");
  return f;
}

/// Values of the first layer for states [V, d]: [kv_heads, V, head_dim].
Tensor values_of(const BlockWeights& v, const Tensor& states) {
  const nn::Blocks block = permute::blocks_with(v.block, 1, v.weights);
  const Tensor x = v.block.pre_norm ? block[0]->norm1(states.unsqueeze(0)) : states.unsqueeze(0);
  return block[0]->attention.trace(x).v.select(0, 0).contiguous();
}

/// The same without attention's own product, for a whole vocabulary.
Tensor vocabulary_values(const BlockWeights& v, const Tensor& states) {
  const nn::Blocks block = permute::blocks_with(v.block, 1, v.weights);
  const Tensor x = v.block.pre_norm ? block[0]->norm1(states) : states;
  Tensor y = matmul(x, permute::weight_named(v.weights, "blocks.0.v"), false, true);
  for (const auto& [name, bias] : v.weights)
    if (name == "blocks.0.v.bias") y = y + bias;
  return transpose(y.reshape({states.size(0), v.kv_heads(), v.block.width_of_head()}), 0, 1).contiguous();
}

/// Heads that have moved too are one head of all features.
Tensor as_one_head(const Tensor& x) {
  return transpose(x, 0, 1).contiguous().reshape({1, x.size(1), x.size(0) * x.size(2)});
}

Findings read_cache(const Setting& s) {
  const Scene scene(s);
  const PauseRecording pause;
  const Tensor ids = scene.texts(1);
  const Tensor entered = scene.cloud.enter(s.model.text->embed(ids).to(DType::f64));
  BlockWeights cloud = s.model;
  cloud.weights = scene.cloud.weights;
  Tensor cached = values_of(cloud, scene.noisy(entered, 0).select(0, 0).contiguous());
  const bool heads_move = s.scheme.columns == Columns::decoupled || s.scheme.columns == Columns::tied;
  if (heads_move) cached = as_one_head(cached);
  const CacheForm form = scene.moves_inside() ? CacheForm::within_heads : CacheForm::plain;
  const permute::NextStates next = next_states(scene.known, 0);
  std::vector<std::int64_t> found;
  Tensor before, table;
  for (std::int64_t t = 0; t < s.tokens; ++t) {
    const Tensor states = next(found); // differ from place to place where positions are added
    if (!before.defined() || !same_bits(states, before)) {
      before = states;
      table = vocabulary_values(scene.known, states);
      if (heads_move) table = as_one_head(table);
    }
    found.push_back(text_by_cache(cached.slice(1, t, t + 1).contiguous(), table, form).front());
  }
  Findings f;
  f.list = {{.what = "tokens from the values of the first layer",
             .value = token_recovery_rate(found, ids.to_vector<std::int64_t>()),
             .theory = scene.all_if(!s.scheme.noise)}};
  f.remarks.emplace_back(form == CacheForm::plain ? "the cache is that of the plain model: no key is needed"
                                                  : "values are permuted within heads: sorted ones are compared");
  return f;
}

Findings read_mask(const Setting& s) {
  const Scene scene(s);
  if (!scene.rows()) return nothing("tokens are in their order");
  if (!s.model.block.causal) return nothing("the model has no causal mask");
  const PauseRecording pause;
  const permute::Permutation order = scene.order(s.tokens, 0);
  const Tensor places = Tensor::arange(s.tokens);
  const Tensor seen = order.apply(order.apply(ge(places.unsqueeze(1), places.unsqueeze(0)), 0), 1);
  Findings f;
  f.list = {{.what = "P_R from the permuted mask",
             .value = key_recovery_rate(rows_of_causal_mask(seen), order),
             .theory = 1.0}};
  f.remarks.emplace_back("without the permuted mask a decoder computes something else");
  return f;
}

} // namespace

const Attack vocabulary_attack{.name = "vocabulary",
                               .id = "atk-vma",
                               .sees = "hidden states of one text",
                               .recovers = "the text, then P_C",
                               .cost = "V passes of one more token for each token, O(V T d) comparisons",
                               .source = "Hidden No More, ICML 2025 (arXiv 2505.18332)",
                               .texts = true,
                               .pictures = false,
                               .run = match_tokens};

const Attack cache_attack{.name = "cache",
                          .id = "stip-sec",
                          .sees = "the key-value cache of the first layer",
                          .recovers = "the text",
                          .cost = "O(V T d)",
                          .source = "STIP's first version has Q' = Q, K' = K, V' = V",
                          .texts = true,
                          .pictures = false,
                          .run = read_cache};

const Attack mask_attack{.name = "mask",
                         .id = "atk-mask",
                         .sees = "the permuted causal mask",
                         .recovers = "P_R",
                         .cost = "O(T^2)",
                         .source = "STIP (paper 004), section 4",
                         .texts = true,
                         .pictures = false,
                         .run = read_mask};

} // namespace eg::attacks
