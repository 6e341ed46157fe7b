// Masked language modelling.

#include "core/ops.h"
#include "data/text/tokenizer_building.h"
#include "nn/metrics.h"
#include "training/checkpoint_state.h"
#include "training/language/bert_model.h"
#include "training/language/bert_task.h"
#include "training/language/corpus.h"
#include "training/language/masker.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>

namespace eg::training {
namespace {

Corpus corpus_of(const ClassifyOptions& o, StopFlag stop) {
  const auto tokenizer = [&](std::string_view train, const std::string& path) {
    if (!o.tokenizer.empty()) return KeptTokenizer::open(o.tokenizer);
    if (o.start.begins()) return start_tokenizer(o);
    const auto each = [&](FunctionRef<void(std::string_view)> call) { call(train); };
    return KeptTokenizer::made(data::word_tokenizer(each, static_cast<std::size_t>(o.vocabulary)),
                               bert_tokenizer_config, "the words of " + path);
  };
  return read_corpus({o.data, o.data_dir, o.validation, o.held_out}, tokenizer, stop);
}

class MaskedTask final : public BertModelTask {
public:
  MaskedTask(std::unique_ptr<const ClassifyOptions> options, Corpus corpus, std::unique_ptr<hub::Model> model,
             PermutedEncoder encoder)
      : BertModelTask(std::move(options), std::move(model), std::move(encoder), fingerprint_of(corpus)),
        corpus_(std::move(corpus)), masker_(corpus_.tokenizer.tokenizer(), this->options().mask_share) {}

  std::int64_t steps_per_epoch() const override {
    const std::int64_t tokens = options().batch * inner();
    return (static_cast<std::int64_t>(corpus_.train.size()) + tokens - 1) / tokens;
  }
  const char* unit() const override { return "tokens"; }
  std::string summary() const override {
    return fmt::format(
        "{}: {} training and {} held-out tokens, vocabulary {}; BERT with {} parameters; {} windows of {} "
        "tokens a step, {} of each masked",
        corpus_.name, corpus_.train.size(), corpus_.test.size(), corpus_.tokenizer.tokenizer().size(),
        model().module().parameter_count(), options().batch, options().context, masker_.count(inner()));
  }
  void save_model(const hub::Model& model, const std::string& folder) const override {
    save_text_model(model, corpus_.tokenizer, folder);
  }

protected:
  std::int64_t draw_batch(std::int64_t step) override {
    step_ = step;
    step_key_ = key_of(options(), draw_samples).fold(static_cast<std::uint64_t>(step));
    RandomStream random(step_key_);
    starts_ = draw_windows(corpus_.train, inner(), options().batch, random);
    return options().batch * options().context;
  }

  PartLoss loss_of(const Variant&, std::int64_t first, std::int64_t last, RandomKey dropout) override {
    const std::span<const std::size_t> part(starts_.data() + first, starts_.data() + last);
    const MaskedBatch batch = moved(masker_(windows(corpus_.train, part, 0, inner()), [&](std::int64_t row) {
      return RandomStream(step_key_.fold(static_cast<std::uint64_t>(first + row)));
    }));
    const Tensor logits = logits_of(hidden_in_step({.ids = batch.ids}, step_, first, dropout), batch);
    return {.loss = cross_entropy(logits, batch.wanted, options().label_smoothing),
            .weight = static_cast<double>(batch.wanted.numel()),
            .correct = static_cast<double>(nn::count_in_top(logits, batch.wanted))};
  }

  std::int64_t test_batches() const override { return (test_windows() + options().batch - 1) / options().batch; }
  std::int64_t test_units() const override { return test_windows() * test_length(); }
  TestBatch measure(const Variant&, std::int64_t b) override {
    const std::int64_t at = b * options().batch, length = test_length();
    std::vector<std::size_t> starts;
    for (std::int64_t i = at; i < std::min(test_windows(), at + options().batch); ++i)
      starts.push_back(static_cast<std::size_t>(i * length));
    const MaskedBatch batch = moved(masker_(windows(corpus_.test, starts, 0, length), [&](std::int64_t row) {
      return RandomStream(RandomKey{test_masks, static_cast<std::uint64_t>(at + row)});
    }));
    const Tensor logits = logits_of(hidden_in_test({.ids = batch.ids}, at), batch);
    return {.loss = cross_entropy(logits, batch.wanted, 0.0, -100, "sum").item(),
            .correct = static_cast<double>(nn::count_in_top(logits, batch.wanted)),
            .weight = static_cast<double>(batch.wanted.numel())};
  }
  bool has_accuracy() const override { return true; }

private:
  static constexpr std::uint64_t test_masks = 0x6d61'736b'6564; // the same for all seeds, so that runs compare

  /// Tokens of a window without [CLS] and [SEP].
  std::int64_t inner() const { return options().context - 2; }
  /// Of a window of the test text, and how many there are.
  std::int64_t test_length() const { return std::min(inner(), std::ssize(corpus_.test)); }
  std::int64_t test_windows() const { return std::ssize(corpus_.test) / test_length(); }

  MaskedBatch moved(const MaskedBatch& batch) const {
    const std::vector<Tensor> all = there({batch.ids, batch.places, batch.wanted});
    return {all[0], all[1], all[2]};
  }

  /// [B k, vocabulary]: of the masked places alone.
  Tensor logits_of(const Tensor& hidden, const MaskedBatch& batch) const {
    return bert().masked_lm(index_select(hidden.reshape({batch.ids.numel(), hidden.size(-1)}), 0, batch.places));
  }

  Corpus corpus_;
  Masker masker_;
  std::int64_t step_ = 0;
  RandomKey step_key_;
  std::vector<std::size_t> starts_; ///< of the present batch
};

} // namespace

std::unique_ptr<Trainer> masked_trainer(const ClassifyOptions& given, StopFlag stop, const SplitTraining& split,
                                        distributed::Communicator* processes) {
  auto options = std::make_unique<ClassifyOptions>(given);
  check(*options);
  PermutedEncoder encoder = encoder_of(*options, split);
  const ReductionScope sums(reduction_of(*options));
  auto run = std::make_unique<Run>(*options, processes);
  Corpus corpus = corpus_of(*options, stop);
  require_enough(corpus, options->context - 2);
  const data::Tokenizer& tokenizer = corpus.tokenizer.tokenizer();
  std::unique_ptr<hub::Model> model =
      make_bert(*options, tokenizer, special_id(tokenizer, "pad", "[PAD]"),
                [](nlohmann::json& config) { config["architectures"] = {"BertForMaskedLM"}; });
  auto task = std::make_unique<MaskedTask>(std::move(options), std::move(corpus), std::move(model), std::move(encoder));
  return std::make_unique<Trainer>(std::move(run), std::move(task));
}

std::unique_ptr<Trainer> bert_trainer(const ClassifyOptions& options, StopFlag stop, const SplitTraining& split,
                                      distributed::Communicator* processes) {
  return options.task == BertTask::mlm ? masked_trainer(options, stop, split, processes)
                                       : classify_trainer(options, stop, split, processes);
}

} // namespace eg::training
