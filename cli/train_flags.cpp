#include "cli/train_flags.h"

#include "permute/training.h"
#include "training/classify.h"
#include "training/language.h"

#include <algorithm>
#include <charconv>
#include <fmt/format.h>

namespace eg::cli {
namespace {

/// What each option means, for --help.
const std::map<std::string, const char*>& meanings() {
  static const std::map<std::string, const char*> table = {
      {"data", "cifar10, cifar10-jpeg, cifar10-records, mnist, fashion-mnist, shapes, or a folder of class folders"},
      {"data_dir", "Folder with the datasets (default: EQUIGRAD_DATA)"},
      {"train_limit", "At most that many training images (0: all)"},
      {"test_limit", "At most that many test images (0: all)"},
      {"size", "Side to which images of a folder are resized, or side of generated ones (0: as they are)"},
      {"steps", "Training steps (give this or --epochs)"},
      {"epochs", "Passes over the training images"},
      {"batch", "Images a step"},
      {"accumulate", "Parts that a batch is cut into: less memory, gradients averaged, one step"},
      {"checkpoint_blocks", "Keep each block's input alone and compute the rest again for the gradient: less memory, "
                            "the same bits, about a third more time"},
      {"detect_anomaly", "Stop at the first operation that gives a NaN or an infinity and say where it stands"},
      {"dim", "Width of the encoder"},
      {"layers", "Encoder blocks"},
      {"heads", "Attention heads"},
      {"head_dim", "Width of a head (0: dim / heads)"},
      {"mlp", "Width of the MLP's hidden layer"},
      {"patch", "Side of a patch in pixels"},
      {"pooling", "cls or mean"},
      {"position", "Position embedding: learned, sinusoidal or none"},
      {"activation", "gelu, gelu_tanh, relu, silu or tanh"},
      {"pre_norm", "true: x + f(LN x); false: LN(x + f(x))"},
      {"dropout", "Probability on both residual branches"},
      {"norm_eps", "Epsilon of LayerNorm"},
      {"optimizer", "sgd, momentum, nesterov, adam or adamw"},
      {"lr", "Learning rate"},
      {"schedule", "constant or cosine"},
      {"warmup", "Steps of linear warm-up"},
      {"final_fraction", "Of the learning rate, at the end of a cosine"},
      {"weight_decay", "On every parameter; decoupled for adamw, added to the gradient otherwise"},
      {"eps", "Epsilon of Adam and AdamW; 1e-6 keeps f32 twins closer together"},
      {"clip", "Largest joint norm of the gradients (0: no clipping)"},
      {"label_smoothing", "Share of a label spread over all classes"},
      {"augment", "Random crops, and flips of colour images"},
      {"dtype", "f32 or f64"},
      {"precision", "f32, or bf16: matrix products round their operands to bf16 and add in f32, where the processor is "
                    "faster at that; weights, gradients and optimiser stay f32"},
      {"permute", "none, rows, columns or both"},
      {"key_form", "Which permutations the weights carry: paper, tied, decoupled or residual"},
      {"key", "Secret key file (equigrad keygen --out KEY) that P_R and P_C are drawn from (default: from the seed, "
              "not secret)"},
      {"twin",
       "Train the plain model beside the permuted one and report how far they drift apart (f64: rounding alone; f32 "
       "with Adam: up to 8e-4 in 60 steps, 4e-5 with --eps 1e-6 --warmup 10)"},
      {"drift_every", "Steps between measurements of the drift (0: at the end only)"},
      {"evaluate_every", "Steps between tests (0: after every epoch)"},
      {"checkpoint_every", "Steps between checkpoints (0: at the end and when interrupted)"},
      {"out", "Run folder (default: out/vit, or the first of out/vit-2, out/vit-3, ... without a run)"},
      {"resume", "Go on from this run folder or checkpoint"},
      {"overwrite", "Remove the run that the run folder holds; without this it is refused"},
  };
  return table;
}

/// Where an option of language models means something else.
const std::map<std::string, const char*>& text_meanings() {
  static const std::map<std::string, const char*> table = {
      {"data", "tinyshakespeare, or a UTF-8 text file (.gz and .xz are unpacked)"},
      {"validation", "Another text file to test on (default: the end of the data)"},
      {"held_out", "Share of the data that is kept to test on, its end"},
      {"tokenizer", "Tokenizer's folder or file (default: every character is a token)"},
      {"context", "Tokens of a window, and the longest text that the model takes"},
      {"epochs", "Passes over the training text"},
      {"batch", "Windows a step"},
      {"dim", "Width of the model"},
      {"layers", "Blocks"},
      {"kv_heads", "Heads of keys and values (0: as many as heads)"},
      {"mlp", "Width of the MLP's hidden layer (0: 4 dim; Llama: 8/3 dim)"},
      {"dropout", "Probability on the embedding, the attention and both residual branches"},
      {"tied", "The head that predicts tokens is the embedding matrix"},
      {"label_smoothing", "Share of the next token spread over the whole vocabulary"},
      {"evaluate_every", "Steps between tests on the held-out text (0: after every epoch)"},
      {"out", "Run folder (default: out/MODEL, or the first of out/MODEL-2, ... without a run)"},
  };
  return table;
}

/// Where an option of text classifiers means something else.
const std::map<std::string, const char*>& classify_meanings() {
  static const std::map<std::string, const char*> table = {
      {"data", "imdb, mrpc, rte, snli, a .tsv, .csv or .jsonl file of labelled texts or pairs, or a folder of class "
               "folders with .txt files"},
      {"validation", "Another such file to test on"},
      {"held_out", "Share of a single file that is kept to test on"},
      {"train_limit", "At most that many training texts (0: all)"},
      {"test_limit", "At most that many test texts (0: all)"},
      {"tokenizer", "Tokenizer's folder or file (default: the words of the training texts)"},
      {"vocabulary", "Most tokens of a tokenizer that is made from the training texts"},
      {"context", "Longest text in tokens; what is longer is cut at its end"},
      {"epochs", "Passes over the training texts"},
      {"batch", "Texts a step"},
      {"mlp", "Width of the MLP's hidden layer (0: 4 dim)"},
      {"dropout", "Probability on the embedding, both residual branches and what the classifier reads"},
      {"attention_dropout", "Probability on attention weights; above 0 a step takes a third more time"},
      {"evaluate_every", "Steps between tests (0: after every epoch)"},
      {"out", "Run folder (default: out/bert, or the first of out/bert-2, ... without a run)"},
  };
  return table;
}

struct TrainModel {
  const char* name;
  nlohmann::ordered_json (*defaults)();
  const std::map<std::string, const char*>& (*own)(); ///< meanings before the common ones
};

/// Every option with its default. Named, not `options_json({})`: in a release build GCC 12 takes the members of that
/// temporary, whose defaults nest, for uninitialised and warns.
nlohmann::ordered_json vit_defaults() {
  const permute::TrainOptions defaults;
  return permute::options_json(defaults);
}

template <training::LanguageModel model> nlohmann::ordered_json language_defaults() {
  const training::LanguageOptions defaults = training::language_defaults(model);
  return training::options_json(defaults);
}

nlohmann::ordered_json classify_defaults() {
  const training::ClassifyOptions defaults;
  return training::options_json(defaults);
}

const std::vector<TrainModel>& models() {
  static const std::vector<TrainModel> table = {
      {"vit", vit_defaults, meanings},
      {"bert", classify_defaults, classify_meanings},
      {"gpt2", language_defaults<training::LanguageModel::gpt2>, text_meanings},
      {"llama", language_defaults<training::LanguageModel::llama>, text_meanings},
  };
  return table;
}

std::string meaning_of(const TrainModel& model, const std::string& key) {
  for (const auto* table : {&model.own(), &meanings()})
    if (const auto found = table->find(key); found != table->end()) return found->second;
  return {};
}

/// Options that are no flags of their own: --seed belongs to every verb, the model is a word.
bool is_flag(const std::string& key) { return key != "seed" && key != "variants" && key != "model"; }

template <class T> T parse(const std::string& flag, const std::string& text, const char* kind) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || text.empty())
    throw UsageError(fmt::format("{}: '{}' is not {}", flag, text, kind));
  return value;
}

