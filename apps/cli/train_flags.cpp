#include "apps/cli/train_flags.h"

#include "training/classify.h"
#include "training/difm_task.h"
#include "training/language.h"
#include "training/vit_trainer.h"

#include <algorithm>
#include <charconv>
#include <fmt/format.h>
#include <set>

namespace eg::cli {
namespace {

/// What each option means, for --help.
const std::map<std::string, const char*>& meanings() {
  static const std::map<std::string, const char*> table = {
      {"data", "cifar10, cifar10-jpeg, cifar10-records, cifar100, cifar100-coarse, celeba, mnist, fashion-mnist, "
               "shapes, faces, or a folder of "
               "class folders"},
      {"data_dir", "Folder with the datasets (default: EQUIGRAD_DATA)"},
      {"train_limit", "At most that many training images (0: all)"},
      {"test_limit", "At most that many test images (0: all)"},
      {"size", "Side to which images of a folder or of CelebA are resized, or side of generated ones (0: as they are)"},
      {"bad_images", "Image files of a folder that do not decode: refuse or skip"},
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
      {"from",
       "Model folder or earlier run to begin from; its sizes and, unless one is named, its tokenizer count. A head "
       "for other classes begins with random weights"},
      {"fresh", "Parameters that begin with random weights nevertheless: patterns of names, separated by commas"},
      {"freeze", "Parameters that stay as they are: patterns of names, \"blocks.0.*,*embedding*\""},
      {"optimizer", "sgd, momentum, nesterov, adam, adamw, rmsprop, lion, adafactor or muon"},
      {"lr", "Learning rate"},
      {"schedule", "constant, linear, cosine, step (drops) or one-cycle"},
      {"warmup", "Steps of linear warm-up; of one-cycle's rise (0: three tenths of all steps)"},
      {"final_fraction", "Of the learning rate, at the end of a linear, cosine or one-cycle schedule"},
      {"drop_every", "Steps between the drops of a step schedule (0: a third of the steps after warm-up)"},
      {"drop_factor", "What a drop of a step schedule multiplies the learning rate by"},
      {"weight_decay", "Shrinks weights: added to the gradient by sgd, momentum, nesterov, adam and rmsprop, decoupled "
                       "otherwise"},
      {"decay_on",
       "What weight decay acts on: all, or matrices: not biases, gains, position embeddings and class tokens"},
      {"layer_decay", "Learning rate of a block as a share of the next one's, down to the embeddings: 0.75, say, to "
                      "fine-tune (1: all alike)"},
      {"eps", "Epsilon of Adam, AdamW, RMSprop and Muon's AdamW; 1e-6 keeps f32 twins closer together"},
      {"clip", "Largest joint norm of the gradients (0: no clipping)"},
      {"label_smoothing", "Share of a label spread over all classes"},
      {"ema", "Decay of a running average of the weights, which is tested and saved beside them: 0.999, say (0: none)"},
      {"workers", "Threads that make batches ahead (0: none); no bit depends on it"},
      {"augment", "Random crops, and flips of colour images"},
      {"crop_area", "Crop training images at random to this share of their area or more, and resize them (0: none)"},
      {"randaugment", "RandAugment: strength from 0 (none) to 30 of the random changes to each training image; 9, say"},
      {"randaugment_ops", "How many changes RandAugment makes to an image"},
      {"erasing", "Probability that a random rectangle of a training image becomes noise"},
      {"mixup", "Blend training images in pairs, labels too: alpha of the Beta distribution; 0.2, say (0: none)"},
      {"cutmix", "Paste rectangles of other training images, labels in shares: alpha; 1, say (0: none); with --mixup "
                 "each step takes one of the two"},
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
      {"from_permuted", "The encoder of --from carries the key already: nothing is moved before the first step"},
      {"teacher", "Model folder or run whose classes the distillation token learns (default: the labels)"},
      {"drift_every", "Steps between measurements of the drift (0: at the end only)"},
      {"evaluate_every", "Steps between tests (0: after every epoch)"},
      {"checkpoint_every", "Steps between checkpoints (0: at the end and when interrupted)"},
      {"keep", "Newest checkpoints that stay"},
      {"best", "Keep the checkpoint with the best test too, by loss or accuracy; off: do not"},
      {"on_divergence", "When loss or gradients are NaN or infinite: stop, or skip the step's update"},
      {"spike_guard", "Skip steps whose loss is above that many times the median of the last 64 (0: none)"},
      {"skip_limit", "Steps skipped in a row that end the run"},
      {"csv", "Write the metrics as metrics.csv too"},
      {"tensorboard", "Write the metrics as event files for TensorBoard too"},
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
      {"task", "classify: classes of texts or pairs; mlm: words that are masked, from plain text"},
      {"data", "imdb, mrpc, rte, snli, a .tsv, .csv or .jsonl file of labelled texts or pairs, or a folder of class "
               "folders with .txt files; for mlm tinyshakespeare or a UTF-8 text file"},
      {"validation", "Another such file to test on"},
      {"held_out", "Share of a single file that is kept to test on"},
      {"permute",
       "none, rows (another order of tokens for every text), columns (features, one order) or both, on the way "
       "through the blocks"},
      {"mask_share", "mlm: share of the tokens that is to be guessed; of ten 8 are masked, one is another, one stays"},
      {"train_limit", "At most that many training texts, drawn from all of them (0: all)"},
      {"test_limit", "At most that many test texts, drawn from all of them (0: all)"},
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

/// Where an option of tables means something else.
const std::map<std::string, const char*>& difm_meanings() {
  static const std::map<std::string, const char*> table = {
      {"data", "criteo, or a .csv or .tsv file (other endings: tabs, if the first line has one, else commas)"},
      {"validation", "Another such file to test on"},
      {"held_out", "Share of the rows that is kept to test on"},
      {"train_limit", "At most that many training rows, drawn from all of them (0: all)"},
      {"test_limit", "At most that many test rows, drawn from all of them (0: all)"},
      {"header", "The first row names the columns; otherwise they are called 1, 2, ..."},
      {"label", "Column with the label"},
      {"positive", "Label that counts as 1, all others as 0 (default: the second of two)"},
      {"dense",
       "Columns with numbers: names and ranges, \"price,I1..I13\" (default: those whose values are all numbers)"},
      {"categorical", "Columns with categories, likewise (default: the others)"},
      {"scale", "What is done to numbers: log (sign(x) log(1 + |x|), then standard), standard or none"},
      {"min_count", "Training rows in which a category must stand to have a vector of its own"},
      {"buckets", "Vectors of a categorical column, shared by hashing (0: one for each category)"},
      {"epochs", "Passes over the training rows"},
      {"batch", "Rows a step"},
      {"dim", "Width of a field's vector"},
      {"heads", "Heads of the attention over the fields"},
      {"head_dim", "Width of a head"},
      {"hidden", "Widths of the layers of the bit-wise part"},
      {"dropout", "Probability behind each layer of the bit-wise part"},
      {"permute", "none, or rows: the fields of each row pass the attention in an order of their own and come back"},
      {"key", "Secret key file that the orders are drawn from (default: from the seed, not secret)"},
      {"label_smoothing", "Share of a label moved half-way to the other one"},
      {"out", "Run folder (default: out/difm, or the first of out/difm-2, ... without a run)"},
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

nlohmann::ordered_json deit_defaults() {
  const permute::TrainOptions defaults = permute::deit_defaults();
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

nlohmann::ordered_json difm_defaults() {
  const permute::DifmOptions defaults;
  return permute::options_json(defaults);
}

const std::vector<TrainModel>& models() {
  static const std::vector<TrainModel> table = {
      {"vit", vit_defaults, meanings},
      {"deit", deit_defaults, meanings},
      {"bert", classify_defaults, classify_meanings},
      {"gpt2", language_defaults<training::LanguageModel::gpt2>, text_meanings},
      {"llama", language_defaults<training::LanguageModel::llama>, text_meanings},
      {"difm", difm_defaults, difm_meanings},
  };
  return table;
}

std::string meaning_of(const TrainModel& model, const std::string& key) {
  for (const auto* table : {&model.own(), &meanings()})
    if (const auto found = table->find(key); found != table->end()) return found->second;
  return {};
}

/// Says what a run does with the path that an option names, where it names one.
void declare_path(CommandFiles& files, const std::string& key, CLI::Option* option) {
  static const std::set<std::string> inputs = {"validation", "tokenizer", "from", "teacher", "key"};
  if (inputs.count(key) != 0) files.input(option);
  if (key == "data_dir") files.data_folder(option);
  if (key == "out" || key == "resume" || key == "data") files.told_by_verb(option);
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
  if (model.is_boolean()) return text == "true"; // else "false": check_arguments has seen to that
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
  const auto verb = std::find_if(words.begin(), words.end(),
                                 [](const std::string& word) { return word == "train" || word == "edge"; });
  const auto is_model = [](const std::string& word) {
    return std::find(trainable_models().begin(), trainable_models().end(), word) != trainable_models().end();
  };
  const auto found = verb == words.end() ? verb : std::find_if(verb + 1, words.end(), is_model);
  return found == words.end() ? std::string() : *found;
}

std::string train_topic(const std::vector<std::string>& words) {
  const std::string model = model_in(words);
  const bool edge = !words.empty() && words.front() == "edge";
  return (edge ? "edge " : "train ") + (model.empty() ? "MODEL" : model);
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
  declare_path(files_, key, option);
}

TrainFlags::TrainFlags(CLI::App& app, const CommonOptions& common, const std::string& model,
                       const nlohmann::ordered_json& defaults)
    : app_(app), files_(*common.files), model_(model) {
  for (const TrainModel& one : models())
    if (one.name == model) {
      defaults_ = defaults.empty() ? one.defaults() : defaults;
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

void TrainFlags::refuse_foreign_keys(const nlohmann::json& config, const std::string& source) const {
  if (!config.is_object()) return;
  // What a run says of how it was begun itself is no wish.
  if (const auto resume = config.find("resume"); resume != config.end() && *resume != "")
    throw ValueError(fmt::format("{}: 'resume' is not taken from a config; give --resume on the command line", source));
  for (const auto& [key, value] : config.items())
    if (is_flag(key) && !values_.contains(key) && app_.get_option_no_throw(flag_of(key)) != nullptr)
      throw ValueError(
          fmt::format("{}: '{}' is not taken from a config; give {} on the command line", source, key, flag_of(key)));
  if (config.contains("model")) return; // whose it is, it says
  for (const auto& [key, whose] : foreign_)
    if (config.contains(key))
      throw ValueError(fmt::format("{}: '{}' is an option of {}, not of `train {}`", source, key, whose, model_));
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
