#include "training/language/classify.h"

#include "core/base/bytes.h"
#include "core/ops.h"
#include "data/text/labelled_texts.h"
#include "data/text/tokenizer_building.h"
#include "nn/hub/model.h"
#include "nn/metrics.h"
#include "training/checkpoint_state.h"
#include "training/language/bert_model.h"
#include "training/language/bert_task.h"
#include "training/language/encoded_texts.h"
#include "training/language/epoch_order.h"
#include "training/language/text_files.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <numeric>

namespace eg::training {
namespace {

/// Texts as ids, with what it takes to read them again.
struct Material {
  std::string name;
  std::vector<std::string> classes;
  KeptTokenizer tokenizer;
  std::int64_t padding = 0;
  EncodedTexts train, test;
};

KeptTokenizer tokenizer_for(const ClassifyOptions& o, const data::LabelledTexts& texts) {
  if (!o.tokenizer.empty()) return KeptTokenizer::open(o.tokenizer);
  if (o.start.begins()) return start_tokenizer(o);
  const auto each = [&](FunctionRef<void(std::string_view)> call) {
    for (const std::vector<std::string>* side : {&texts.texts, &texts.pairs})
      for (const std::string& text : *side) call(text);
  };
  return KeptTokenizer::made(data::word_tokenizer(each, static_cast<std::size_t>(o.vocabulary)), bert_tokenizer_config,
                             "the words of " + texts.name);
}

Material read_material(const ClassifyOptions& o, StopFlag stop) {
  const auto [train, test] = data::open_labelled_texts(o.data, o.data_dir,
                                                       {.validation = o.validation,
                                                        .held_out = o.held_out,
                                                        .train_limit = o.train_limit,
                                                        .test_limit = o.test_limit,
                                                        .stop = stop});
  if (train.size() < o.batch)
    throw ValueError(
        fmt::format("train: {} has {} training texts, fewer than a batch of {}", train.name, train.size(), o.batch));
  KeptTokenizer tokenizer = tokenizer_for(o, train);
  const std::int64_t padding = special_id(tokenizer.tokenizer(), "pad", "[PAD]");
  EncodedTexts train_ids(train, tokenizer.tokenizer(), o.context, stop);
  EncodedTexts test_ids(test, tokenizer.tokenizer(), o.context, stop);
  return {train.name, train.class_names, std::move(tokenizer), padding, std::move(train_ids), std::move(test_ids)};
}

/// The head and its classes in a config.
void set_head(nlohmann::json& config, const std::vector<std::string>& classes) {
  nlohmann::json names = nlohmann::json::object(), places = nlohmann::json::object();
  for (std::size_t i = 0; i < classes.size(); ++i) {
    names[std::to_string(i)] = classes[i];
    places[classes[i]] = i;
  }
  config["architectures"] = {"BertForSequenceClassification"};
  config["id2label"] = names;
  config["label2id"] = places;
}

class ClassifyTask final : public BertModelTask {
public:
  ClassifyTask(std::unique_ptr<const ClassifyOptions> options, Material material, std::unique_ptr<hub::Model> model,
               PermutedEncoder encoder)
      : BertModelTask(std::move(options), std::move(model), std::move(encoder),
                      DataFingerprint{.train = fingerprint(material.train.flat()),
                                      .test = fingerprint(material.test.flat()),
                                      .tokenizer = material.tokenizer.fingerprint()}),
        material_(std::move(material)),
        order_(material_.train.size(), this->options().batch, key_of(this->options(), draw_samples)) {
    // Texts of about one length share a batch of a test: little padding.
    by_length_.resize(static_cast<std::size_t>(material_.test.size()));
    std::iota(by_length_.begin(), by_length_.end(), 0);
    std::stable_sort(by_length_.begin(), by_length_.end(), [this](std::int64_t a, std::int64_t b) {
      return material_.test.length(a) < material_.test.length(b);
    });
  }

  std::int64_t steps_per_epoch() const override { return order_.batches(); }
  const char* unit() const override { return "texts"; }
  std::string summary() const override {
    return fmt::format(
        "{}: {} training and {} test texts of {} classes, vocabulary {}; BERT with {} parameters; {} texts "
        "a step",
        material_.name, material_.train.size(), material_.test.size(), material_.classes.size(),
        material_.tokenizer.tokenizer().size(), model().module().parameter_count(), options().batch);
  }

protected:
  std::int64_t draw_batch(std::int64_t step) override {
    step_ = step;
    batch_ = order_.batch(step);
    return options().batch;
  }

  PartLoss loss_of(const Variant&, std::int64_t first, std::int64_t last, RandomKey dropout) override {
    const auto part = batch_.subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(last - first));
    const TextBatch texts = moved(material_.train.batch(part, material_.padding));
    const Tensor logits = bert().classify(hidden_in_step(input_of(texts), step_, first, dropout), dropout.fold(1));
    return {.loss = cross_entropy(logits, texts.labels, options().label_smoothing),
            .weight = static_cast<double>(last - first),
            .correct = static_cast<double>(nn::count_in_top(logits, texts.labels))};
  }

  std::int64_t test_batches() const override { return (material_.test.size() + options().batch - 1) / options().batch; }
  std::int64_t test_units() const override { return material_.test.size(); }
  TestBatch measure(const Variant&, std::int64_t b) override {
    const auto batch = static_cast<std::size_t>(options().batch), at = static_cast<std::size_t>(b) * batch;
    const auto part = std::span(by_length_).subspan(at, std::min(batch, by_length_.size() - at));
    const TextBatch texts = moved(material_.test.batch(part, material_.padding));
    const Tensor logits = bert().classify(hidden_in_test(input_of(texts), static_cast<std::int64_t>(at)));
    return {.loss = cross_entropy(logits, texts.labels, 0.0, -100, "sum").item(),
            .correct = static_cast<double>(nn::count_in_top(logits, texts.labels)),
            .weight = static_cast<double>(part.size())};
  }
  void save_model(const hub::Model& model, const std::string& folder) const override {
    save_text_model(model, material_.tokenizer, folder);
  }
  bool has_accuracy() const override { return true; }

private:
  TextBatch moved(const TextBatch& texts) const {
    const std::vector<Tensor> all = there({texts.ids, texts.types, texts.mask, texts.labels});
    return {all[0], all[1], all[2], all[3]};
  }
  static nn::BertInput input_of(const TextBatch& texts) {
    return {.ids = texts.ids, .attention_mask = texts.mask, .token_types = texts.types};
  }

  Material material_;
  std::int64_t step_ = 0;
  std::vector<std::int64_t> by_length_; ///< test texts
  EpochOrder order_;                    ///< of the training texts
  std::span<const std::int64_t> batch_;
};

} // namespace

std::unique_ptr<Trainer> classify_trainer(const ClassifyOptions& given, StopFlag stop, const SplitTraining& split,
                                          distributed::Communicator* processes) {
  auto options = std::make_unique<ClassifyOptions>(given);
  check(*options);
  PermutedEncoder encoder = encoder_of(*options, split);
  const ReductionScope sums(reduction_of(*options));
  auto run = std::make_unique<Run>(*options, processes);
  Material material = read_material(*options, stop);
  std::unique_ptr<hub::Model> model = make_bert(*options, material.tokenizer.tokenizer(), material.padding,
                                                [&](nlohmann::json& config) { set_head(config, material.classes); });
  auto task =
      std::make_unique<ClassifyTask>(std::move(options), std::move(material), std::move(model), std::move(encoder));
  return std::make_unique<Trainer>(std::move(run), std::move(task));
}

} // namespace eg::training
