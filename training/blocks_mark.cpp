#include "training/blocks_mark.h"

#include "core/base/bytes.h"
#include "core/base/json.h"
#include "nn/bert.h"
#include "nn/decoder.h"
#include "nn/vit.h"
#include "training/checkpoint.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <filesystem>
#include <system_error>

namespace eg::training {
namespace {

constexpr const char* mark_format = "equigrad-permuted-blocks";

std::string path_of(const std::string& folder) { return join_path(folder, "permuted_blocks.json"); }

} // namespace

std::optional<BlocksMark> read_blocks_mark(const std::string& folder) {
  const std::string path = path_of(folder);
  if (!file_exists(path)) return {};
  const nlohmann::json json = read_json(path);
  const auto text = [&](const char* key) { return json.contains(key) && json[key].is_string(); };
  if (!json.is_object() || !text("format") || json["format"] != mark_format || !text("key") || !text("key_form"))
    throw FileError(path + ": does not say what a run says of blocks that it left permuted");
  try {
    return BlocksMark{.key = json["key"], .form = permute::key_form_named(json["key_form"].get<std::string>())};
  } catch (const ValueError& e) {
    throw FileError(fmt::format("{}: {}", path, e.what()));
  }
}

void write_blocks_mark(const std::string& folder, const std::optional<BlocksMark>& mark) {
  if (mark) {
    write_json(path_of(folder), nlohmann::json{{"format", mark_format},
                                               {"version", 1},
                                               {"key", mark->key},
                                               {"key_form", std::string(name_of(mark->form))}});
    return;
  }
  std::error_code code;
  std::filesystem::remove(path_of(folder), code);
  if (code) throw FileError(fmt::format("{}: cannot be removed: {}", path_of(folder), code.message()));
}

void write_marked(const std::string& folder, const std::optional<BlocksMark>& mark, FunctionRef<void()> save) {
  make_folder(folder);
  if (mark) write_blocks_mark(folder, mark);
  save();
  if (!mark) write_blocks_mark(folder, mark);
}

void undo_blocks(hub::Model& model, const BlocksMark& mark, const permute::SecretKey& key) {
  if (mark.key.empty())
    throw ValueError("the blocks carry permutations drawn from the run's seed, and those of no secret key");
  if (mark.key != key.fingerprint())
    throw ValueError(fmt::format("the blocks carry key {}, this is key {}", mark.key, key.fingerprint()));
  const auto undo = [&](const nn::BlockConfig& block, std::int64_t layers, const std::string& family) {
    const permute::BlocksKey drawn = permute::BlocksKey::draw(block, layers, mark.form, key.source(family));
    permute::transform_module(model.module(), permute::blocks_axes(block, layers),
                              permute::inverse(drawn.permutations(block)));
  };
  if (auto* vit = dynamic_cast<nn::Vit*>(&model.module()))
    undo(vit->config.encoder, vit->config.layers, "vit");
  else if (auto* bert = dynamic_cast<nn::Bert*>(&model.module()))
    undo(bert->config.encoder, bert->config.layers, "bert");
  else if (auto* decoder = model.decoder())
    undo(decoder->config.block, decoder->config.layers, model.family());
  else
    throw ValueError(fmt::format("a {} has no blocks that training permutes", model.architecture()));
}

} // namespace eg::training
