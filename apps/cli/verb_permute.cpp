// equigrad permute: the weights of a model folder, and its inputs and outputs, moved by a key.

#include "apps/cli/model_files.h"
#include "apps/cli/model_symmetries.h"
#include "apps/cli/shell/core_dumps.h"
#include "apps/cli/shell/interrupt.h"
#include "apps/cli/shell/output.h"
#include "apps/cli/shell/progress.h"
#include "apps/cli/shell/verb.h"

#include "core/base/bytes.h"
#include "core/base/json.h"
#include "data/safetensors.h"
#include "nn/hub/folder.h"
#include "permute/folder.h"
#include "permute/model_key.h"
#include "training/blocks_mark.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>

namespace eg::cli {
namespace {

struct PermuteOptions {
  std::string model, key, out, from_key, tensors, tensors_out;
  bool inverse = false, force = false, no_certify = false;
};

/// The element that the options ask for, and what the result's mark is to say.
struct Move {
  permute::SymmetryElement element;
  std::optional<permute::FolderMark> mark;
};

/// Whether a group moves the rows of the table that token ids look up.
bool renumbers_tokens(const permute::SymmetryGroup& group, const hub::Model& model) {
  for (const hub::Binding& b : model.bindings())
    if (b.parameter == "token_embedding.weight" || b.parameter == "word_embedding.weight")
      return std::any_of(group.axes.begin(), group.axes.end(),
                         [&](const permute::AxisUse& use) { return use.tensor == b.file && use.axis == 0; });
  return false;
}

permute::FolderMark mark_of(const permute::SecretKey& key, const OutlinedModel& m) {
  permute::FolderMark mark{key.fingerprint(), permute::groups_of(key, m.symmetries, m.model->architecture())};
  for (const permute::SymmetryGroup& group : m.symmetries.groups())
    if (mark.groups.contains(group.name) && renumbers_tokens(group, *m.model)) mark.renumbers_tokens = true;
  return mark;
}

Move move_of(const PermuteOptions& o, const OutlinedModel& m) {
  const auto element = [&](const permute::SecretKey& key) {
    return permute::element_of(key, m.symmetries, m.model->architecture());
  };
  const permute::SecretKey key = permute::SecretKey::load(o.key);
  if (o.inverse) return {element(key).inverse(), {}};
  if (o.from_key.empty()) return {element(key), mark_of(key, m)};
  return {element(permute::SecretKey::load(o.from_key)).inverse().then(element(key)), mark_of(key, m)};
}

/// The folder's mark and what is asked for fit each other.
void check_mark(const PermuteOptions& o) {
  const std::optional<permute::FolderMark> mark = permute::read_mark(o.model);
  const std::string& old = o.inverse ? o.key : o.from_key;
  if (old.empty()) {
    if (mark)
      throw FileError(fmt::format("{}: is permuted with key {} already; --from-key moves it from one key to another, "
                                  "--inverse undoes it",
                                  o.model, mark->key));
    return;
  }
  const std::string fingerprint = permute::SecretKey::load(old).fingerprint();
  if (!mark) throw FileError(fmt::format("{}: is not marked as permuted (there is no permutation.json)", o.model));
  if (mark->key != fingerprint)
    throw FileError(fmt::format("{}: is permuted with key {}, {} is key {}: the result would be useless", o.model,
                                mark->key, old, fingerprint));
}

/// Copies of tied tensors move with what they are copies of.
void add_copies(permute::AxisMap& axes, const std::vector<std::string>& unused) {
  constexpr std::pair<std::string_view, std::string_view> copies[] = {
      {"lm_head.weight", "wte.weight"},
      {"lm_head.weight", "embed_tokens.weight"},
      {"cls.predictions.decoder.weight", "word_embeddings.weight"},
      {"cls.predictions.decoder.bias", "cls.predictions.bias"},
      {"cls.predictions.bias", "cls.predictions.decoder.bias"}};
  const std::size_t count = axes.size();
  for (const std::string& name : unused)
    for (const auto& [copy, original] : copies)
      for (std::size_t i = 0; i < count && name.ends_with(copy); ++i)
        if (axes[i].parameter.ends_with(original)) axes.push_back({name, axes[i].groups});
}

/// Tensors that the model does not use, beside copies and constants: nobody knows how they would move.
std::vector<std::string> left_alone(const permute::AxisMap& axes, const std::vector<std::string>& unused) {
  constexpr std::string_view constants[] = {".attn.bias", ".attn.masked_bias", ".inv_freq", ".position_ids",
                                            ".token_type_ids"};
  std::vector<std::string> names;
  for (const std::string& name : unused) {
    const bool known = std::any_of(std::begin(constants), std::end(constants),
                                   [&](std::string_view end) { return name.ends_with(end); }) ||
                       std::any_of(axes.begin(), axes.end(), [&](const auto& a) { return a.parameter == name; });
    if (!known) names.push_back(name);
  }
  return names;
}

struct Moved {
  std::vector<std::string> alone; ///< tensors that were left as they are
  std::vector<permute::LeftOut> left_out;
};

Moved move_folder(const PermuteOptions& o, const OutlinedModel& m, const Move& move, bool show_progress) {
  auto [axes, permutations] = m.symmetries.axis_map(move.element);
  for (permute::ParameterAxes& a : axes)
    for (const auto& [own, in_file] : m.report.found)
      if (own == a.parameter) {
        a.parameter = in_file;
        break;
      }
  add_copies(axes, m.report.unused);
  Moved moved{left_alone(axes, m.report.unused), {}};
  Progress progress(show_progress);
  moved.left_out = permute::permute_folder({.from = o.model,
                                            .to = o.out,
                                            .axes = std::move(axes),
                                            .permutations = std::move(permutations),
                                            .mark = move.mark,
                                            .progress = [&](double done, double all) {
                                              progress.show(done, all, {{o.out, 1}});
                                            }});
  return moved;
}

/// Masks, positions and kinds of tokens: inputs that no key moves.
bool is_unmoved_input(const std::string& name) {
  return name == "attention_mask" || name == "position_ids" || name == "token_type_ids";
}

/// Inputs and outputs of the model in a file, moved like the model.
std::vector<std::string> move_tensors(const PermuteOptions& o, const OutlinedModel& m, const Move& move) {
  const data::TensorFile file = data::load_safetensors(o.tensors, {.widen = true});
  data::NamedTensors moved;
  std::vector<std::string> names;
  for (const auto& [name, tensor] : file.tensors) {
    try {
      moved.emplace_back(name, is_unmoved_input(name) ? tensor : m.symmetries.moved(move.element, name, tensor));
    } catch (const Error& e) {
      throw FileError(fmt::format("{}: {}: {}", o.tensors, name, e.what()));
    }
    names.push_back(name);
  }
  data::save_safetensors(o.tensors_out, moved, file.metadata);
  return names;
}

/// A model folder whose blocks a run has left permuted, made plain: its own files, with other weights.
int undo_training(const PermuteOptions& o, const training::BlocksMark& mark, const CommonOptions& common) {
  if (!o.inverse || o.out.empty() || !o.tensors.empty())
    throw UsageError(fmt::format("{}: a run has left its blocks permuted; --inverse --key KEY --out FOLDER takes them "
                                 "back, and nothing else can be done with them here",
                                 o.model));
  if (folder_exists(o.out) || file_exists(o.out)) throw FileError(o.out + ": is there already");
  const nlohmann::json config = hub::read_config(o.model);
  const bool doubles = config.value("torch_dtype", nlohmann::json()) == "float64";
  hub::LoadedModel loaded = hub::load_model(o.model, {.dtype = doubles ? DType::f64 : DType::f32});
  try {
    training::undo_blocks(*loaded.model, mark, permute::SecretKey::load(o.key));
  } catch (const ValueError& e) {
    throw ValueError(fmt::format("{}: {}", o.model, e.what()));
  }
  std::filesystem::create_directories(o.out);
  hub::save_model(*loaded.model, o.out);
  std::vector<std::string> companions(tokenizer_files.begin(), tokenizer_files.end());
  for (const char* name : {"preprocessor_config.json", "generation_config.json"}) companions.emplace_back(name);
  for (const std::string& name : companions)
    if (const std::string from = join_path(o.model, name); file_exists(from))
      std::filesystem::copy_file(from, join_path(o.out, name));
  if (common.talks()) say(fmt::format("{}: plain again\n", o.out));
  write_json(common, {{"out", o.out}, {"left_alone", nlohmann::json::array()}, {"left_out", nlohmann::json::array()}});
  return done;
}

void check_usage(const PermuteOptions& o) {
  if (o.out.empty() && o.tensors.empty())
    throw UsageError("permute: give --out FOLDER, or --tensors and --tensors-out");
  if (o.tensors.empty() != o.tensors_out.empty()) throw UsageError("permute: --tensors and --tensors-out go together");
  if (o.inverse && !o.from_key.empty()) throw UsageError("permute: --inverse and --from-key exclude each other");
}

} // namespace

Job declare_permute(CLI::App& app, const CommonOptions& common) {
  auto o = std::make_shared<PermuteOptions>();
  common.files->input(app.add_option("--model", o->model, "Model folder (config.json and safetensors)"))
      ->required()
      ->type_name("FOLDER");
  common.files->input(app.add_option("--key", o->key, "Key of keygen --model or --config"))
      ->required()
      ->type_name("FILE");
  common.files->new_folder(app.add_option("--out", o->out, "New folder for the permuted model"))->type_name("FOLDER");
  app.add_flag("--inverse", o->inverse, "Undo the key");
  common.files
      ->input(app.add_option("--from-key", o->from_key, "The model is permuted with this key: move it to --key"))
      ->type_name("FILE");
  common.files
      ->input(
          app.add_option("--tensors", o->tensors, "Inputs or outputs of the model (safetensors) to move by the key"))
      ->type_name("FILE");
  common.files->result(app.add_option("--tensors-out", o->tensors_out, "Where those go"))->type_name("FILE");
  app.add_flag("--force", o->force, "Go on where the folder's mark says that the key is not the right one");
  declare_certify(app, o->no_certify);
  return [o, &common]() -> int {
    disable_core_dumps();
    const StopScope stopping;
    o->model = model_folder(o->model);
    check_usage(*o);
    add_model(*common.files, o->model);
    common.files->check();
    require_writable(o->tensors_out);
    if (const auto mark = training::read_blocks_mark(o->model)) return undo_training(*o, *mark, common);
    if (!o->out.empty() && !o->force) check_mark(*o);
    const OutlinedModel m = outline_folder(o->model, !o->no_certify);
    const Move move = move_of(*o, m);
    nlohmann::json json{{"certificate", json_of(m.certificate)}};
    std::string lines = line_of(m.certificate);
    if (!o->tensors.empty()) {
      json["tensors"] = move_tensors(*o, m, move);
      lines +=
          fmt::format("{}: {}\n", o->tensors_out, fmt::join(json["tensors"].get<std::vector<std::string>>(), ", "));
    }
    if (!o->out.empty()) {
      const Moved moved = move_folder(*o, m, move, !common.quiet);
      lines += fmt::format("{}: {}\n", o->out,
                           move.mark  ? fmt::format("permuted with key {}", move.mark->key)
                           : o->force ? std::string("moved back by the key, by force: nobody says that it is plain now")
                                      : std::string("plain again"));
      if (move.mark && move.mark->renumbers_tokens)
        lines +=
            fmt::format("its token ids are moved too: a tokenizer that was there is in {}/{}, and permute --tensors "
                        "moves the ids that it gives\n",
                        o->out, permute::plain_tokenizer_folder);
      json["left_out"] = nlohmann::json::array();
      for (const auto& [name, why] : moved.left_out) {
        lines += fmt::format("not copied, {}: {}\n", why, name);
        json["left_out"].push_back(name);
      }
      for (const std::string& name : moved.alone)
        lines += fmt::format("left as it is, the model does not use it: {}\n", name);
      json["out"] = o->out;
      json["left_alone"] = moved.alone;
      if (move.mark) json["key"] = move.mark->key;
    }
    if (common.talks()) say(lines);
    write_json(common, json);
    return done;
  };
}

} // namespace eg::cli
