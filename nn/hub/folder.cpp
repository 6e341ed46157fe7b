#include "nn/hub/folder.h"

#include "core/base/bytes.h"
#include "core/base/error.h"
#include "core/base/interrupt.h"
#include "core/base/json.h"
#include "core/base/words.h"
#include "core/meta.h"
#include "data/safetensors.h"
#include "nn/hub/fields.h"
#include "nn/hub/regrid.h"
#include "nn/hub/timm.h"
#include "nn/init.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <set>

namespace eg::hub {
namespace {

std::string listed(const std::vector<std::string>& names) {
  constexpr std::size_t most = 5;
  std::string text;
  for (std::size_t i = 0; i < std::min(most, names.size()); ++i)
    text += fmt::format("{}{}", text.empty() ? "" : ", ", names[i]);
  if (names.size() > most) text += fmt::format(" and {} more", names.size() - most);
  return text;
}

/// What a file may call a tensor of this architecture, likeliest first.
std::vector<std::string> other_names(const Binding& binding, const Model& model) {
  const std::string& name = binding.file;
  std::vector<std::string> all = {name};
  const std::string& prefix = model.prefix();
  if (!prefix.empty() && name.starts_with(prefix)) all.push_back(name.substr(prefix.size()));
  if (prefix.empty())
    for (const char* other : {"bert.", "transformer.", "model.", "vit.", "deit."}) all.push_back(other + name);
  for (std::size_t i = 0, count = all.size(); i < count; ++i)
    for (const auto& [now, then] :
         {std::pair{"LayerNorm.weight", "LayerNorm.gamma"}, {"LayerNorm.bias", "LayerNorm.beta"}})
      if (all[i].ends_with(now)) all.push_back(all[i].substr(0, all[i].size() - std::string_view(now).size()) + then);
  all.insert(all.end(), binding.tied.begin(), binding.tied.end());
  return all;
}

Shape shape_of(const data::TensorInfo& info) { return Shape(std::span<const std::int64_t>(info.dims)); }

bool is_transpose(const Shape& a, const Shape& b) {
  return a.rank() == 2 && b.rank() == 2 && a[0] == b[1] && a[1] == b[0];
}

/// Reads the tensors that a model's bindings ask for.
class Reading {
public:
  Reading(const data::TensorReader& reader, Model& model, const LoadModelOptions& options,
          const std::optional<Regrid>& regrid, bool values, bool other_classes)
      : reader_(reader), model_(model), options_(options), regrid_(regrid), values_(values),
        other_classes_(other_classes), slots_(model.module().state_dict()) {}

  LoadReport run() {
    for (const std::string& pattern : options_.fresh) require_fit(pattern);
    for (const Binding& binding : model_.bindings()) read(binding);
    for (const data::TensorInfo& info : reader_.tensors())
      if (!taken_.contains(info.name)) extra(info.name);
    return std::move(report_);
  }

private:
  /// Throws ValueError for a pattern that fits no parameter.
  void require_fit(const std::string& pattern) const {
    for (const Binding& b : model_.bindings())
      if (glob_match(pattern, b.file) || glob_match(pattern, b.parameter)) return;
    throw ValueError(fmt::format("{}: no parameter fits '{}', which is to begin anew", reader_.path(), pattern));
  }

  /// True when the model's own random numbers may stay.
  bool stays_fresh(const Binding& b) {
    if (!options_.fresh_head || !b.head) return false;
    report_.fresh.push_back(b.file);
    return true;
  }

  /// A pattern asks for random numbers, whatever the file holds.
  bool begins_anew(const Binding& b) {
    const auto fits = [&](const std::string& pattern) {
      return glob_match(pattern, b.file) || glob_match(pattern, b.parameter);
    };
    const bool classifier = b.file.find("classifier.") != std::string::npos;
    return (other_classes_ && classifier) || std::any_of(options_.fresh.begin(), options_.fresh.end(), fits);
  }

