#pragma once
// Permutes the tensors of a model folder. Bytes change places, none changes, so that nothing is rounded and the inverse
// gives back every file byte for byte.

#include "permute/axes.h"

#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace eg::permute {

/// permutation.json: describes the permutation that was applied to a folder. It does not contain the key.
struct FolderMark {
  std::string key; ///< fingerprint
  std::set<std::string> groups;
  bool renumbers_tokens = false; ///< the vocabulary moves: the model's ids are not its tokenizer's
};

/// Where a folder with other ids keeps the files of its tokenizer.
inline constexpr const char* plain_tokenizer_folder = "plain_tokenizer";

/// The mark of a folder; nothing where there is none. Throws FileError for one that cannot be read.
std::optional<FolderMark> read_mark(const std::string& folder);

struct FolderJob {
  std::string from, to;
  AxisMap axes; ///< by the names of the files' tensors
  PermutationSet permutations;
  std::optional<FolderMark> mark;                             ///< of the result
  std::function<void(double done, double all)> progress = {}; ///< bytes; may be empty
};

/// A file or a folder that was not copied.
struct LeftOut {
  std::string name, why; ///< why: "it is a key"
};

/// Writes `to`, a new folder: the safetensors file of `from`, or the shards of its index, with tensors gathered along
/// their axes (headers as they are, whatever the element type), configs, tokenizers and texts as they are, and folders
/// that hold nothing but such files (1_Pooling). Where the mark says that tokens are renumbered, the tokenizer's files
/// go into plain_tokenizer_folder, so that their ids are not taken for the model's; else they are restored from there.
/// Returns the other files and folders, which are left out: keys, what may hold plain weights, and other folders with
/// tokenizers beside renumbered tokens. Files and folders keep their modes. `to` appears complete or not at all.
/// Throws FileError: `to` exists already, a file cannot be read or written, a tensor of the map is missing or has
/// another shape, or its elements are not whole bytes.
std::vector<LeftOut> permute_folder(const FolderJob& job);

} // namespace eg::permute
