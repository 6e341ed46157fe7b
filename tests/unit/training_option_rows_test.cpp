// An option is one row: its key stands there and nowhere else, and docs/training-options.md lists the rows.

#include "core/base/bytes.h"
#include "core/base/words.h"
#include "support/message.h"
#include "training/language/classify.h"
#include "training/language/difm_task.h"
#include "training/language/language.h"
#include "training/option.h"
#include "training/vit_trainer.h"

#include <algorithm>
#include <cstdlib>
#include <doctest/doctest.h>
#include <filesystem>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <string>
#include <string_view>
#include <vector>

using namespace eg;

namespace {

struct Model {
  std::string name;
  nlohmann::ordered_json defaults;
  std::vector<training::OptionInfo> options;
};

template <class Options> Model model_of(const char* name, const Options& defaults) {
  return {name, options_json(defaults), option_table(defaults).infos(defaults)};
}

const std::vector<Model>& models() {
  static const std::vector<Model> all = {
      model_of("vit", training::VitOptions()),
      model_of("deit", training::deit_defaults()),
      model_of("bert", training::ClassifyOptions()),
      model_of("gpt2", training::language_defaults(training::LanguageModel::gpt2)),
      model_of("llama", training::language_defaults(training::LanguageModel::llama)),
      model_of("difm", training::DifmOptions()),
  };
  return all;
}

std::set<std::string> keys() {
  std::set<std::string> found;
  for (const Model& model : models())
    for (const training::OptionInfo& option : model.options) found.insert(option.key);
  return found;
}

std::string text_of(const std::string& path) {
  const Bytes bytes = read_file(path);
  return {bytes.begin(), bytes.end()};
}

/// Fields of other things than options, under the same word.
struct Allowed {
  const char* file;
  std::set<std::string> words;
  const char* of; ///< which thing
};

const std::vector<Allowed>& allowed() {
  static const std::vector<Allowed> all = {
      {"apps/cli/split/verb_edge.cpp", {"steps"}, "the counts of the wire"},
      {"apps/cli/train_lines.cpp", {"best"}, "the command's result"},
      {"apps/cli/train_text.cpp", {"steps", "variants", "permute"}, "the command's result"},
      {"apps/cli/train_vit.cpp", {"steps"}, "the command's result"},
      {"training/blocks_mark.cpp", {"key", "key_form"}, "permuted_blocks.json"},
      {"training/checkpoint.cpp", {"optimizer", "steps"}, "the optimiser's file"},
      {"training/checkpoint_state.cpp", {"data", "tokenizer", "teacher"}, "fingerprints in state.json"},
      {"training/model_task.cpp", {"optimizer", "ema"}, "names of a checkpoint's files"},
      {"training/records.cpp", {"lr", "variants"}, "lines of metrics"},
      {"training/remote_encoder.cpp", {"key"}, "what --finish says"},
      {"training/vision_model.cpp", {"size"}, "preprocessor_config.json"},
  };
  return all;
}

/// The keys that a source has as string literals outside rows: a row begins with add("key", word("key" or words("key".
std::vector<std::string> strays(const std::string& source) {
  static const std::regex comment("//[^\n]*"), literal("(\\b(add|words?)\\(\\s*)?\"([a-z_]+)\"");
  static const std::set<std::string> known = keys();
  const std::string code = std::regex_replace(source, comment, "");
  std::vector<std::string> found;
  for (std::sregex_iterator at(code.begin(), code.end(), literal), end; at != end; ++at)
    if (!(*at)[1].matched && known.contains((*at)[3])) found.push_back((*at)[3]);
  return found;
}

/// The sources that declare, check and compare options, and make flags of them.
std::vector<std::string> sources() {
  std::vector<std::string> found;
  for (const char* folder : {"training", "apps/cli", "apps/cli/split", "apps/split"})
    for (const auto& entry : std::filesystem::directory_iterator(EQUIGRAD_SOURCE_DIR "/" + std::string(folder))) {
      const std::string file = fmt::format("{}/{}", folder, entry.path().filename().string());
      for (const char* wanted : {"training/*", "apps/cli/train_*", "apps/cli/verb_train.*",
                                 "apps/cli/split/verb_edge.*", "apps/split/recipe.*"})
        if (glob_match(wanted, file) && (file.ends_with(".h") || file.ends_with(".cpp"))) found.push_back(file);
    }
  std::ranges::sort(found);
  return found;
}

/// The keys that stand outside rows in those, as "FILE: KEY", and the allowed words that stand nowhere.
std::string faults(const std::vector<Allowed>& exceptions) {
  std::set<std::string> unused;
  for (const Allowed& a : exceptions)
    for (const std::string& word : a.words) unused.insert(fmt::format("{}: {}", a.file, word));
  const std::set<std::string> may_stand = unused;
  std::vector<std::string> found;
  for (const std::string& file : sources())
    for (const std::string& key : strays(text_of(EQUIGRAD_SOURCE_DIR "/" + file))) {
      const std::string where = fmt::format("{}: {}", file, key);
      unused.erase(where);
      if (!may_stand.contains(where)) found.push_back(where);
    }
  for (const std::string& where : unused) found.push_back(where + " is allowed and not there");
  return fmt::format("{}", fmt::join(found, ", "));
}

/// "vit, deit"; "all" of them.
std::string names_of(const std::vector<std::string>& names) {
  return names.size() == models().size() ? "all" : fmt::format("{}", fmt::join(names, ", "));
}

std::string cell(std::string text) {
  for (std::size_t at = text.find('|'); at != std::string::npos; at = text.find('|', at + 2)) text.insert(at, "\\");
  return text;
}

const char* resumed(const training::OptionInfo& option) {
  using training::OnResume;
  const bool read = option.path == training::OptionPath::data || option.path == training::OptionPath::input;
  if (option.resume == OnResume::once) return "for one call";
  if (option.resume == OnResume::same_content || (option.resume == OnResume::free && read))
    return "another place, the same content";
  return option.resume == OnResume::same ? "" : "yes";
}

/// A line of the page: an option, and the models in which it says the same.
struct Line {
  std::string flag, rest;
  std::vector<std::string> models;
};

Line line_of(const Model& model, const training::OptionInfo& option) {
  const nlohmann::ordered_json& value = model.defaults.at(option.key);
  const std::string usual = value.is_string() ? value.get<std::string>() : value.dump();
  std::string flag = option.key;
  std::ranges::replace(flag, '_', '-');
  return {flag,
          fmt::format("{} | {} | {}", usual.empty() ? "" : "`" + usual + "`", cell(option.help), resumed(option)),
          {model.name}};
}

/// In the order of the first model that has an option; what others say of it follows.
std::vector<Line> lines() {
  std::vector<Line> found;
  for (const Model& model : models())
    for (const training::OptionInfo& option : model.options) {
      if (!option.flag) continue;
      const Line line = line_of(model, option);
      const auto is_of_option = [&](const Line& l) { return l.flag == line.flag; };
      const auto same =
          std::ranges::find_if(found, [&](const Line& l) { return is_of_option(l) && l.rest == line.rest; });
      const auto last = std::find_if(found.rbegin(), found.rend(), is_of_option);
      if (same != found.end())
        same->models.push_back(model.name);
      else
        found.insert(last == found.rend() ? found.end() : last.base(), line);
    }
  return found;
}

std::string page() {
  std::string text = "# The options of `train`\n\n"
                     "Written by `training_option_rows_test` with EQUIGRAD_WRITE_DOCS=1 from the rows of the options.\n"
                     "[training.md](training.md) says how to use them. A config file has `_` for `-` in their names.\n"
                     "The last column says whether `--resume` takes another value.\n\n"
                     "| option | models | default | meaning | on resume |\n|---|---|---|---|---|\n";
  for (const Line& line : lines())
    text += fmt::format("| `--{}` | {} | {} |\n", line.flag, names_of(line.models), line.rest);
  return text;
}

} // namespace

