#pragma once
// Lists the files of a model folder that may lie beside permuted weights.

#include "permute/folder.h"

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

/// Whether a tokenizer reads a file of that name.
bool is_of_tokenizer(const std::string& name);

} // namespace eg::permute