  void read(const Binding& b) {
    poll_interrupt();
    const data::TensorInfo* info = nullptr;
    for (const std::string& name : other_names(b, model_))
      if (info = reader_.find(name); info != nullptr) break;
    if (begins_anew(b)) {
      if (info != nullptr) taken_.insert(info->name);
      report_.fresh.push_back(b.file);
      return;
    }
    if (info == nullptr) {
      if (!stays_fresh(b)) report_.missing.push_back(b.file);
      return;
    }
    taken_.insert(info->name);
    report_.found.emplace_back(b.file, info->name);
    if (info->name != b.file) report_.renamed.push_back(info->name);
    const bool resampled = regrid_ && b.parameter == "position_embedding";
    if (!resampled && !(shape_of(*info) == b.shape)) {
      if (!stays_fresh(b))
        report_.misshapen.push_back(fmt::format("{} is {}, the model's is {}{}", info->name, shape_of(*info).str(),
                                                b.shape.str(),
                                                is_transpose(shape_of(*info), b.shape) ? " (transposed?)" : ""));
      return;
    }
    if (!values_) return;
    Tensor values = reader_.read(info->name, {.widen = true});
    if (!is_floating(values.dtype()))
      throw FileError(fmt::format("{}: {} holds {}, not floating-point numbers", reader_.path(), info->name,
                                  name_of(values.dtype())));
    if (resampled) values = resample_positions(values.to(DType::f64), regrid_->special, regrid_->from, regrid_->to);
    for (auto& [name, slot] : slots_)
      if (name == b.parameter) insert(slot, b, values);
  }

  void extra(const std::string& name) {
    constexpr std::array heads = {
        "classifier.", "cls.", "qa_outputs.", "score.", "lm_head.", "cls_classifier.", "distillation_classifier."};
    const auto begins = [&](const char* head) { return name.starts_with(head); };
    const bool other_head = options_.fresh_head && std::any_of(heads.begin(), heads.end(), begins);
    const Binding* tied = model_.tied_to(name);
    if (tied != nullptr) require_tied(name, *tied);
    if (tied != nullptr || other_head || model_.is_known_extra(name)) {
      report_.unused.push_back(name);
      return;
    }
    std::vector<std::string> known;
    for (const Binding& b : model_.bindings())
      if (!taken_.contains(b.file)) known.push_back(b.file);
    report_.unexpected.push_back(name + did_you_mean(name, known));
  }

  /// Throws FileError when the file's tensor `name` holds other numbers than the one that the config ties it to.
  void require_tied(const std::string& name, const Binding& tied) const {
    if (!values_) return;
    for (const auto& [own, in_file] : report_.found)
      if (own == tied.file && !same_bits(reader_.read(name, {.widen = true}), reader_.read(in_file, {.widen = true})))
        throw FileError(
            fmt::format("{}: {} and {} differ, but the config's field 'tie_word_embeddings' makes them one: "
                        "set it to false, or leave one of them out",
                        reader_.path(), name, in_file));
  }

