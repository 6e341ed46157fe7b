#pragma once
// Reads and writes the tokenizer files that go with a model, and identifies them.

#include "data/text/tokenizer.h"
#include "nn/hub/model.h"
#include "training/fine_tuning.h"

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace eg::training {

/// A tokenizer with the files that it is read from.
class KeptTokenizer {
public:
  /// Reads a folder or file. Throws FileError.
  static KeptTokenizer open(const std::string& path);
  /// That of a model folder. Throws ValueError when it has none, FileError.
  static KeptTokenizer of_model(const std::string& folder);
  /// A tokenizer.json that was made here, with a tokenizer_config.json beside it. `source` is what errors call it.
  static KeptTokenizer made(std::string json, std::string config, const std::string& source);

  const data::Tokenizer& tokenizer() const { return tokenizer_; }
  /// What tells it from another that was opened: "3 files, crc32 1a2b3c4d" of their names and contents; "" of one that
  /// was made here, which the data determines.
  const std::string& fingerprint() const { return fingerprint_; }
  /// Writes the files into a folder that exists. Throws FileError.
  void save(const std::string& folder) const;

private:
  struct File {
    std::string name, content;
  };
  static std::string fingerprint_of(std::span<const File> files);
  KeptTokenizer(data::Tokenizer tokenizer, std::vector<File> files)
      : tokenizer_(std::move(tokenizer)), files_(std::move(files)) {}

  data::Tokenizer tokenizer_;
  std::vector<File> files_;
  std::string fingerprint_;
};

/// What a checkpoint remembers of token ids, so that going on with other data is refused: "1003854 tokens, crc32
/// 1a2b3c4d".
std::string fingerprint(std::span<const std::int32_t> ids);

/// Throws ValueError unless a text of `context` tokens of that tokenizer fits the model that options.from names.
void require_room(const FineTuning& options, const data::Tokenizer& tokenizer, std::int64_t context,
                  std::int64_t vocabulary, std::int64_t positions);

/// Writes the model as a folder of Hugging Face's format, with its tokenizer, and a generation_config.json of these
/// bytes unless there are none. Its config.json is written last. Throws FileError.
void save_text_model(const hub::Model& model, const KeptTokenizer& tokenizer, const std::string& folder,
                     std::string_view generation = {});

} // namespace eg::training
