#include "training/language/language.h"

#include "core/base/bytes.h"
#include "core/ops.h"
#include "data/text/tokenizer_building.h"
#include "nn/decoder.h"
#include "nn/hub/folder.h"
#include "training/checkpoint_state.h"
#include "training/language/corpus.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>

namespace eg::training {
namespace {

/// What transformers' AutoTokenizer wants beside a tokenizer.json.
constexpr const char* tokenizer_config = "{\n  \"tokenizer_class\": \"PreTrainedTokenizerFast\"\n}\n";

Corpus corpus_of(const LanguageOptions& o, StopFlag stop) {
  const auto tokenizer = [&](std::string_view train, const std::string& path) {
    if (!o.tokenizer.empty()) return KeptTokenizer::open(o.tokenizer);
    if (o.start.begins()) return KeptTokenizer::of_model(start_folder(o.start));
    return KeptTokenizer::made(data::character_tokenizer(train), tokenizer_config, "the characters of " + path);
  };
  return read_corpus({o.data, o.data_dir, o.validation, o.held_out}, tokenizer, stop);
}

/// The generation_config.json of the folder that training begins from; "" where there is none.
std::string generation_of(const FineTuning& start) {
  if (!start.begins()) return {};
  const std::string path = join_path(start_folder(start), "generation_config.json");
  if (!file_exists(path)) return {};
  const Bytes bytes = read_file(path);
  return {bytes.begin(), bytes.end()};
}

PermutedEncoder encoder_of(const LanguageOptions& o) {
  return PermutedEncoder(o, {.form = o.key_form, .key = o.key, .draws = {.model = std::string(name_of(o.model))}});
}

class LanguageTask final : public HubModelTask {
public:
  /// `options` are kept as `own` before the base refers to them.
  LanguageTask(std::unique_ptr<const LanguageOptions> options, Corpus corpus,
               std::vector<std::unique_ptr<hub::Model>> models)
      : HubModelTask(*options, encoder_of(*options), options->drift_every), o_(std::move(options)),
        corpus_(std::move(corpus)), generation_(generation_of(o_->start)) {
    data_fingerprint_ = fingerprint_of(corpus_);
    const nn::DecoderConfig& config = models.front()->decoder()->config;
    if (permutes_columns(o_->permute)) encoder_.draw_columns(config.block, config.layers);
    const std::vector<permute::PermuteMode> modes = modes_of(o_->permute, o_->twin);
    for (std::size_t i = 0; i < modes.size(); ++i) add_model(modes[i], std::move(models[i]), o_->start);
  }

  nlohmann::ordered_json options_json() const override { return training::options_json(*o_); }
  nlohmann::ordered_json default_options() const override {
    return training::options_json(language_defaults(o_->model));
  }
  std::vector<OptionInfo> option_infos() const override { return option_table(*o_).infos(*o_); }
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

protected:
  std::int64_t draw_batch(std::int64_t step) override {
    RandomStream random(key_of(*o_, draw_samples).fold(static_cast<std::uint64_t>(step)));
    starts_ = draw_windows(corpus_.train, o_->context, o_->batch, random);
    return o_->batch * o_->context;
  }

  PartLoss loss_of(const Variant& v, std::int64_t first, std::int64_t last, RandomKey dropout) override {
    const std::span<const std::size_t> part(starts_.data() + first, starts_.data() + last);
    const std::vector<Tensor> tokens =
        there({windows(corpus_.train, part, 0, o_->context), windows(corpus_.train, part, 1, o_->context)});
    const Tensor logits = logits_of(v, tokens[0], dropout);
    return {.loss = cross_entropy(logits, tokens[1], o_->label_smoothing),
            .weight = static_cast<double>((last - first) * o_->context)};
  }

