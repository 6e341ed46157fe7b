// equigrad inspect: what is in a tensor file or a model folder.

#include "apps/cli/inspect.h"
#include "apps/cli/model_files.h"
#include "apps/cli/shell/output.h"
#include "apps/cli/shell/verb.h"

#include "core/base/bytes.h"
#include "core/base/error.h"
#include "core/base/words.h"
#include "data/tensor_reader.h"
#include "nn/hub/llama2c.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>

namespace eg::cli {
namespace {

struct InspectOptions {
  std::string path, tensor;
  bool stats = false;
};

/// A JSON file of a model folder holds no tensors; the folder tells what it says.
void refuse_part_of_folder(const std::string& path) {
  const std::filesystem::path file(path);
  const auto is_part = [&](const auto& names) {
    return std::any_of(names.begin(), names.end(), [&](const char* name) { return file.filename() == name; });
  };
  if (!file_exists(path) || (!is_part(config_files) && !is_part(tokenizer_files))) return;
  const std::string folder = file.parent_path().string();
  throw FileError(
      fmt::format("{}: is a file of a model folder and holds no tensors; give the folder: equigrad inspect {}", path,
                  shell_word(folder.empty() ? "." : folder)));
}

std::optional<nlohmann::json> llama2c_config(const std::string& path) {
  try {
    return hub::llama2c_config(path);
  } catch (const FileError&) {
    return {}; // another kind of file, whose own reader says what is wrong with it
  }
}

void inspect_llama2c(const nlohmann::json& config, const InspectOptions& o, std::string& lines, nlohmann::json& json) {
  if (o.stats || !o.tensor.empty())
    throw FileError(o.path + ": is a llama2.c checkpoint, whose tensors have no names; equigrad generate reads it");
  lines += "llama2.c checkpoint";
  inspect_config(config, "equigrad generate reads it", lines, json);
  json["format"] = "llama2.c";
}

void inspect_weights(const InspectOptions& o, const CommonOptions& common, nlohmann::json& json) {
  const data::TensorReader reader = data::open_tensors(o.path);
  for (const std::string& file : reader.files()) common.files->reads(file);
  common.files->check();
  if (!o.tensor.empty()) {
    std::string lines;
    inspect_tensor(reader, o.tensor, lines, json);
    if (common.talks()) say(lines);
    return;
  }
  // Only what somebody reads is made: a file can list two million tensors.
  const Statistics stats = o.stats ? read_statistics(reader, common.talks()) : Statistics();
  if (common.talks()) print_tensors(reader, stats);
  if (!common.json.empty()) json.update(tensors_json(reader, stats));
}

/// Why a folder with other files of a model has no weights.
void tell_no_weights(const std::string& folder, std::string& lines, nlohmann::json& json) {
  try {
    data::open_tensors(folder);
  } catch (const FileError& error) {
    const std::string reason = reason_of(error, folder);
    lines += fmt::format("no weights: {}\n", printable(reason));
    json["weights"] = {{"there", false}, {"reason", reason}};
  }
}

int inspect(const InspectOptions& o, const CommonOptions& common) {
  add_model(*common.files, o.path);
  common.files->check();
  std::string lines;
  nlohmann::json json = {{"path", o.path}};
  bool weights = true; // a folder with nothing known in it is refused in open_tensors' words
  if (!folder_exists(o.path)) {
    refuse_part_of_folder(o.path);
    if (const auto config = llama2c_config(o.path)) {
      inspect_llama2c(*config, o, lines, json);
      weights = false;
    }
  } else if (o.tensor.empty()) {
    nlohmann::json found = nlohmann::json::object();
    weights = !inspect_folder(o.path, lines, found) || holds_tensors(o.path);
    if (!weights) tell_no_weights(o.path, lines, found);
    json["folder"] = std::move(found);
  }
  if (common.talks()) say(lines); // also where the weights turn out to be damaged
  if (weights) inspect_weights(o, common, json);
  write_json(common, json);
  return done;
}

} // namespace

Job declare_inspect(CLI::App& app, const CommonOptions& common) {
  auto o = std::make_shared<InspectOptions>();
  common.files
      ->input(app.add_option(
          "path", o->path, "Model folder, safetensors file, its index (model.safetensors.index.json), npy or npz file"))
      ->required()
      ->type_name("DIR|FILE");
  app.add_option("--tensor", o->tensor, "Print this tensor's values instead of the table")->type_name("NAME");
  app.add_flag("--stats", o->stats, "Read every value: min, max, mean, standard deviation, NaN and Inf counts");
  return [o, &common, &app]() -> int {
    if (o->stats && !o->tensor.empty())
      throw UsageError("--stats has no effect with --tensor, which shows them anyway");
    if (app.count("--tensor") > 0 && o->tensor.empty()) throw UsageError("--tensor: the name is empty");
    return inspect(*o, common);
  };
}

} // namespace eg::cli