nlohmann::json typed(const std::string& flag, const std::string& text, const nlohmann::json& model) {
  if (model.is_boolean()) {
    if (text == "true" || text == "1") return true;
    if (text == "false" || text == "0") return false;
    throw UsageError(fmt::format("{}: '{}' is neither true nor false", flag, text));
  }
  if (model.is_number_integer()) return parse<std::int64_t>(flag, text, "a whole number");
  if (model.is_number()) return parse<double>(flag, text, "a number");
  return text;
}

} // namespace

const std::vector<std::string>& trainable_models() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> found;
    for (const TrainModel& model : models()) found.emplace_back(model.name);
    return found;
  }();
  return names;
}

std::string model_in(const std::vector<std::string>& words) {
  const auto verb = std::find(words.begin(), words.end(), "train");
  const auto is_model = [](const std::string& word) {
    return std::find(trainable_models().begin(), trainable_models().end(), word) != trainable_models().end();
  };
  const auto found = verb == words.end() ? verb : std::find_if(verb + 1, words.end(), is_model);
  return found == words.end() ? std::string() : *found;
}

std::string train_topic(const std::vector<std::string>& words) {
  const std::string model = model_in(words);
  return "train " + (model.empty() ? "MODEL" : model);
}

std::string flag_of(std::string key) {
  std::replace(key.begin(), key.end(), '_', '-');
  return "--" + key;
}

