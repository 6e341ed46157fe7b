#pragma once
// Lists the files of a model folder that may accompany permuted weights.

#include "permute/folder.h"

#include <array>
#include <set>
#include <string>
#include <vector>

namespace eg::permute {

struct FolderFiles {
  std::vector<std::string> kept; ///< sorted, as NAME or FOLDER/NAME
  std::vector<LeftOut> left_out;
};

/// The files of a model folder that go with it: its weights, by their names in `weights`, and configs, tokenizers and
/// texts, also of folders that hold nothing else. Left out are keys, whatever their names, what may hold weights in
/// another format, and where tokens are renumbered, folders other than plain_tokenizer_folder with files of a
/// tokenizer. Throws FileError.
FolderFiles files_of(const std::string& folder, const std::set<std::string>& weights, bool renumbers_tokens);

/// Names of files that hold or configure a tokenizer.
inline constexpr std::array tokenizer_files = {"tokenizer.json",
                                               "tokenizer_config.json",
                                               "vocab.txt",
                                               "vocab.json",
                                               "merges.txt",
                                               "tokenizer.model",
                                               "added_tokens.json",
                                               "special_tokens_map.json",
                                               "sentencepiece.bpe.model",
                                               "spiece.model",
                                               "chat_template.jinja"};
/// Whether `name` is one of tokenizer_files.
bool is_of_tokenizer(const std::string& name);

} // namespace eg::permute
