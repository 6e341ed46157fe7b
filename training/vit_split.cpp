// A VitTrainer whose encoder blocks are elsewhere (split learning).

#include "nn/init.h"
#include "training/option_fields.h"
#include "training/split_blocks.h"
#include "training/vit_state.h"

#include <algorithm>

namespace eg::permute {

bool is_block(const std::string& parameter) { return parameter.starts_with("blocks."); }

std::vector<std::string> learning_beside_blocks(std::vector<std::string> learning, const nn::Module& whole) {
  const std::vector<std::string> all = nn::parameter_names(whole);
  if (std::ranges::count_if(learning, is_block) != std::ranges::count_if(all, is_block))
    throw ValueError("train: freeze holds weights of the encoder, and who has the encoder trains all of them");
  std::erase_if(learning, is_block);
  const auto before = [](const std::string& name) {
    return name.find("embedding") != std::string::npos || name.ends_with("_token");
  };
  if (std::ranges::none_of(learning, before))
    throw ValueError("train: freeze leaves nothing to learn before the encoder, so that no gradient would reach it");
  return learning;
}

void require_same_place(const nlohmann::json& state, const std::string& checkpoint, bool elsewhere) {
  const bool was = state.contains("elsewhere");
  if (was == elsewhere && (!was || state["elsewhere"].is_string())) return;
  throw ValueError(fmt::format("train: {} is of a run {}", checkpoint,
                               was ? "whose encoder is elsewhere: go on with equigrad edge"
                                   : "in one process: go on with equigrad train"));
}

namespace {

constexpr const char* name_of(Ending ending) {
  return ending == Ending::decrypted ? "decrypt" : ending == Ending::encrypted ? "encrypted" : "key";
}

} // namespace

void remember_place(nlohmann::ordered_json& state, const SplitTraining& split) {
  state["elsewhere"] = split.encoder->run();
  state["finish"] = name_of(split.ending);
}

std::optional<Ending> ending_of_run(const std::string& folder) {
  const nlohmann::json state = training::newest_state(folder);
  if (!state.is_object() || !state.contains("finish")) return {};
  for (const Ending ending : {Ending::decrypted, Ending::encrypted, Ending::rekeyed})
    if (state["finish"] == name_of(ending)) return ending;
  return {};
}

std::optional<BlocksMark> mark_of(const SplitTraining& split, KeyForm form, const SecretKey* secret) {
  if (split.encoder && split.ending == Ending::decrypted) return {};
  if (split.encoder && split.ending == Ending::rekeyed)
    return BlocksMark{.key = SecretKey::load(split.next_key).fingerprint(), .form = form};
  return BlocksMark{.key = secret != nullptr ? secret->fingerprint() : "", .form = form};
}

PermutationSet moves_of_ending(const SplitTraining& split, const PermutationSet& columns,
                               FunctionRef<PermutationSet(const SecretKey&)> of_key) {
  if (split.ending == Ending::encrypted) return {};
  if (split.ending == Ending::decrypted) return inverse(columns);
  return between(columns, of_key(SecretKey::load(split.next_key)));
}

void check_split(const training::RunOptions& o, TrainMode mode, const SplitTraining& split) {
  using training::need;
  need(o.accumulate == 1, "accumulate",
       "must be 1 with the encoder elsewhere: a step is one round trip there and back");
  need(o.clip == 0.0, "clip", "needs the joint norm of all gradients, and no side has them all");
  need(o.layer_decay == 1.0, "layer_decay", "counts blocks from the head, and no side has all");
  need(o.ema == 0.0, "ema", "needs all weights here");
  need(o.on_divergence == training::OnDivergence::stop, "on_divergence",
       "must be stop with the encoder elsewhere, which has taken its step when a gradient here turns out infinite");
  need(split.ending != Ending::rekeyed || permutes_columns(mode), "finish",
       "with another key needs permuted columns: there is no key to change");
}

void check_split(const TrainOptions& o, const SplitTraining& split) {
  using training::need;
  need(!o.twin && o.variants.size() <= 1, "twin", "needs both models in one process; compare with a run of `train`");
  need(!o.model.encoder.checkpoint, "checkpoint_blocks", "is for blocks that are computed here");
  check_split(o, o.variants.empty() ? o.permute : o.variants.front(), split);
}

training::EncoderRecipe VitTrainer::State::recipe() const {
  training::RunOptions all = options;
  all.steps = options.steps > 0 ? options.steps : options.epochs * loader->batches_per_epoch();
  all.epochs = 0;
  return {.layers = options.model.layers, .block = options.model.encoder, .run = all};
}

void VitTrainer::State::take_blocks_out(Variant& v) {
  nn::StateDict rest;
  for (const auto& [name, value] : v.model->state_dict()) {
    nn::StateDict& part = is_block(name) ? split_start : rest;
    part.emplace_back(name, value);
  }
  nn::VitConfig config = options.model;
  config.layers = 0;
  const nn::init::SkipScope read_right_after;
  v.model = std::make_unique<nn::Vit>(config, RandomKey{});
  v.model->to(options.dtype);
  v.model->load_state_dict(rest);
}

std::unique_ptr<nn::Vit> VitTrainer::State::whole_model(const PermutationSet& moved) const {
  const PauseRecording pause;
  std::unique_ptr<nn::Vit> whole;
  {
    const nn::init::SkipScope read_right_after;
    whole = std::make_unique<nn::Vit>(options.model, RandomKey{});
  }
  whole->to(options.dtype);
  nn::StateDict all = variants.back().model->state_dict();
  for (auto& block : split.encoder->blocks()) all.push_back(std::move(block));
  whole->load_state_dict(all);
  if (!moved.empty()) transform_module(*whole, axes, moved);
  return whole;
}

PermutationSet VitTrainer::State::ending_moves() const {
  if (!permutes_columns(variants.back().mode)) return {};
  return moves_of_ending(split, columns, [&](const SecretKey& next) {
    const VitKey key = VitKey::draw(options.model.encoder, options.model.layers, options.key_form, next.source("vit"));
    return key.permutations(options.model.encoder);
  });
}

VariantValues VitTrainer::test_without_key(StopFlag stop) const {
  const State& s = *state_;
  Variant plain{.mode = TrainMode::none, .model = s.whole_model({})};
  plain.model->eval();
  const PauseRecording pause;
  VariantValues found;
  for (std::int64_t b = 0; b < s.test_loader->batches_per_epoch(); ++b) {
    if (stop != nullptr && stop->load()) throw Interrupted("train: interrupted while tested without the key");
    const data::Batch batch = s.test_loader->batch(0, b);
    s.measure(plain, batch, plain.model->encode(plain.model->embed(batch.images)), found.loss, found.accuracy);
  }
  found.loss /= static_cast<double>(s.test_images.size());
  found.accuracy /= static_cast<double>(s.test_images.size());
  return found;
}

} // namespace eg::permute
