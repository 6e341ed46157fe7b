#include "cli/train_flags.h"

#include "cli/verb.h"

#include "core/error.h"
#include "permute/training.h"

#include <algorithm>
#include <charconv>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

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

/// Every option with its default. Named, not `options_json({})`: in a release build GCC 12 takes the members of that
/// temporary, whose defaults nest, for uninitialised and warns.
nlohmann::ordered_json defaults_json() {
  const permute::TrainOptions defaults;
  return permute::options_json(defaults);
}

std::string flag_of(std::string key) {
  std::replace(key.begin(), key.end(), '_', '-');
  return "--" + key;
}

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

TrainFlags::TrainFlags(CLI::App& app) : app_(app) {
  const nlohmann::ordered_json defaults = defaults_json();
  for (const auto& [key, value] : defaults.items()) {
    if (key == "seed" || key == "variants") continue; // seed is an option of every verb
    const auto meaning = meanings().find(key);
    std::string about = meaning != meanings().end() ? meaning->second : "";
    std::string& slot = values_[key];
    if (value.is_boolean()) {
      app.add_flag(flag_of(key), slot,
                   about + (value.get<bool>() ? fmt::format(" ({}=false: off)", flag_of(key)) : ""));
      continue;
    }
    CLI::Option* option = app.add_option(flag_of(key), slot, about);
    option->type_name(value.is_number_integer() ? "N" : value.is_number() ? "X" : "TEXT");
    option->default_str(value.is_string() ? value.get<std::string>() : value.dump());
  }
}

nlohmann::json TrainFlags::given() const {
  const nlohmann::ordered_json defaults = defaults_json();
  nlohmann::json found = nlohmann::json::object();
  for (const auto& [key, text] : values_)
    if (app_.count(flag_of(key)) > 0) found[key] = typed(flag_of(key), text, nlohmann::json(defaults.at(key)));
  return found;
}

void TrainFlags::apply(permute::TrainOptions& options) const {
  const nlohmann::json found = given();
  // The one that is given replaces the other one of a config or of the run that goes on.
  if (found.contains("steps") && !found.contains("epochs")) options.epochs = 0;
  if (found.contains("epochs") && !found.contains("steps")) options.steps = 0;
  for (const auto& [key, value] : found.items()) try {
      permute::apply_options(options, {{key, value}}, flag_of(key));
    } catch (const ValueError& error) {
      // "--permute: permute: 'x' is ...": the flag says it already
      std::string what = error.what();
      const std::size_t begin = flag_of(key).size() + 2;
      const std::size_t colon = what.find(": ", begin);
      if (colon < what.find('\'', begin)) what.erase(begin, colon + 2 - begin);
      throw UsageError(what);
    }
  try {
    permute::check(options);
  } catch (const ValueError& error) {
    throw UsageError(error.what());
  }
}

namespace {

bool has_image_size_of_its_own(const std::string& data) {
  return data == "cifar10" || data == "cifar10-jpeg" || data == "cifar10-records" || data == "mnist" ||
         data == "fashion-mnist";
}

/// Why a flag that was given would change nothing; "" when it does its work.
std::string idle_reason(const std::string& key, const permute::TrainOptions& o, bool resumed_in_place) {
  std::vector<permute::TrainMode> modes = o.variants;
  if (modes.empty()) modes = {o.permute};
  const bool columns = std::any_of(modes.begin(), modes.end(), permute::permutes_columns);
  const bool compared = o.twin || o.variants.size() > 1;
  if (key == "size" && has_image_size_of_its_own(o.data))
    return fmt::format("the images of {} have a size of their own; it is for image folders and shapes", o.data);
  if (key == "data_dir" && o.data == "shapes") return "shapes are generated";
  if (key == "data_dir" && !has_image_size_of_its_own(o.data)) return fmt::format("--data names the folder {}", o.data);
  if (key == "key_form" && !columns) return "no columns are permuted (--permute columns or both)";
  if ((key == "permute" || key == "twin") && !o.variants.empty()) return "the options of the run list its variants";
  if (key == "drift_every" && !compared) return "there is no twin to drift from (--twin)";
  if (key == "eps" && o.optimizer != "adam" && o.optimizer != "adamw")
    return fmt::format("{} has no epsilon; adam and adamw have", o.optimizer);
  if (key == "final_fraction" && o.schedule == optim::Schedule::Kind::constant)
    return "a constant schedule does not fall";
  if (key == "overwrite" && resumed_in_place) return "--resume goes on in the run's own folder";
  return {};
}

} // namespace

void refuse_idle_flags(const nlohmann::json& given, const permute::TrainOptions& options) {
  const bool in_place = given.contains("resume") && !given.contains("out");
  for (const auto& [key, value] : given.items()) {
    if (value == false) continue; // --twin=false asks for nothing
    const std::string reason = idle_reason(key, options, in_place);
    if (!reason.empty()) throw UsageError(fmt::format("{} has no effect: {}", flag_of(key), reason));
  }
}

} // namespace eg::cli
