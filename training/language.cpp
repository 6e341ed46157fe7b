#include "training/language.h"

#include "core/ops.h"
#include "data/bytes.h"
#include "data/text.h"
#include "data/tokenizer_building.h"
#include "hub/folder.h"
#include "nn/decoder.h"
#include "training/text_files.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>

namespace eg::training {
namespace {

/// The tokens to learn from and to test on.
struct Corpus {
  std::string name;
  KeptTokenizer tokenizer;
  std::vector<std::int32_t> train, test;
};

/// What transformers' AutoTokenizer wants beside a tokenizer.json.
constexpr const char* tokenizer_config = "{\n  \"tokenizer_class\": \"PreTrainedTokenizerFast\"\n}\n";

Corpus read_corpus(const LanguageOptions& o, data::StopFlag stop) {
  const std::string path = data::find_text(o.data, o.data_dir);
  const std::string text = data::read_text(path);
  if (text.empty()) throw ValueError(fmt::format("train: {} is empty", path));
  const std::string other = o.validation.empty() ? std::string() : data::read_text(o.validation);
  if (!o.validation.empty() && other.empty()) throw ValueError(fmt::format("train: {} is empty", o.validation));
  auto [train, test] = data::held_out(text, o.held_out);
  if (!o.validation.empty()) train = text, test = other;
  KeptTokenizer tokenizer = o.tokenizer.empty() ? KeptTokenizer::made(data::character_tokenizer(train),
                                                                      tokenizer_config, "the characters of " + path)
                                                : KeptTokenizer::open(o.tokenizer);
  Corpus corpus{.name = path, .tokenizer = std::move(tokenizer), .train = {}, .test = {}};
  corpus.train = data::token_ids(corpus.tokenizer.tokenizer(), train, stop);
  corpus.test = data::token_ids(corpus.tokenizer.tokenizer(), test, stop);
  return corpus;
}

void require_enough(const LanguageOptions& o, const Corpus& corpus) {
  const auto train = static_cast<std::int64_t>(corpus.train.size());
  if (train <= o.context)
    throw ValueError(fmt::format("train: {} has {} training tokens; a window of context {} and the token after it are "
                                 "{}: use a smaller context or more text",
                                 corpus.name, train, o.context, o.context + 1));
  if (corpus.test.size() < 2)
    throw ValueError(fmt::format("train: {} has {} held-out tokens, and a test needs 2: give more text",
                                 o.validation.empty() ? corpus.name : o.validation, corpus.test.size()));
}

class LanguageTask final : public ModelTask {
public:
  /// `options` are kept as `own` before the base refers to them.
  LanguageTask(std::unique_ptr<const LanguageOptions> options, Corpus corpus)
      : ModelTask(*options, make(*options, corpus)), o_(std::move(options)), corpus_(std::move(corpus)),
        data_print_(fingerprint(corpus_.train)) {}

  nlohmann::ordered_json options_json() const override { return training::options_json(*o_); }
  std::int64_t steps_per_epoch() const override {
    const std::int64_t tokens = o_->batch * o_->context;
    return (static_cast<std::int64_t>(corpus_.train.size()) + tokens - 1) / tokens;
  }
  const char* unit() const override { return "tokens"; }
  std::string summary() const override {
    return fmt::format("{}: {} training and {} held-out tokens, vocabulary {}; {} with {} parameters; {} windows of {} "
                       "tokens a step",
                       corpus_.name, corpus_.train.size(), corpus_.test.size(), corpus_.tokenizer.tokenizer().size(),
                       o_->model == LanguageModel::gpt2 ? "GPT-2" : "Llama", model().module().parameter_count(),
                       o_->batch, o_->context);
  }

