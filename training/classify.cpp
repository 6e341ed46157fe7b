#include "training/classify.h"

#include "core/metrics.h"
#include "core/ops.h"
#include "data/bytes.h"
#include "data/labelled_texts.h"
#include "data/tokenizer_building.h"
#include "hub/model.h"
#include "nn/bert.h"
#include "training/bert_model.h"
#include "training/checkpoint_state.h"
#include "training/encoded_texts.h"
#include "training/epoch_order.h"
#include "training/text_files.h"

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

Material read_material(const ClassifyOptions& o, data::StopFlag stop) {
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

class ClassifyTask final : public HubModelTask {
public:
  ClassifyTask(std::unique_ptr<const ClassifyOptions> options, Material material, std::unique_ptr<hub::Model> model,
               TokenOrders orders)
      : HubModelTask(*options, options->start, std::move(model)), o_(std::move(options)),
        material_(std::move(material)), token_orders_(std::move(orders)),
        data_print_(fingerprint(material_.train.flat())),
        order_(material_.train.size(), o_->batch, key_of(*o_, draw_samples)) {
    // Texts of about one length share a batch of a test: little padding.
    by_length_.resize(static_cast<std::size_t>(material_.test.size()));
    std::iota(by_length_.begin(), by_length_.end(), 0);
    std::stable_sort(by_length_.begin(), by_length_.end(), [this](std::int64_t a, std::int64_t b) {
      return material_.test.length(a) < material_.test.length(b);
    });
  }

  nlohmann::ordered_json options_json() const override { return training::options_json(*o_); }
  nlohmann::ordered_json default_options() const override { return training::options_json(ClassifyOptions()); }
  std::int64_t steps_per_epoch() const override { return order_.batches(); }
  const char* unit() const override { return "texts"; }
  std::string summary() const override {
    return fmt::format(
        "{}: {} training and {} test texts of {} classes, vocabulary {}; BERT with {} parameters; {} texts "
        "a step",
        material_.name, material_.train.size(), material_.test.size(), material_.classes.size(),
        material_.tokenizer.tokenizer().size(), model().module().parameter_count(), o_->batch);
  }
  void add_state(nlohmann::ordered_json& state) const override {
    HubModelTask::add_state(state);
    state["data"] = data_print_;
    if (token_orders_) state["token_orders"] = true;
  }
  void check_state(const nlohmann::json& state, const std::string& checkpoint) const override {
    HubModelTask::check_state(state, checkpoint);
    require_same_data(state, checkpoint, data_print_);
    const bool had = state.value("token_orders", false), has = static_cast<bool>(token_orders_);
    if (had != has)
      throw ValueError(fmt::format("train: {} was trained with tokens {}, now they are {}", checkpoint,
                                   had ? "permuted" : "in order", has ? "permuted" : "in order"));
  }

protected:
  std::int64_t draw_batch(std::int64_t step) override {
    batch_ = order_.batch(step);
    step_key_ = key_of(*o_, static_cast<Draw>(draw_orders)).fold(static_cast<std::uint64_t>(step));
    return o_->batch;
  }

  PartLoss loss_of(std::int64_t first, std::int64_t last, RandomKey dropout) override {
    const auto part = batch_.subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(last - first));
    const TextBatch texts = material_.train.batch(part, material_.padding);
    const Tensor logits = logits_of(texts, step_key_.fold(static_cast<std::uint64_t>(first)), dropout);
    return {.loss = cross_entropy(logits, texts.labels, o_->label_smoothing),
            .weight = static_cast<double>(last - first),
            .correct = static_cast<double>(count_in_top(logits, texts.labels))};
  }

  std::int64_t measure(Sums& sums, data::StopFlag stop) override {
    const auto batch = static_cast<std::size_t>(o_->batch);
    for (std::size_t at = 0; at < by_length_.size() && (stop == nullptr || !stop->load()); at += batch) {
      const auto part = std::span(by_length_).subspan(at, std::min(batch, by_length_.size() - at));
      const TextBatch texts = material_.test.batch(part, material_.padding);
      const RandomKey key = key_of(*o_, static_cast<Draw>(draw_test_orders));
      const Tensor logits = logits_of(texts, key.fold(static_cast<std::uint64_t>(at)), {});
      sums.loss += cross_entropy(logits, texts.labels, 0.0, -100, "sum").item();
      sums.correct += static_cast<double>(count_in_top(logits, texts.labels));
      sums.weight += static_cast<double>(part.size());
      tell_tested(static_cast<std::int64_t>(at), material_.test.size());
    }
    return material_.test.size();
  }
  void save_model(const std::string& folder) const override { save_text_model(model(), material_.tokenizer, folder); }
  bool has_accuracy() const override { return true; }

private:
  enum Orders : std::uint64_t { draw_orders = 16, draw_test_orders }; // behind ModelTask's

  /// `orders` and `dropout`: what the orders of tokens, if there are any, and dropout are drawn from.
  Tensor logits_of(const TextBatch& texts, RandomKey orders, RandomKey dropout) const {
    if (token_orders_) return permuted_logits(texts, orders, dropout);
    return hub::find(
        model().forward({{"input_ids", texts.ids}, {"attention_mask", texts.mask}, {"token_type_ids", texts.types}},
                        dropout),
        "logits");
  }

  /// F2(P_R^T Enc(P_R F1(x))): embedding and classifier see the tokens in order.
  Tensor permuted_logits(const TextBatch& texts, RandomKey orders, RandomKey dropout) const {
    const auto& bert = dynamic_cast<const nn::Bert&>(model().module());
    const Tensor rows = token_orders_(texts.ids.size(0), texts.ids.size(1), orders);
    const Tensor z = bert.embed({.ids = texts.ids, .token_types = texts.types}, dropout.fold(0));
    const Tensor out = bert.encode(permute_rows(z, rows), gather(texts.mask, 1, rows), dropout.fold(1));
    return bert.classify(permute_rows(out, invert_permutation(rows)), dropout.fold(2));
  }

  std::unique_ptr<const ClassifyOptions> o_;
  Material material_;
  TokenOrders token_orders_;            ///< empty: tokens pass the blocks as they are
  RandomKey step_key_;                  ///< of the orders of the present step
  std::string data_print_;              ///< what checkpoints remember of the data
  std::vector<std::int64_t> by_length_; ///< test texts
  EpochOrder order_;                    ///< of the training texts
  std::span<const std::int64_t> batch_;
};

} // namespace

std::unique_ptr<Trainer> classify_trainer(const ClassifyOptions& given, data::StopFlag stop, TokenOrders orders) {
  auto options = std::make_unique<ClassifyOptions>(given);
  check(*options);
  auto run = std::make_unique<Run>(*options);
  Material material = read_material(*options, stop);
  std::unique_ptr<hub::Model> model = make_bert(*options, material.tokenizer.tokenizer(), material.padding,
                                                [&](nlohmann::json& config) { set_head(config, material.classes); });
  auto task =
      std::make_unique<ClassifyTask>(std::move(options), std::move(material), std::move(model), std::move(orders));
  return std::make_unique<Trainer>(std::move(run), std::move(task));
}

} // namespace eg::training
