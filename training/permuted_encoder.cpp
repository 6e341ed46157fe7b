#include "training/permuted_encoder.h"

#include "training/key_state.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>

namespace eg::training {

using permute::BlocksKey;
using permute::PermutationSet;
using permute::PermuteMode;
using permute::SecretKey;

PermutedEncoder::PermutedEncoder(const RunOptions& run, Options options, SplitTraining split)
    : run_(run), options_(std::move(options)), split_(std::move(split)) {
  if (!options_.key.empty()) secret_.emplace(SecretKey::load(options_.key));
}

BlocksKey PermutedEncoder::key_for(const nn::BlockConfig& config, std::int64_t layers, const SecretKey* secret) const {
  const PermutationDraws& draws = options_.draws;
  const permute::PermutationSource source = secret != nullptr
                                                ? secret->source(draws.model)
                                                : permute::public_source(RandomKey{run_.seed, 0}.fold(draws.columns));
  return BlocksKey::draw(config, layers, options_.form, source);
}

void PermutedEncoder::draw_columns(const nn::BlockConfig& config, std::int64_t layers) {
  BlocksKey key = key_for(config, layers, secret_ ? &*secret_ : nullptr);
  PermutationSet moves = key.permutations(config);
  columns_.emplace(Columns{std::move(key), permute::blocks_axes(config, layers), std::move(moves), config, layers});
}

void PermutedEncoder::couple(nn::Module& model) const { transform_module(model, columns_->axes, columns_->moves); }

void PermutedEncoder::uncouple(nn::Module& model) const {
  transform_module(model, columns_->axes, inverse(columns_->moves));
}

nn::StateDict PermutedEncoder::uncoupled(const nn::StateDict& weights) const {
  return transform(weights, columns_->axes, inverse(columns_->moves));
}

Tensor PermutedEncoder::rows(std::int64_t first, std::int64_t samples, std::int64_t tokens, data::Split split) const {
  const PermutationDraws& draws = options_.draws;
  const auto sample = static_cast<std::uint64_t>(first);
  const bool train = split == data::Split::train;
  if (secret_) return secret_->row_permutations(samples, tokens, draws.model + (train ? ".train" : ".test"), sample);
  const RandomKey key = RandomKey{run_.seed, 0}.fold(train ? draws.rows : draws.test_rows);
  return permute::row_permutations(samples, tokens, key.fold(sample));
}

Tensor PermutedEncoder::encode(PermuteMode mode, const Tensor& z, const Tensor& mask, const Tensor& rows,
                               std::optional<std::int64_t> step,
                               FunctionRef<Tensor(const Tensor& z, const Tensor& mask)> blocks) const {
  if (keyless_) return blocks(z, mask);
  const permute::PermutedPass pass{.rows = permutes_rows(mode) ? rows : Tensor{},
                                   .columns = permutes_columns(mode) ? &columns_->key.residual : nullptr};
  const Tensor seen = pass.enter_mask(mask);
  return pass.through(z, [&](const Tensor& x) {
    if (!elsewhere()) return blocks(x, seen);
    return step ? split_.encoder->encode(x, seen, *step) : split_.encoder->evaluate(x, seen);
  });
}

std::vector<std::string> PermutedEncoder::trainable_here(std::vector<std::string> learning,
                                                         const nn::Module& whole) const {
  if (!elsewhere()) return learning;
  const std::vector<std::string> all = nn::parameter_names(whole);
  if (std::ranges::count_if(learning, is_block) != std::ranges::count_if(all, is_block))
    throw ValueError("train: freeze holds weights of the encoder, and the party with the encoder trains all of them");
  std::erase_if(learning, is_block);
  const auto before = [](const std::string& name) {
    return name.find("embedding") != std::string::npos || name.ends_with("_token");
  };
  if (std::ranges::none_of(learning, before))
    throw ValueError("train: freeze leaves nothing to learn before the encoder, so that no gradient would reach it");
  return learning;
}

EncoderRecipe PermutedEncoder::recipe(const nn::BlockConfig& config, std::int64_t layers, std::int64_t steps) const {
  RunOptions all = run_;
  all.steps = steps;
  all.epochs = 0;
  return {.layers = layers, .block = config, .run = all};
}

void PermutedEncoder::begin(const nn::StateDict& weights, const nn::BlockConfig& config, std::int64_t layers,
                            std::int64_t steps) const {
  nn::StateDict blocks = weights;
  std::erase_if(blocks, [](const auto& entry) { return !is_block(entry.first); });
  split_.encoder->begin(recipe(config, layers, steps), blocks);
}

void PermutedEncoder::resume(const nlohmann::json& state, const nn::BlockConfig& config, std::int64_t layers,
                             std::int64_t steps) const {
  split_.encoder->resume(recipe(config, layers, steps), state.at("elsewhere").get<std::string>(),
                         state.at("step").get<std::int64_t>());
}

void PermutedEncoder::save(std::int64_t step, std::optional<std::int64_t> best) const {
  if (elsewhere()) split_.encoder->save(step, best);
}

void PermutedEncoder::end(nn::Module& whole) const {
  if (!columns_ || split_.final_weights == FinalWeights::encrypted) return;
  if (split_.final_weights == FinalWeights::decrypted) return uncouple(whole);
  const SecretKey next = SecretKey::load(split_.next_key);
  const PermutationSet to = key_for(columns_->config, columns_->layers, &next).permutations(columns_->config);
  transform_module(whole, columns_->axes, between(columns_->moves, to));
}

void PermutedEncoder::forget_key() {
  split_ = {};
  keyless_ = true;
}

void PermutedEncoder::add_state(nlohmann::ordered_json& state) const {
  remember_key(state, secret_ ? &*secret_ : nullptr);
  if (!elsewhere()) return;
  state["elsewhere"] = split_.encoder->run();
  state["finish"] = name_of(split_.final_weights);
}

void PermutedEncoder::check_state(const nlohmann::json& state, const std::string& checkpoint) const {
  require_same_key(state, checkpoint, secret_ ? &*secret_ : nullptr);
  const bool was = state.contains("elsewhere");
  if (was == elsewhere() && (!was || state["elsewhere"].is_string())) return;
  throw ValueError(fmt::format("train: {} is of a run {}", checkpoint,
                               was ? "whose encoder is elsewhere: go on with equigrad edge"
                                   : "in one process: go on with equigrad train"));
}

std::optional<BlocksMark> PermutedEncoder::mark() const {
  if (!columns_ || (elsewhere() && split_.final_weights == FinalWeights::decrypted)) return {};
  if (elsewhere() && split_.final_weights == FinalWeights::rekeyed)
    return BlocksMark{.key = SecretKey::load(split_.next_key).fingerprint(), .form = options_.form};
  return BlocksMark{.key = secret_ ? secret_->fingerprint() : "", .form = options_.form};
}

bool is_block(const std::string& parameter) { return parameter.starts_with("blocks."); }

} // namespace eg::training
