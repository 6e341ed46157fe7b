#include "training/bert_run.h"

#include "core/ops.h"
#include "nn/bert.h"
#include "permute/key.h"
#include "training/blocks_mark.h"
#include "training/fine_tuning.h"
#include "training/key_state.h"
#include "training/option_fields.h"
#include "training/split_blocks.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <optional>

namespace eg::permute {
namespace {

using training::ClassifyOptions;
using training::Passing;

enum Draw : std::uint64_t { draw_columns = 16, draw_rows, draw_test_rows }; // behind ModelTask's

RandomKey drawn(const ClassifyOptions& options, Draw draw) { return RandomKey{options.seed, 0}.fold(draw); }

/// What the blocks of a run carry; `secret`: null to draw it from the seed.
VitKey column_key(const ClassifyOptions& options, const nn::BertConfig& config, const SecretKey* secret) {
  const PermutationSource source = secret ? secret->source("bert") : public_source(drawn(options, draw_columns));
  return VitKey::draw(config.encoder, config.layers, key_form_named(options.key_form), source);
}

class PermutedPassage final : public training::Passage {
public:
  PermutedPassage(const ClassifyOptions& options, const SplitTraining& split)
      : options_(options), split_(split), mode_(train_mode_named(options.permute)) {
    if (!options.key.empty()) secret_.emplace(SecretKey::load(options.key));
  }

  void enter(nn::Bert& bert) override {
    config_ = bert.config;
    if (!permutes_columns(mode_)) return;
    key_ = column_key(options_, config_, secret_ ? &*secret_ : nullptr);
    transform_module(bert, bert_block_axes(config_), key_->permutations(config_.encoder));
  }

  std::vector<std::string> learning_here(std::vector<std::string> learning, const nn::Bert& bert) const override {
    return split_.encoder ? learning_beside_blocks(std::move(learning), bert) : learning;
  }

  void begin(const nn::Bert& bert, std::int64_t steps) override {
    if (!split_.encoder) return;
    nn::StateDict blocks = bert.state_dict();
    std::erase_if(blocks, [](const auto& entry) { return !is_block(entry.first); });
    split_.encoder->begin(recipe(steps), blocks);
  }

  Tensor encode(const nn::Bert& bert, const Tensor& z, const Tensor& mask, const Passing& p) override {
    const Tensor rows = rows_of(z.size(0), z.size(1), p);
    Tensor x = z, seen = mask;
    if (rows.defined()) {
      x = permute_rows(x, rows);
      if (mask.defined()) seen = gather(mask, 1, rows);
    }
    if (key_) x = key_->apply_columns(x);
    x = through_blocks(bert, x, seen, p);
    if (key_) x = key_->undo_columns(x);
    return rows.defined() ? permute_rows(x, invert_permutation(rows)) : x;
  }

  void save(std::optional<std::int64_t> best) const override {
    if (split_.encoder) split_.encoder->save(done_, best);
  }
  void load(const nlohmann::json& state, std::int64_t steps) override {
    done_ = state.at("step").get<std::int64_t>();
    if (split_.encoder) split_.encoder->resume(recipe(steps), state.at("elsewhere").get<std::string>(), done_);
  }
  void add_state(nlohmann::ordered_json& state) const override {
    remember_key(state, secret_ ? &*secret_ : nullptr);
    if (split_.encoder) remember_place(state, split_);
  }
  void check_state(const nlohmann::json& state, const std::string& checkpoint) const override {
    require_same_key(state, checkpoint, secret_ ? &*secret_ : nullptr);
    require_same_place(state, checkpoint, split_.encoder != nullptr);
  }

  void finish(nn::Bert& bert) const override {
    if (!split_.encoder) return;
    fetch_blocks(bert);
    if (key_) {
      const PermutationSet moves =
          moves_of_ending(split_, key_->permutations(config_.encoder), [&](const SecretKey& k) {
            return column_key(options_, config_, &k).permutations(config_.encoder);
          });
      if (!moves.empty()) transform_module(bert, bert_block_axes(config_), moves);
    }
  }

