// equigrad inspect: what is in a tensor file or a model folder.

#include "cli/inspect.h"
#include "cli/verb.h"

#include "core/error.h"
#include "data/bytes.h"
#include "data/tensor_reader.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <cstdio>
#include <memory>

namespace eg::cli {
namespace {

struct InspectOptions {
  std::string path, tensor;
  bool stats = false;
};

int inspect(const InspectOptions& o, const CommonOptions& common) {
  const bool folder = data::folder_exists(o.path);
  std::string lines;
  nlohmann::json json = {{"path", o.path}};
  bool model = false;
  if (folder && o.tensor.empty()) {
    nlohmann::json found = nlohmann::json::object();
    model = inspect_folder(o.path, lines, found);
    json["folder"] = std::move(found);
  }
  // A folder with nothing known in it is refused in open_tensors' words.
  if (!folder || !model || holds_tensors(o.path)) {
    const data::TensorReader reader = data::open_tensors(o.path);
    if (!o.tensor.empty()) {
      inspect_tensor(reader, o.tensor, lines, json);
    } else {
      // Only what somebody reads is made: a file can list two million tensors.
      const Statistics stats = o.stats ? read_statistics(reader, common.talks()) : Statistics();
      if (common.talks()) lines += tensor_table(reader, stats);
      if (!common.json.empty()) json.update(tensors_json(reader, stats));
    }
  } else {
    lines += "no weights: neither model.safetensors nor model.safetensors.index.json\n";
  }
  if (common.talks()) fmt::print("{}", lines);
  write_json(common, json);
  return done;
}

} // namespace

Job declare_inspect(CLI::App& app, const CommonOptions& common) {
  auto o = std::make_shared<InspectOptions>();
  app.add_option("path", o->path,
                 "Model folder, safetensors file, its index (model.safetensors.index.json), npy or npz file")
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