TEST_CASE("options: a key stands in rows alone") {
  CHECK(sources().size() > 50);
  CHECK(faults(allowed()) == "");
  // Controls: a key beside its row is noticed, one in a comment or in a row is not, and no exception is idle.
  CHECK(strays("if (key == \"lr\") return;") == std::vector<std::string>{"lr"});
  CHECK(strays("t.add(\"lr\", &O::lr, \"\"); // not \"dim\"\nneed(\"of lr\");").empty());
  CHECK(faults({}).find("training/records.cpp: lr") != std::string::npos);
  std::vector<Allowed> more = allowed();
  more.push_back({"training/run.cpp", {"lr"}, "nothing"});
  CHECK(faults(more) == "training/run.cpp: lr is allowed and not there");
}

TEST_CASE("options: a key is found by the member, and a member without a row is an error") {
  CHECK(training::option_key(&training::RunOptions::lr) == std::string("lr"));
  const training::VitOptions o;
  CHECK(training::option_key(o, o.model.encoder.norm_eps) == std::string("norm_eps"));
  CHECK(training::option_key(o, o.start.from) == std::string("from"));
  CHECK(training::option_key(o, o.skip_limit) == std::string("skip_limit"));
  CHECK_THROWS_AS(training::option_key(o, o.model.classes), std::logic_error);
}

TEST_CASE("options: every flag has a meaning, and no key two rows") {
  for (const Model& model : models()) {
    std::set<std::string> seen;
    for (const training::OptionInfo& option : model.options) {
      INFO(model.name, " ", option.key);
      CHECK(seen.insert(option.key).second);
      CHECK((option.help[0] != '\0') == option.flag);
    }
  }
}

TEST_CASE("options: docs/training-options.md lists the rows") {
  const std::string path = EQUIGRAD_SOURCE_DIR "/docs/training-options.md", now = page();
  if (std::getenv("EQUIGRAD_WRITE_DOCS") != nullptr) write_file(path, now);
  CHECK_MESSAGE(text_of(path) == now, "run this test with EQUIGRAD_WRITE_DOCS=1 and commit docs/training-options.md");
}