  const data::TensorReader& reader_;
  Model& model_;
  const LoadModelOptions& options_;
  const std::optional<Regrid>& regrid_;
  const bool values_; ///< else names and shapes alone are compared
  const bool other_classes_;
  nn::StateDict slots_;
  std::set<std::string> taken_;
  LoadReport report_;
};

} // namespace

std::string LoadReport::summary() const {
  std::string text;
  const auto add = [&](const std::vector<std::string>& names, const char* one, const char* many) {
    if (names.empty()) return;
    text += fmt::format("{}{} {}: {}", text.empty() ? "" : "; ", names.size(), names.size() == 1 ? one : many,
                        listed(names));
  };
  add(missing, "tensor is missing", "tensors are missing");
  add(unexpected, "tensor is unexpected", "tensors are unexpected");
  add(misshapen, "tensor has another shape", "tensors have other shapes");
  add(fresh, "tensor is random", "tensors are random");
  add(renamed, "tensor has another name", "tensors have other names");
  add(unused, "tensor is not needed", "tensors are not needed");
  return text.empty() ? "every tensor found" : text;
}

namespace {

/// Whether classes have names of their own: not LABEL_0, LABEL_1, ..., nor their numbers alone.
bool are_named(const nlohmann::json& names) {
  if (!names.is_object()) return false;
  for (const auto& [id, name] : names.items())
    if (name != "LABEL_" + id && name != id) return true;
  return false;
}

/// Whether a config's classes are called otherwise than `names`, where both have names.
bool have_other_names(const nlohmann::json& names, const nlohmann::json& config) {
  const nlohmann::json now = class_names(config);
  return are_named(names) && are_named(now) && names != now;
}

/// The model of a folder, without its values where they are not `read`.
LoadedModel opened(const std::string& folder, const LoadModelOptions& options, bool read) {
  const std::string path = join_path(folder, "config.json");
  nlohmann::json config = read_config(folder);
  const nlohmann::json names = class_names(config);
  if (options.adapt) options.adapt(config);
  const bool other_classes = options.fresh_head && have_other_names(names, config);
  const std::optional<Regrid> regrid =
      options.image_size ? change_image_size(config, *options.image_size, path) : std::nullopt;
  const data::TensorReader reader = data::open_tensors(folder);
  LoadedModel loaded;
  {
    std::optional<nn::init::SkipScope> skip; // every parameter is read, or the file is refused
    if (!options.fresh_head && options.fresh.empty()) skip.emplace();
    loaded.model = make_model(config, options.key, path, &reader);
  }
  if (read) loaded.model->module().to(options.dtype);
  loaded.report = Reading(reader, *loaded.model, options, regrid, read, other_classes).run();
  loaded.report.path = reader.path();
  return loaded;
}

} // namespace

nlohmann::json read_config(const std::string& folder) {
  const std::string path = join_path(folder, "config.json");
  nlohmann::json config = read_json(path);
  if (!config.is_object()) throw FileError(path + ": is not a JSON object");
  return config;
}

std::string model_folder_of_run(const std::string& path) {
  std::string trained = join_path(path, "model");
  const bool is_run = file_exists(join_path(path, "metrics.jsonl"));
  return is_run && file_exists(join_path(trained, "config.json")) ? trained : path;
}

LoadedModel load_model(const std::string& folder, const LoadModelOptions& options) {
  LoadedModel loaded = opened(folder, options, true);
  if (!loaded.report.complete()) {
    LoadReport wrong = loaded.report;
    wrong.unused.clear();
    wrong.renamed.clear();
    wrong.fresh.clear();
    throw FileError(fmt::format("{}: {}", wrong.path, wrong.summary()));
  }
  loaded.model->module().eval();
  return loaded;
}

LoadedModel outline_of_folder(const std::string& folder) {
  const MetaTensorScope tensors;
  const MetaCallScope calls;
  LoadedModel loaded = opened(folder, {}, false);
  loaded.model->module().eval();
  return loaded;
}

std::unique_ptr<Model> outline_of_config(const std::string& path) {
  const MetaTensorScope tensors;
  const MetaCallScope calls;
  const nn::init::SkipScope skip;
  std::unique_ptr<Model> model = make_model(read_json(path), {}, path);
  model->module().eval();
  return model;
}

ModelSummary examine_model(const std::string& folder) {
  const LoadedModel loaded = outline_of_folder(folder);
  return {.family = loaded.model->family(),
          .architecture = loaded.model->architecture(),
          .parameters = loaded.model->module().parameter_count(),
          .inputs = loaded.model->input_names(),
          .report = loaded.report};
}

void save_model(const Model& model, const std::string& folder, std::uint64_t shard_bytes) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) throw FileError(fmt::format("{}: cannot be made: {}", folder, error.message()));
  const Tensors state = model.state();
  nlohmann::json config = model.config();
  // Older and newer transformers call it differently; what the folder was read with may hold either.
  config.erase("dtype");
  if (!state.empty()) config["torch_dtype"] = state.front().second.dtype() == DType::f64 ? "float64" : "float32";
  data::save_sharded(folder, state, {.max_bytes = shard_bytes, .metadata = {{"format", "pt"}}});
  write_json(join_path(folder, "config.json"), config);
}

} // namespace eg::hub
