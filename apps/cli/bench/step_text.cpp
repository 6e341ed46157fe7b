// bench step: BERT and GPT-2. No dropout, no padding.

#include "apps/cli/bench/step_cases.h"
#include "nn/bert.h"
#include "nn/decoder.h"

namespace eg::cli::bench {
namespace {

constexpr std::int64_t bert_tokens = 128;

/// 2 layers of 256, or BERT-base.
nn::BertConfig bert_config(bool base, nn::Head head, bool checkpoint = false) {
  nn::BertConfig config;
  config.head = head;
  config.pooler = head != nn::Head::language_model;
  config.encoder.dropout = config.encoder.attention_dropout = 0.0;
  config.encoder.checkpoint = checkpoint;
  if (base) return config;
  config.layers = 2;
  config.encoder.dim = 256;
  config.encoder.heads = 4;
  config.encoder.mlp = 512;
  return config;
}

/// A model in the setting's type, before anybody takes its parameters.
template <class Model> struct Converted : Model {
  template <class Config> Converted(const Config& own, const Setting& setting) : Model(own, setting.key.fold(1)) {
    this->to(setting.dtype);
  }
};

class BertClassification : public Workload {
public:
  explicit BertClassification(const Setting& s)
      : model_(bert_config(false, nn::Head::sequence_classification, s.checkpoint), s),
        ids_(random_integers({s.batch, bert_tokens}, s.key.fold(2), 0, model_.config.vocabulary)),
        labels_(random_integers({s.batch}, s.key.fold(3), 0, 2)), step_("adam", model_.parameters()) {}
  void run() override {
    step_([&] { return cross_entropy(model_.classify(model_({.ids = ids_})), labels_); });
  }

private:
  Converted<nn::Bert> model_;
  Tensor ids_, labels_;
  TrainingStep step_;
};

/// 20 places of each text are asked for, the same number in every text, as masked language models are trained.
class BertMaskedLm : public Workload {
public:
  explicit BertMaskedLm(const Setting& s)
      : model_(bert_config(false, nn::Head::language_model, s.checkpoint), s),
        ids_(random_integers({s.batch, bert_tokens}, s.key.fold(2), 0, model_.config.vocabulary)),
        labels_(random_integers({s.batch * asked}, s.key.fold(3), 0, model_.config.vocabulary)),
        step_("adam", model_.parameters()) {
    std::vector<std::int64_t> rows;
    for (std::int64_t text = 0; text < s.batch; ++text) {
      const std::vector<std::int64_t> order =
          random_permutation(bert_tokens, s.key.fold(4).fold(static_cast<std::uint64_t>(text)))
              .to_vector<std::int64_t>();
      for (std::size_t i = 0; i < asked; ++i) rows.push_back(text * bert_tokens + order[i]);
    }
    rows_ = Tensor::from(rows, {s.batch * asked});
  }
  void run() override {
    step_([&] {
      const Tensor hidden = model_({.ids = ids_});
      const Tensor places = index_select(hidden.reshape({ids_.numel(), hidden.size(-1)}), 0, rows_);
      return cross_entropy(model_.masked_lm(places), labels_);
    });
  }

private:
  static constexpr std::int64_t asked = 20;
  Converted<nn::Bert> model_;
  Tensor ids_, labels_, rows_;
  TrainingStep step_;
};

/// Hidden states and the pooled text.
class BertInference : public Workload {
public:
  explicit BertInference(const Setting& s)
      : model_(bert_config(true, nn::Head::none), s),
        ids_(random_integers({s.batch, bert_tokens}, s.key.fold(2), 0, model_.config.vocabulary)) {
    model_.eval();
  }
  bool trains() const override { return false; }
  void run() override { model_.pool(model_({.ids = ids_})); }

private:
  Converted<nn::Bert> model_;
  Tensor ids_;
};

nn::DecoderConfig gpt2_small(bool checkpoint = false) {
  nn::DecoderConfig config = nn::gpt2_config();
  config.block.dropout = config.block.attention_dropout = config.embedding_dropout = 0.0;
  config.block.checkpoint = checkpoint;
  return config;
}

class Gpt2Training : public Workload {
public:
  explicit Gpt2Training(const Setting& s)
      : model_(gpt2_small(s.checkpoint), s),
        ids_(random_integers({s.batch, tokens}, s.key.fold(2), 0, model_.config.vocabulary)),
        labels_(random_integers({s.batch, tokens}, s.key.fold(3), 0, model_.config.vocabulary)),
        step_("adamw", model_.parameters()) {}
  void run() override {
    step_([&] { return cross_entropy(model_.language_model(model_({.ids = ids_})), labels_); });
  }

private:
  static constexpr std::int64_t tokens = 64;
  Converted<nn::Decoder> model_;
  Tensor ids_, labels_;
  TrainingStep step_;
};

/// Token by token behind a prompt whose keys and values are stored.
class Gpt2Decoding : public Workload {
public:
  explicit Gpt2Decoding(const Setting& s)
      : model_(gpt2_small(), s), cache_(model_.config, s.batch, prompt + decoded, s.dtype),
        next_(random_integers({s.batch, 1}, s.key.fold(3), 0, model_.config.vocabulary)) {
    model_.eval();
    model_.narrow_weights(s.weights);
    model_({.ids = random_integers({s.batch, prompt}, s.key.fold(2), 0, model_.config.vocabulary)}, &cache_);
  }
  int parts() const override { return decoded; }
  bool trains() const override { return false; }
  void run() override {
    cache_.truncate(prompt);
    for (int i = 0; i < decoded; ++i) next_ = argmax(model_.language_model(model_({.ids = next_}, &cache_)), -1);
  }

private:
  static constexpr std::int64_t prompt = 64;
  static constexpr int decoded = 16;
  Converted<nn::Decoder> model_;
  nn::DecoderCache cache_;
  Tensor next_;
};

template <class Work> std::unique_ptr<Workload> make(const Setting& setting) { return std::make_unique<Work>(setting); }

} // namespace

std::vector<StepCase> text_cases() {
  return {{"bert-small", 32, make<BertClassification>},
          {"bert-small-mlm", 32, make<BertMaskedLm>},
          {"gpt2-small", 4, make<Gpt2Training>},
          {"bert-base-infer", 1, make<BertInference>},
          {"gpt2-decode", 1, make<Gpt2Decoding>, true}};
}

} // namespace eg::cli::bench
