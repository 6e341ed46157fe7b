#include "apps/cli/inspect.h"
#include "apps/cli/model_files.h"

#include "core/base/bytes.h"
#include "core/base/error.h"
#include "core/base/input_file.h"
#include "core/base/json.h"
#include "core/base/words.h"
#include "data/preprocess.h"
#include "data/text/tokenizer.h"
#include "nn/hub/folder.h"
#include "nn/hub/timm.h"
#include "training/blocks_mark.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <filesystem>

namespace eg::cli {
namespace {

using nlohmann::json;

// What configs call their sizes, family by family.
constexpr std::array sizes{"vocab_size",
                           "hidden_size",
                           "n_embd",
                           "embedding_size",
                           "num_hidden_layers",
                           "n_layer",
                           "num_attention_heads",
                           "n_head",
                           "num_key_value_heads",
                           "head_dim",
                           "intermediate_size",
                           "n_inner",
                           "hidden_act",
                           "activation_function",
                           "max_position_embeddings",
                           "n_positions",
                           "type_vocab_size",
                           "image_size",
                           "patch_size",
                           "num_channels",
                           "num_labels",
                           "rope_theta",
                           "rms_norm_eps",
                           "layer_norm_eps",
                           "layer_norm_epsilon",
                           "torch_dtype",
                           "dtype",
                           "tie_word_embeddings"};

constexpr std::array others{"generation_config.json", "processor_config.json"};

/// A value of a config in one line.
std::string plain(const json& value) {
  return printable(value.is_string() ? value.get<std::string>()
                                     : value.dump(-1, ' ', false, json::error_handler_t::replace));
}

/// Whether load_model knows what the config describes.
std::string support(const json& config) {
  const auto text = [](const json& value) { return value.is_string() ? value.get<std::string>() : std::string(); };
  if (!config.contains("model_type") && config.contains("architecture")) return "family known"; // timm
  const std::string family = text(config.value("model_type", json()));
  const json architectures = config.value("architectures", json::array());
  const std::string architecture =
      architectures.is_array() && !architectures.empty() ? text(architectures.front()) : std::string();
  for (const auto& [name, known] : hub::supported()) {
    if (name != family) continue;
    if (architecture.empty()) return "family known";
    return std::find(known.begin(), known.end(), architecture) != known.end() ? "known"
                                                                              : "family known, architecture not";
  }
  return "not known";
}

std::string describe(const data::Preprocessing& p) {
  const auto size = [](data::ImageSize s) { return fmt::format("{}x{}", s.height, s.width); };
  std::string text = p.processor.empty() ? "as ViTImageProcessor" : printable(p.processor);
  if (p.convert_rgb) text += ", as RGB";
  constexpr std::array filters{"nearest", "lanczos", "bilinear", "bicubic", "box", "hamming"};
  if (p.resize)
    text += fmt::format(", resized to {} ({})",
                        p.shortest_edge ? fmt::format("shortest edge {}", *p.shortest_edge) : size(p.size),
                        filters[static_cast<std::size_t>(p.resample)]);
  if (p.center_crop) text += ", middle " + size(p.crop_size);
  if (p.rescale) text += fmt::format(", times {:.6g}", p.rescale_factor);
  if (p.normalize)
    text += fmt::format(", less [{:.4g}], by [{:.4g}]", fmt::join(p.mean, ", "), fmt::join(p.deviation, ", "));
  return text;
}

/// A config that is well-formed but asks for what is not done is described, not refused.
void inspect_preprocessor(const std::string& folder, std::string& lines, json& out) {
  const std::string path = hub::preprocessing_file(folder);
  static_cast<void>(read_json(path)); // what is no JSON is refused
  std::string text;
  try {
    text = describe(hub::preprocessing_of(folder));
    out["preprocessor"] = {{"supported", true}, {"steps", text}};
  } catch (const FileError& error) {
    const std::string reason = reason_of(error, path);
    text = fmt::format("not supported: {}", reason);
    out["preprocessor"] = {{"supported", false}, {"reason", reason}};
  }
  const std::string name = std::filesystem::path(path).filename().string();
  lines += fmt::format("{}  {}\n", name == "config.json" ? "pretrained_cfg" : name, text);
}

/// What load_model would say of the folder, from names and shapes.
void inspect_model(const std::string& folder, std::string& lines, json& out) {
  bool loads = false;
  std::string report;
  try {
    const hub::ModelSummary summary = hub::examine_model(folder);
    loads = summary.report.complete();
    report = summary.report.summary();
  } catch (const Error& error) {
    report = error.what();
  }
  lines += fmt::format("model  equigrad infer {}: {}\n", loads ? "reads it" : "does not read it", printable(report));
  out["model"] = {{"loads", loads}, {"report", report}};
}

/// Says whose permutations the blocks carry, where a run left them permuted.
void inspect_mark(const std::string& folder, std::string& lines, json& out) {
  const auto mark = training::read_blocks_mark(folder);
  if (!mark) return;
  lines +=
      fmt::format("permuted_blocks.json  the blocks carry the permutations of {}; without them the model is another "
                  "function\n",
                  mark->key.empty() ? "a run's seed" : "key " + mark->key);
  out["permuted_blocks"] = {{"key", mark->key}, {"key_form", name_of(mark->form)}};
}

/// Whether the tokenizer's files can be read together.
void inspect_tokenizer(const std::string& folder, std::string& lines, json& out) {
  std::string report;
  bool loads = false;
  try {
    const data::Tokenizer tokenizer = data::Tokenizer::open(folder);
    report = fmt::format("{}, {} tokens", tokenizer.kind(), grouped(tokenizer.size()));
    loads = true;
  } catch (const Error& error) {
    report = reason_of(error, folder);
  }
  lines += fmt::format("tokenizer: {}: {}\n", loads ? "reads" : "does not read", printable(report));
  out["tokenizer_check"] = {{"loads", loads}, {"report", report}};
}

/// A file lies there. What is there and no file is not passed over in silence.
bool there(const std::string& path) {
  if (!path_exists(path)) return false;
  std::error_code error; // a folder without search permission, a loop of links
  if (const auto status = std::filesystem::status(path, error);
      error && status.type() == std::filesystem::file_type::none)
    throw FileError(fmt::format("{}: cannot be looked at: {}", path, error.message()));
  if (!file_exists(path)) throw FileError(path + ": is there, but not a regular file");
  return true;
}

/// The files of some names, in one line.
template <std::size_t n>
bool list_files(const std::string& folder, const char* kind, const std::array<const char*, n>& names,
                std::string& lines, json& out) {
  json found = json::array();
  std::string text;
  for (const char* name : names)
    if (const std::string path = join_path(folder, name); there(path)) {
      found.push_back(name);
      text += fmt::format("  {} ({})", name, bytes_text(std::filesystem::file_size(path)));
    }
  const bool any = !found.empty();
  if (any) lines += fmt::format("{}{}\n", kind, text);
  out[kind] = std::move(found);
  return any;
}

} // namespace

std::string reason_of(const Error& error, const std::string& path) {
  const std::string message = error.what();
  return message.starts_with(path + ": ") ? message.substr(path.size() + 2) : message;
}

void inspect_config(const json& config, const std::string& remark, std::string& lines, json& out) {
  json entry = {{"model_type", nullptr}, {"architectures", json::array()}, {"sizes", json::object()}};
  for (const char* key : {"model_type", "architectures"})
    if (const auto at = config.find(key); at != config.end()) {
      entry[key] = *at;
      lines += fmt::format("  {} {}", key, plain(*at));
    }
  lines += fmt::format("  ({})\n", remark);
  for (const char* key : sizes)
    if (const auto at = config.find(key); at != config.end() && at->is_primitive() && !at->is_null()) {
      entry["sizes"][key] = *at;
      lines += fmt::format("  {} {}\n", key, plain(*at));
    }
  if (const json labels = hub::class_names(config); labels.is_object()) {
    entry["labels"] = labels.size();
    lines += fmt::format("  {} with {} labels\n", hub::is_timm(config) ? "label_names" : "id2label", labels.size());
  }
  out["config"] = std::move(entry);
}

bool holds_tensors(const std::string& folder) {
  return std::any_of(weight_files.begin(), weight_files.end(),
                     [&](const char* name) { return path_exists(join_path(folder, name)); });
}

bool inspect_folder(const std::string& folder, std::string& lines, json& out) {
  const bool has_config = there(join_path(folder, "config.json"));
  if (has_config) {
    const json config = hub::read_config(folder);
    lines += "config.json";
    const std::string known = support(config);
    inspect_config(config, known + " to equigrad infer", lines, out);
    out["config"]["support"] = known;
    if (holds_tensors(folder)) inspect_model(folder, lines, out);
    inspect_mark(folder, lines, out);
  }
  const bool has_tokenizer = list_files(folder, "tokenizer", tokenizer_files, lines, out);
  if (has_tokenizer) inspect_tokenizer(folder, lines, out);
  const bool has_others = list_files(folder, "other", others, lines, out);
  const bool own = there(join_path(folder, "preprocessor_config.json"));
  const bool has_preprocessor = own || (has_config && hub::is_timm(hub::read_config(folder)));
  if (has_preprocessor) inspect_preprocessor(folder, lines, out);
  return has_config || has_tokenizer || has_others || has_preprocessor;
}

} // namespace eg::cli
