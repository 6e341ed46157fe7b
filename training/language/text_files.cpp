#include "training/language/text_files.h"

#include "core/base/bytes.h"
#include "core/base/error.h"
#include "core/base/words.h"
#include "nn/hub/folder.h"
#include "training/checkpoint.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <array>
#include <filesystem>

namespace eg::training {
namespace {

/// What data::Tokenizer::open reads of a folder, and beside a single file.
constexpr std::array vocabularies = {"tokenizer.json", "vocab.txt", "vocab.json", "merges.txt"};
constexpr std::array roles = {"added_tokens.json", "tokenizer_config.json", "special_tokens_map.json"};

/// Whether opening `path` reads the vocabulary called `name` that lies there or beside it.
bool reads_vocabulary(const std::string& path, std::string_view name) {
  if (folder_exists(path)) return true;
  const std::string file = std::filesystem::path(path).filename().string();
  const bool pairs = file == "vocab.json" || file == "merges.txt";
  return name == file || (pairs && (name == "vocab.json" || name == "merges.txt"));
}

} // namespace

std::string KeptTokenizer::fingerprint_of(std::span<const File> files) {
  std::uint32_t crc = 0;
  for (const File& file : files)
    for (const std::string* part : {&file.name, &file.content})
      // With the 0 at its end, so that no name runs on into what the file holds.
      crc = crc32({reinterpret_cast<const std::uint8_t*>(part->c_str()), part->size() + 1}, crc);
  return fmt::format("{}, crc32 {:08x}", count_of(files.size(), "file"), crc);
}

KeptTokenizer KeptTokenizer::open(const std::string& path) {
  data::Tokenizer tokenizer = data::Tokenizer::open(path);
  const bool folder = folder_exists(path);
  const std::filesystem::path file = path;
  const std::string place = folder ? path : file.parent_path().string();
  std::vector<File> files;
  const auto keep = [&](const std::string& from, const std::string& name) {
    const Bytes bytes = read_file(from);
    files.push_back({name, std::string(bytes.begin(), bytes.end())});
  };
  const auto keep_there = [&](const char* name) {
    if (const std::string from = join_path(place, name); file_exists(from)) keep(from, name);
  };
  for (const char* name : vocabularies)
    if (reads_vocabulary(path, name)) keep_there(name);
  if (files.empty()) keep(path, "tokenizer.json"); // one of another name
  for (const char* name : roles) keep_there(name);
  KeptTokenizer kept(std::move(tokenizer), std::move(files));
  kept.fingerprint_ = fingerprint_of(kept.files_);
  return kept;
}

KeptTokenizer KeptTokenizer::of_model(const std::string& folder) {
  const auto has = [&](const char* name) { return file_exists(join_path(folder, name)); };
  if (!has("tokenizer.json") && !has("vocab.txt") && !has("vocab.json"))
    throw ValueError(fmt::format("train: {} has no tokenizer: name one (tokenizer)", folder));
  return open(folder);
}

KeptTokenizer KeptTokenizer::made(std::string json, std::string config, const std::string& source) {
  data::Tokenizer tokenizer = data::Tokenizer::parse_json(json, source);
  return {std::move(tokenizer), {{"tokenizer.json", std::move(json)}, {"tokenizer_config.json", std::move(config)}}};
}

void KeptTokenizer::save(const std::string& folder) const {
  for (const File& file : files_) write_file(join_path(folder, file.name), std::string_view(file.content));
}

std::string fingerprint(std::span<const std::int32_t> ids) {
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(ids.data());
  return fmt::format("{} tokens, crc32 {:08x}", ids.size(), crc32({bytes, ids.size_bytes()}));
}

void require_room(const FineTuning& o, const data::Tokenizer& tokenizer, std::int64_t context, std::int64_t vocabulary,
                  std::int64_t positions) {
  const auto ids = static_cast<std::int64_t>(tokenizer.id_end());
  if (ids > vocabulary)
    throw ValueError(fmt::format("train: the tokenizer has the id {}, and the vocabulary of {} ends at {}: give the "
                                 "tokenizer that belongs to it",
                                 ids - 1, o.from, vocabulary - 1));
  if (context > positions)
    throw ValueError(
        fmt::format("train: context {} is longer than the {} tokens that {} takes", context, positions, o.from));
}

void save_text_model(const hub::Model& model, const KeptTokenizer& tokenizer, const std::string& folder,
                     std::string_view generation) {
  make_folder(folder);
  tokenizer.save(folder);
  if (!generation.empty()) write_file(join_path(folder, "generation_config.json"), generation);
  hub::save_model(model, folder);
}

} // namespace eg::training
