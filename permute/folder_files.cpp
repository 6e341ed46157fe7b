#include "permute/folder_files.h"

#include "core/base/bytes.h"
#include "core/base/error.h"
#include "permute/key_file.h"

#include <algorithm>
#include <filesystem>
#include <fmt/format.h>
#include <string_view>

namespace eg::permute {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view is_key = "it is a key";
constexpr std::string_view holds_key = "it holds a key";
constexpr std::string_view is_empty = "it is empty";
constexpr std::string_view may_hold_weights = "it may hold plain weights or a key";
constexpr std::string_view gives_other_ids = "its tokenizer gives other ids than the model's";

/// Files that go with a model's weights: configs, tokenizers, texts. Anything else may hold weights in another format,
/// plain ones beside those that are permuted.
bool holds_no_weights(const std::string& name) {
  constexpr std::string_view ends[] = {".json", ".txt", ".md", ".model",  ".jinja",
                                       ".yaml", ".yml", ".py", "LICENSE", ".gitattributes"};
  return std::any_of(std::begin(ends), std::end(ends), [&](std::string_view end) { return name.ends_with(end); });
}

/// The entries of a folder, sorted. Throws FileError.
std::vector<fs::directory_entry> listed(const std::string& folder) {
  std::vector<fs::directory_entry> all;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) all.push_back(*it);
  if (error) throw FileError(fmt::format("{}: cannot be listed: {}", folder, error.message()));
  std::sort(all.begin(), all.end());
  return all;
}

/// Why a file must not accompany permuted weights; empty where it may. Only files that would be copied are
/// opened.
std::string_view against(const fs::directory_entry& file) {
  if (!file.is_regular_file() || !holds_no_weights(file.path().filename().string())) return may_hold_weights;
  return is_key_file(file.path().string()) ? is_key : std::string_view();
}

/// Sorts out a folder inside the model's: all of its files are kept, or none is.
void add_folder(FolderFiles& files, const fs::directory_entry& folder, bool renumbers_tokens) {
  const std::string own = folder.path().filename().string();
  const bool needs_own_ids = renumbers_tokens && own != plain_tokenizer_folder;
  std::vector<std::string> inside;
  std::vector<LeftOut> keys;
  bool weights = false, tokenizer = false;
  for (const fs::directory_entry& entry : listed(folder.path().string())) {
    const std::string name = entry.path().filename().string();
    const std::string_view reason = against(entry);
    inside.push_back(own + "/" + name);
    if (reason == is_key) keys.push_back({inside.back(), std::string(reason)});
    weights = weights || reason == may_hold_weights;
    tokenizer = tokenizer || is_of_tokenizer(name);
  }
  const std::string_view why = inside.empty()               ? is_empty
                               : weights                    ? may_hold_weights
                               : !keys.empty()              ? holds_key
                               : tokenizer && needs_own_ids ? gives_other_ids
                                                            : std::string_view();
  if (why.empty())
    files.kept.insert(files.kept.end(), inside.begin(), inside.end());
  else
    files.left_out.push_back({own, std::string(why)});
  files.left_out.insert(files.left_out.end(), keys.begin(), keys.end());
}

} // namespace

bool is_of_tokenizer(const std::string& name) {
  return std::find(tokenizer_files.begin(), tokenizer_files.end(), name) != tokenizer_files.end();
}

FolderFiles files_of(const std::string& folder, const std::set<std::string>& weights, bool renumbers_tokens) {
  FolderFiles files;
  for (const fs::directory_entry& entry : listed(folder)) {
    const std::string name = entry.path().filename().string();
    if (weights.contains(name))
      files.kept.push_back(name);
    else if (entry.is_directory())
      add_folder(files, entry, renumbers_tokens);
    else if (const std::string_view reason = against(entry); !reason.empty())
      files.left_out.push_back({name, std::string(reason)});
    else
      files.kept.push_back(name);
  }
  return files;
}

} // namespace eg::permute
