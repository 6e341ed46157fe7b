#include "cli/inspect.h"

#include "core/error.h"
#include "core/words.h"
#include "data/bytes.h"
#include "data/json.h"
#include "data/preprocess.h"
#include "hub/folder.h"

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

constexpr std::array tokenizers{"tokenizer.json",
                                "tokenizer_config.json",
                                "vocab.txt",
                                "vocab.json",
                                "merges.txt",
                                "tokenizer.model",
                                "added_tokens.json",
                                "special_tokens_map.json",
                                "sentencepiece.bpe.model"};
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

void inspect_config(const std::string& path, std::string& lines, json& out) {
  const json config = data::read_json(path);
  if (!config.is_object()) throw FileError(path + ": not a JSON object");
  json entry = {{"model_type", nullptr}, {"architectures", json::array()}, {"sizes", json::object()}};
  lines += "config.json";
  for (const char* key : {"model_type", "architectures"})
    if (const auto at = config.find(key); at != config.end()) {
      entry[key] = *at;
      lines += fmt::format("  {} {}", key, plain(*at));
    }
  entry["support"] = support(config);
  lines += fmt::format("  ({} to equigrad infer)\n", entry["support"].get<std::string>());
  for (const char* key : sizes)
    if (const auto at = config.find(key); at != config.end() && at->is_primitive() && !at->is_null()) {
      entry["sizes"][key] = *at;
      lines += fmt::format("  {} {}\n", key, plain(*at));
    }
  out["config"] = std::move(entry);
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
void inspect_preprocessor(const std::string& path, std::string& lines, json& out) {
  const json config = data::read_json(path);
  std::string text;
  try {
    text = describe(data::read_preprocessing(path));
    out["preprocessor"] = {{"supported", true}, {"steps", text}};
  } catch (const FileError& error) {
    std::string reason = error.what();
    if (reason.starts_with(path + ": ")) reason.erase(0, path.size() + 2);
    text = fmt::format("not supported: {}", reason);
    out["preprocessor"] = {{"supported", false}, {"reason", reason}};
  }
  lines += fmt::format("preprocessor_config.json  {}\n", text);
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

} // namespace

bool holds_tensors(const std::string& folder) {
  return data::file_exists(data::join_path(folder, "model.safetensors")) ||
         data::file_exists(data::join_path(folder, "model.safetensors.index.json"));
}

bool inspect_folder(const std::string& folder, std::string& lines, json& out) {
  const auto path = [&](const char* name) { return data::join_path(folder, name); };
  const auto there = [&](const char* name) { return data::file_exists(path(name)); };
  bool any = there("config.json");
  if (any) inspect_config(path("config.json"), lines, out);
  if (any && holds_tensors(folder)) inspect_model(folder, lines, out);
  const auto list = [&](const char* kind, const auto& names) {
    json found = json::array();
    std::string text;
    for (const char* name : names)
      if (there(name)) {
        found.push_back(name);
        text += fmt::format("  {} ({})", name, bytes_text(std::filesystem::file_size(path(name))));
      }
    any = any || !found.empty();
    if (!text.empty()) lines += fmt::format("{}{}\n", kind, text);
    out[kind] = std::move(found);
  };
  list("tokenizer", tokenizers);
  list("other", others);
  if (there("preprocessor_config.json")) {
    any = true;
    inspect_preprocessor(path("preprocessor_config.json"), lines, out);
  }
  return any;
}

} // namespace eg::cli
