#include "apps/cli/train_flags.h"

#include "training/language/classify.h"
#include "training/language/difm_task.h"
#include "training/language/language.h"
#include "training/option.h"
#include "training/vit_trainer.h"

#include <algorithm>
#include <charconv>
#include <fmt/format.h>

namespace eg::cli {
namespace {

/// A model that can be trained, and its options.
struct TrainModel {
  std::string name;
  nlohmann::ordered_json defaults;
  std::vector<training::OptionInfo> options;
};

template <class Options> TrainModel model_of(const char* name, const Options& defaults) {
  return {name, options_json(defaults), option_table(defaults).infos(defaults)};
}

const std::vector<TrainModel>& models() {
  static const std::vector<TrainModel> table = {
      model_of("vit", training::VitOptions()),
      model_of("deit", training::deit_defaults()),
      model_of("bert", training::ClassifyOptions()),
      model_of("gpt2", training::language_defaults(training::LanguageModel::gpt2)),
      model_of("llama", training::language_defaults(training::LanguageModel::llama)),
      model_of("difm", training::DifmOptions()),
  };
  return table;
}

/// Says what a run does with the path that an option names, where it names one.
void declare_path(CommandFiles& files, training::OptionPath path, CLI::Option* option) {
  using training::OptionPath;
  if (path == OptionPath::start || path == OptionPath::input) files.input(option);
  if (path == OptionPath::data_folder) files.data_folder(option);
  if (path == OptionPath::data || path == OptionPath::run) files.told_by_verb(option);
}

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

void TrainFlags::declare(const training::OptionInfo& info, const nlohmann::ordered_json& value, bool shown) {
  const std::string flag = flag_of(info.key), about = shown ? info.help : "";
  std::string& slot = values_[info.key];
  CLI::Option* option = nullptr;
  if (value.is_boolean()) {
    option = app_.add_flag(flag, slot, about + (value.get<bool>() ? fmt::format(" ({}=false: off)", flag) : ""));
  } else {
    option = app_.add_option(flag, slot, about);
    option->type_name(value.is_number_integer() ? "N" : value.is_number() ? "X" : "TEXT");
    option->default_str(value.is_string() ? value.get<std::string>() : value.dump());
  }
  if (!shown) option->group("");
  declare_path(files_, info.path, option);
}

TrainFlags::TrainFlags(CLI::App& app, const CommonOptions& common, const std::string& model,
                       const nlohmann::ordered_json& defaults)
    : app_(app), files_(*common.files), model_(model) {
  for (const TrainModel& one : models())
    if (one.name == model) {
      defaults_ = defaults.empty() ? one.defaults : defaults;
      for (const training::OptionInfo& info : one.options)
        if (info.flag) declare(info, defaults_.at(info.key), true);
    }
  for (const TrainModel& one : models())
    for (const training::OptionInfo& info : one.options) {
      if (!info.flag || defaults_.contains(info.key)) continue;
      std::string& whose = foreign_[info.key];
      if (whose.empty()) declare(info, one.defaults.at(info.key), false);
      whose += fmt::format("{}`train {}`", whose.empty() ? "" : " and ", one.name);
    }
}

nlohmann::json TrainFlags::given() const {
  for (const auto& [key, whose] : foreign_)
    if (app_.count(flag_of(key)) > 0)
      throw UsageError(fmt::format("{} is an option of {}, not of `train {}`", flag_of(key), whose, model_));
  nlohmann::json found = nlohmann::json::object();
  for (const auto& [key, value] : defaults_.items())
    if (values_.contains(key) && app_.count(flag_of(key)) > 0)
      found[key] = typed(flag_of(key), values_.at(key), nlohmann::json(value));
  for (const auto& [key, value] : settled_)
    if (value)
      found[key] = *value;
    else
      found.erase(key);
  return found;
}

void TrainFlags::refuse_foreign_keys(const nlohmann::json& config, const std::string& source) const {
  if (!config.is_object()) return;
  // What a run says of how it was begun itself is no wish.
  const char* resume_key = training::option_key(&training::RunOptions::resume);
  if (const auto resume = config.find(resume_key); resume != config.end() && *resume != "")
    throw ValueError(fmt::format("{}: '{}' is not taken from a config; give {} on the command line", source, resume_key,
                                 flag_of(resume_key)));
  for (const auto& [key, value] : config.items())
    if (!defaults_.contains(key) && !values_.contains(key) && app_.get_option_no_throw(flag_of(key)) != nullptr)
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