void TrainFlags::declare(const std::string& key, const nlohmann::ordered_json& value, const std::string& about) {
  std::string& slot = values_[key];
  CLI::Option* option = nullptr;
  if (value.is_boolean()) {
    const std::string off = value.get<bool>() ? fmt::format(" ({}=false: off)", flag_of(key)) : "";
    option = app_.add_flag(flag_of(key), slot, about + off);
  } else {
    option = app_.add_option(flag_of(key), slot, about);
    option->type_name(value.is_number_integer() ? "N" : value.is_number() ? "X" : "TEXT");
    option->default_str(value.is_string() ? value.get<std::string>() : value.dump());
  }
  if (about.empty()) option->group(""); // not shown
}

TrainFlags::TrainFlags(CLI::App& app, const std::string& model) : app_(app), model_(model) {
  for (const TrainModel& one : models())
    if (one.name == model) {
      defaults_ = one.defaults();
      for (const auto& [key, value] : defaults_.items())
        if (is_flag(key)) declare(key, value, meaning_of(one, key));
    }
  for (const TrainModel& one : models()) {
    const nlohmann::ordered_json others = one.defaults();
    for (const auto& [key, value] : others.items()) {
      if (!is_flag(key) || defaults_.contains(key)) continue;
      std::string& whose = foreign_[key];
      if (whose.empty()) declare(key, value, "");
      whose += fmt::format("{}`train {}`", whose.empty() ? "" : " and ", one.name);
    }
  }
}

nlohmann::json TrainFlags::given() const {
  for (const auto& [key, whose] : foreign_)
    if (app_.count(flag_of(key)) > 0)
      throw UsageError(fmt::format("{} is an option of {}, not of `train {}`", flag_of(key), whose, model_));
  nlohmann::json found = nlohmann::json::object();
  for (const auto& [key, value] : defaults_.items())
    if (is_flag(key) && app_.count(flag_of(key)) > 0)
      found[key] = typed(flag_of(key), values_.at(key), nlohmann::json(value));
  return found;
}

void TrainFlags::as_usage(const std::string& flag, const std::function<void()>& f) {
  try {
    f();
  } catch (const ValueError& error) {
    std::string what = error.what();
    if (!flag.empty()) { // "--permute: permute: 'x' is ...": the flag says it already
      const std::size_t begin = flag.size() + 2;
      const std::size_t colon = what.find(": ", begin);
      if (colon < what.find('\'', begin)) what.erase(begin, colon + 2 - begin);
    }
    throw UsageError(what);
  }
}

} // namespace eg::cli
