#include "apps/cli/shell/command_files.h"

#include "core/base/bytes.h"
#include "core/base/error.h"
#include "data/dataset.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <set>

namespace eg::cli {
namespace {

namespace fs = std::filesystem;

/// Device and inode.
using FileId = std::pair<dev_t, ino_t>;

/// What a path leads to, links followed, also where the last one leads to a file that is not there yet.
struct Place {
  explicit Place(const std::string& name) : path(name) {
    struct stat info {};
    if (::stat(path.c_str(), &info) == 0) {
      id = FileId{info.st_dev, info.st_ino};
      is_folder = S_ISDIR(info.st_mode);
      keeps = is_folder || S_ISREG(info.st_mode);
    }
    std::error_code code;
    target = fs::weakly_canonical(fs::absolute(link_target(path), code), code);
  }

  bool same(const Place& other) const {
    return keeps && other.keeps && (id && other.id ? *id == *other.id : !id && !other.id && target == other.target);
  }
  /// Below a folder that is there.
  bool lies_in(const Place& folder) const {
    if (!keeps || !folder.is_folder) return false;
    for (fs::path at = target; at.has_relative_path();) {
      at = at.parent_path();
      struct stat info {};
      if (::stat(at.c_str(), &info) == 0 && folder.id == FileId{info.st_dev, info.st_ino}) return true;
    }
    return false;
  }

  std::string path;
  std::optional<FileId> id; ///< none for what is not there
  bool is_folder = false;
  bool keeps = true; ///< what is written there can be read again: neither a device nor a pipe
  fs::path target;
};

/// Finds which of `wanted` lie below `folder`, and under which name. Links to folders are followed as often as readers
/// of pictures do (16 deep); no folder is looked at twice.
void find_names(const fs::path& folder, const std::set<FileId>& wanted, int links, std::set<FileId>& seen,
                std::map<FileId, std::string>& found) {
  std::error_code code;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, code)) {
    struct stat info {};
    if (::stat(entry.path().c_str(), &info) != 0) continue;
    const FileId id{info.st_dev, info.st_ino};
    if (wanted.count(id) != 0) found.emplace(id, entry.path().string());
    if (!S_ISDIR(info.st_mode)) continue;
    const int left = entry.is_symlink(code) ? links - 1 : links;
    if (left >= 0 && seen.insert(id).second) find_names(entry.path(), wanted, left, seen, found);
  }
}

[[noreturn]] void refuse(const std::string& path, const std::string& why) {
  throw FileError(fmt::format("{}: cannot be written: {}", path, why));
}

std::vector<Place> places(const std::vector<std::string>& paths) { return {paths.begin(), paths.end()}; }

/// Throws when one of `outputs` is `input`, or a file of it.
void require_not_in(const std::vector<Place>& outputs, const Place& input) {
  const auto is_read = [](const Place& output, const std::string& name) {
    refuse(output.path, output.path == name ? "it is read" : fmt::format("it is {}, which is read", name));
  };
  std::set<FileId> files;
  for (const Place& output : outputs) {
    if (output.same(input)) is_read(output, input.path);
    if (output.id && output.keeps && !output.is_folder) files.insert(*output.id);
  }
  if (!input.is_folder || files.empty()) return;
  std::map<FileId, std::string> names;
  std::set<FileId> seen;
  constexpr int links = 16;
  find_names(input.path, files, links, seen, names);
  for (const Place& output : outputs)
    if (const auto name = output.id ? names.find(*output.id) : names.end(); name != names.end())
      is_read(output, name->second);
}

void require_not_below(const std::vector<Place>& outputs, const Place& folder, const char* what) {
  for (const Place& output : outputs)
    if (output.lies_in(folder)) refuse(output.path, fmt::format("it lies in {}, {}", folder.path, what));
}

void require_distinct(const std::vector<Place>& results, const std::vector<Place>& made) {
  for (std::size_t i = 0; i < results.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j)
      if (results[i].same(results[j])) refuse(results[i].path, "another result goes there");
    for (const Place& other : made)
      if (results[i].same(other) || results[i].lies_in(other)) refuse(results[i].path, "another result goes there");
  }
}

void keep(std::vector<std::string>& paths, const std::string& path) {
  if (!path.empty() && path != "-") paths.push_back(path);
}

} // namespace

const char* name_of(FileRole role) {
  switch (role) {
  case FileRole::read:
    return "read";
  case FileRole::data_sets:
    return "data sets";
  case FileRole::result:
    return "result";
  case FileRole::new_folder:
    return "new folder";
  case FileRole::told_by_verb:
    return "own";
  }
  return "?";
}

CLI::Option* CommandFiles::declare(CLI::Option* option, FileRole role) {
  roles_.emplace(option, role);
  return option;
}

void CommandFiles::reads(const std::string& path) { keep(inputs_, path); }
void CommandFiles::reads_sets_of(const std::string& path) {
  if (!path.empty())
    for (const char* set : data::set_folders) reads(join_path(path, set));
}
void CommandFiles::writes(const std::string& path) { keep(results_, path); }
void CommandFiles::makes(const std::string& path) { keep(made_, path); }
void CommandFiles::goes_on_in(const std::string& path) { keep(own_, path); }

void CommandFiles::add(FileRole role, const std::string& path) {
  if (role == FileRole::read) reads(path);
  if (role == FileRole::data_sets) reads_sets_of(path);
  if (role == FileRole::result) writes(path);
  if (role == FileRole::new_folder) makes(path);
}

void CommandFiles::add_given(const CLI::App& verb) {
  for (const CLI::Option* option : verb.get_options()) {
    const auto known = roles_.find(option);
    if (known == roles_.end()) continue;
    for (const std::string& path : option->results()) add(known->second, path);
    if (known->second == FileRole::data_sets && option->count() == 0) reads_sets_of(data::default_data_dir());
  }
}

void CommandFiles::check() const {
  const std::vector<Place> results = places(results_), made = places(made_);
  std::vector<Place> outputs = results;
  outputs.insert(outputs.end(), made.begin(), made.end());
  for (const Place& input : places(inputs_)) {
    require_not_in(outputs, input);
    require_not_below(outputs, input, "which is read");
    for (const Place& output : made)
      if (input.lies_in(output)) refuse(output.path, fmt::format("{}, which is read, lies in it", input.path));
  }
  for (const Place& folder : places(own_)) {
    require_not_in(results, folder);
    require_not_below(results, folder, "which the run goes on in");
  }
  require_distinct(results, made);
}

} // namespace eg::cli