  /// The windows that lie side by side in the test text, and what is left of it.
  std::int64_t test_batches() const override {
    return (whole_windows() + o_->batch - 1) / o_->batch + (test_units() % o_->context > 0 ? 1 : 0);
  }
  std::int64_t test_units() const override { return std::ssize(corpus_.test) - 1; }
  TestBatch measure(const Variant& v, std::int64_t b) override {
    const std::int64_t at = b * o_->batch, left = whole_windows() - at;
    if (left <= 0) return windows_from(v, whole_windows() * o_->context, 1, test_units() % o_->context);
    return windows_from(v, at * o_->context, std::min(o_->batch, left), o_->context);
  }
  void save_model(const hub::Model& model, const std::string& folder) const override {
    save_text_model(model, corpus_.tokenizer, folder, generation_);
  }
  bool has_accuracy() const override { return false; }

private:
  Tensor logits_of(const Variant& v, const Tensor& ids, RandomKey dropout) const {
    const auto& decoder = dynamic_cast<const nn::Decoder&>(*v.module);
    const nn::DecoderInput input{.ids = ids};
    const Tensor z = decoder.embed(input, 0, dropout.fold(0));
    const auto blocks = [&](const Tensor& x, const Tensor&) {
      return decoder.encode(x, input, nullptr, dropout.fold(1));
    };
    return decoder.language_model(decoder.norm(encoder_.encode(v.mode, z, {}, {}, {}, blocks)));
  }

  std::int64_t whole_windows() const { return test_units() / o_->context; }

  /// The losses of `count` windows of the test text that lie side by side from `begin`.
  TestBatch windows_from(const Variant& v, std::int64_t begin, std::int64_t count, std::int64_t length) const {
    std::vector<std::size_t> starts;
    for (std::int64_t i = 0; i < count; ++i) starts.push_back(static_cast<std::size_t>(begin + i * length));
    const std::vector<Tensor> tokens =
        there({windows(corpus_.test, starts, 0, length), windows(corpus_.test, starts, 1, length)});
    return {.loss = cross_entropy(logits_of(v, tokens[0], {}), tokens[1], 0.0, -100, "sum").item(),
            .weight = static_cast<double>(count * length)};
  }

  std::unique_ptr<const LanguageOptions> o_;
  Corpus corpus_;
  std::string generation_;          ///< generation_config.json of the start
  std::vector<std::size_t> starts_; ///< of the present batch
};

/// The model that the options ask for; those of one that exists take its sizes.
std::unique_ptr<hub::Model> make_model(LanguageOptions& o, const data::Tokenizer& tokenizer) {
  const RandomKey key = ModelTask::key_of(o, ModelTask::draw_weights);
  if (!o.start.begins()) return hub::make_model(model_config(o, tokenizer), key, "train");
  const auto adapt = [&](nlohmann::json& config) {
    config["architectures"] = {o.model == LanguageModel::gpt2 ? "GPT2LMHeadModel" : "LlamaForCausalLM"};
    set_dropout(config, o);
  };
  std::unique_ptr<hub::Model> model =
      open_start(o.start, name_of(o.model), {.dtype = o.dtype, .key = key, .adapt = adapt});
  const nn::DecoderConfig& c = model->decoder()->config;
  require_room(o.start, tokenizer, o.context, c.vocabulary, c.positions);
  o.dim = c.block.dim;
  o.layers = c.layers;
  o.heads = c.block.heads;
  o.kv_heads = c.block.kv_heads;
  o.mlp = c.block.mlp;
  o.tied = c.tied;
  return model;
}

} // namespace

void restore_blocks(nn::Module& decoder, const LanguageOptions& options) {
  if (!permutes_columns(options.permute)) return;
  PermutedEncoder encoder = encoder_of(options);
  const nn::DecoderConfig& config = dynamic_cast<const nn::Decoder&>(decoder).config;
  encoder.draw_columns(config.block, config.layers);
  encoder.uncouple(decoder);
}

std::unique_ptr<Trainer> language_trainer(const LanguageOptions& given, StopFlag stop,
                                          distributed::Communicator* processes) {
  auto options = std::make_unique<LanguageOptions>(given);
  check(*options);
  const ReductionScope sums(reduction_of(*options));
  auto run = std::make_unique<Run>(*options, processes);
  Corpus corpus = corpus_of(*options, stop);
  require_enough(corpus, options->context);
  std::vector<std::unique_ptr<hub::Model>> models; // alike: coupled initialisations
  for (std::size_t i = 0; i < modes_of(options->permute, options->twin).size(); ++i)
    models.push_back(make_model(*options, corpus.tokenizer.tokenizer()));
  auto task = std::make_unique<LanguageTask>(std::move(options), std::move(corpus), std::move(models));
  return std::make_unique<Trainer>(std::move(run), std::move(task));
}

} // namespace eg::training