  void add_state(nlohmann::ordered_json& state) const override { state["data"] = data_print_; }
  void check_state(const nlohmann::json& state, const std::string& checkpoint) const override {
    require_same_data(state, checkpoint, data_print_);
  }
  void save_result(const std::string& folder) const override { save_text_model(model(), corpus_.tokenizer, folder); }

protected:
  std::int64_t draw_batch(std::int64_t step) override {
    RandomStream random(key_of(*o_, draw_samples).fold(static_cast<std::uint64_t>(step)));
    const std::size_t places = corpus_.train.size() - static_cast<std::size_t>(o_->context);
    starts_.resize(static_cast<std::size_t>(o_->batch));
    for (std::size_t& start : starts_) start = static_cast<std::size_t>(random.below(places));
    return o_->batch * o_->context;
  }

  PartLoss loss_of(std::int64_t first, std::int64_t last, RandomKey dropout) override {
    const std::span<const std::size_t> part(starts_.data() + first, starts_.data() + last);
    const Tensor logits = logits_of(windows(corpus_.train, part, 0, o_->context), dropout);
    const Tensor next = windows(corpus_.train, part, 1, o_->context);
    return {.loss = cross_entropy(logits, next, o_->label_smoothing),
            .weight = static_cast<double>((last - first) * o_->context)};
  }

  std::int64_t measure(Sums& sums, data::StopFlag stop) override {
    const auto predictions = static_cast<std::int64_t>(corpus_.test.size()) - 1;
    const std::int64_t whole = predictions / o_->context;
    for (std::int64_t at = 0; at < whole && (stop == nullptr || !stop->load()); at += o_->batch) {
      add_windows(sums, at * o_->context, std::min(o_->batch, whole - at), o_->context);
      tell_tested(at, whole);
    }
    if (const std::int64_t rest = predictions % o_->context; rest > 0) add_windows(sums, whole * o_->context, 1, rest);
    return predictions;
  }
  bool has_accuracy() const override { return false; }

private:
  static std::unique_ptr<hub::Model> make(const LanguageOptions& o, const Corpus& corpus) {
    return hub::make_model(model_config(o, corpus.tokenizer.tokenizer()), key_of(o, draw_weights), "train");
  }

  Tensor logits_of(const Tensor& ids, RandomKey dropout) const {
    const nn::Decoder& decoder = *model().decoder();
    return decoder.language_model(decoder({.ids = ids}, nullptr, dropout));
  }

  /// Tokens [start + shift, start + shift + length) of every start, [B, length].
  static Tensor windows(const std::vector<std::int32_t>& ids, std::span<const std::size_t> starts, std::int64_t shift,
                        std::int64_t length) {
    std::vector<std::int64_t> out;
    out.reserve(starts.size() * static_cast<std::size_t>(length));
    for (const std::size_t start : starts) {
      const auto from = ids.begin() + static_cast<std::ptrdiff_t>(start) + shift;
      out.insert(out.end(), from, from + length);
    }
    return Tensor::from(out, {static_cast<std::int64_t>(starts.size()), length});
  }

  /// Adds the losses of `count` windows of the test text that lie side by side from `begin`.
  void add_windows(Sums& sums, std::int64_t begin, std::int64_t count, std::int64_t length) const {
    std::vector<std::size_t> starts;
    for (std::int64_t i = 0; i < count; ++i) starts.push_back(static_cast<std::size_t>(begin + i * length));
    const Tensor logits = logits_of(windows(corpus_.test, starts, 0, length), {});
    sums.loss += cross_entropy(logits, windows(corpus_.test, starts, 1, length), 0.0, -100, "sum").item();
    sums.weight += static_cast<double>(count * length);
  }

  std::unique_ptr<const LanguageOptions> o_;
  Corpus corpus_;
  std::string data_print_;          ///< what checkpoints remember of the data
  std::vector<std::size_t> starts_; ///< of the present batch
};

} // namespace

std::unique_ptr<Trainer> language_trainer(const LanguageOptions& given, data::StopFlag stop) {
  auto options = std::make_unique<LanguageOptions>(given);
  check(*options);
  auto run = std::make_unique<Run>(*options);
  Corpus corpus = read_corpus(*options, stop);
  require_enough(*options, corpus);
  auto task = std::make_unique<LanguageTask>(std::move(options), std::move(corpus));
  return std::make_unique<Trainer>(std::move(run), std::move(task));
}

} // namespace eg::training