  void mark(const std::string& folder) const override {
    const KeyForm form = key_form_named(options_.key_form);
    write_blocks_mark(folder, key_ ? mark_of(split_, form, secret_ ? &*secret_ : nullptr) : std::nullopt);
  }

  bool hides_columns() const { return split_.encoder && key_; }
  /// From now on features pass as they are, through the blocks as they were trained, which the model receives.
  void lose_key(nn::Bert& bert) {
    fetch_blocks(bert);
    split_ = {};
    key_.reset();
    mode_ = TrainMode::none;
  }

private:
  /// The order in which the tokens of each text pass; undefined when they pass as they are.
  Tensor rows_of(std::int64_t texts, std::int64_t tokens, const Passing& p) const {
    if (!permutes_rows(mode_)) return {};
    const bool test = p.step == Passing::in_test;
    // Each test has orders of its own.
    const auto first = static_cast<std::uint64_t>(test ? p.first + (done_ << 22) : p.first);
    if (secret_) return secret_->row_permutations(texts, tokens, test ? "bert.test" : "bert.train", first);
    return row_permutations(texts, tokens, drawn(options_, test ? draw_test_rows : draw_rows).fold(first));
  }

  Tensor through_blocks(const nn::Bert& bert, const Tensor& x, const Tensor& mask, const Passing& p) {
    const bool test = p.step == Passing::in_test;
    if (!test) done_ = p.step + 1;
    if (!split_.encoder) return bert.encode(x, mask, p.dropout);
    return test ? split_.encoder->evaluate(x, mask) : split_.encoder->encode(x, mask, p.step);
  }

  training::EncoderRecipe recipe(std::int64_t steps) const {
    training::RunOptions run = options_;
    run.steps = steps;
    run.epochs = 0;
    return {.layers = config_.layers, .block = config_.encoder, .run = run};
  }

  void fetch_blocks(nn::Bert& bert) const {
    nn::StateDict all = bert.state_dict();
    for (auto& [name, value] : split_.encoder->blocks()) {
      const auto at =
          std::find_if(all.begin(), all.end(), [&, n = name](const auto& entry) { return entry.first == n; });
      if (at == all.end()) throw ValueError(fmt::format("train: the model has no '{}'", name));
      at->second = value;
    }
    bert.load_state_dict(all);
  }

  ClassifyOptions options_;
  SplitTraining split_;
  TrainMode mode_;
  std::optional<SecretKey> secret_;
  std::optional<VitKey> key_;
  nn::BertConfig config_;
  std::int64_t done_ = 0; ///< steps
};

} // namespace

training::ClassifyOptions split_bert_defaults() {
  ClassifyOptions options;
  options.clip = 0.0;
  return options;
}

BertRun bert_run(const ClassifyOptions& options, StopFlag stop, const SplitTraining& split) {
  training::check(options);
  key_form_named(options.key_form); // also where no columns are permuted
  if (split.encoder) check_split(options, train_mode_named(options.permute), split);
  const auto passage = std::make_shared<PermutedPassage>(options, split);
  BertRun run{.trainer = training::bert_trainer(options, stop, passage), .test_without_key = {}};
  if (passage->hides_columns())
    run.test_without_key = [passage, trainer = run.trainer.get()](StopFlag until) {
      passage->lose_key(dynamic_cast<nn::Bert&>(trainer->model().module()));
      const training::Record found = trainer->test(until);
      if (until != nullptr && until->load()) throw Interrupted("train: interrupted while tested without the key");
      return found;
    };
  return run;
}

void undo_columns(nn::Bert& bert, const ClassifyOptions& options) {
  if (!permutes_columns(train_mode_named(options.permute))) return;
  std::optional<SecretKey> secret;
  if (!options.key.empty()) secret.emplace(SecretKey::load(options.key));
  const VitKey key = column_key(options, bert.config, secret ? &*secret : nullptr);
  transform_module(bert, bert_block_axes(bert.config), inverse(key.permutations(bert.config.encoder)));
}

} // namespace eg::permute
