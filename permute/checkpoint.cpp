#include "permute/checkpoint.h"

#include "core/error.h"
#include "data/bytes.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <limits>
#include <map>
#include <string_view>
#include <system_error>

namespace eg::permute {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail(const std::string& path, const char* what, const std::error_code& code) {
  throw FileError(fmt::format("{}: {}: {}", path, what, code.message()));
}

void remove_tree(const std::string& path) {
  std::error_code code;
  fs::remove_all(path, code);
  if (code) fail(path, "cannot remove", code);
}

void rename_folder(const std::string& from, const std::string& to) {
  std::error_code code;
  fs::rename(from, to, code);
  if (code) fail(to, "cannot rename into place", code);
}

/// The names in a folder must reach the disk as well as the files. Some file systems cannot flush a folder.
void flush_folder(const std::string& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return;
  const bool failed = ::fsync(descriptor) != 0 && errno != EINVAL && errno != ENOTSUP;
  const std::error_code code(errno, std::generic_category());
  ::close(descriptor);
  if (failed) fail(path, "cannot flush", code);
}

std::string checkpoints_of(const std::string& run_folder) { return data::join_path(run_folder, "checkpoints"); }

std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code code;
  for (fs::directory_iterator it(folder, code), end; !code && it != end; it.increment(code))
    names.push_back(it->path().filename().string());
  if (code && code != std::errc::no_such_file_or_directory) fail(folder, "cannot list the folder", code);
  return names;
}

bool is_complete(const std::string& checkpoint) { return data::file_exists(data::join_path(checkpoint, "state.json")); }

/// The number that all of `text` spells, or -1.
std::int64_t number_of(std::string_view text) {
  std::int64_t value = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() ? value : -1;
}

/// Steps of all folders with a checkpoint's name, ascending.
std::vector<std::int64_t> named_steps(const std::string& root) {
  constexpr std::string_view prefix = "step-";
  std::vector<std::int64_t> steps;
  for (const std::string& name : names_in(root))
    if (name.starts_with(prefix))
      if (const std::int64_t step = number_of(std::string_view(name).substr(prefix.size()));
          step >= 0 && name == checkpoint_name(step))
        steps.push_back(step);
  std::sort(steps.begin(), steps.end());
  return steps;
}

/// Removes .step-N.tmp-PID and .step-N.tmp-PID.old of processes that are no more.
void remove_stale(const std::string& root) {
  for (const std::string& name : names_in(root)) {
    const std::size_t at = name.find(".tmp-");
    if (!name.starts_with(".step-") || at == std::string::npos) continue;
    std::string_view process = std::string_view(name).substr(at + 5);
    if (process.ends_with(".old")) process.remove_suffix(4);
    const std::int64_t pid = number_of(process);
    if (pid > 0 && pid <= std::numeric_limits<pid_t>::max() && ::kill(static_cast<pid_t>(pid), 0) != 0 &&
        errno == ESRCH)
      remove_tree(data::join_path(root, name));
  }
}

/// Exchanges two folders in one step; false where the file system cannot.
bool swap_folders(const std::string& a, const std::string& b) {
  return ::renameat2(AT_FDCWD, a.c_str(), AT_FDCWD, b.c_str(), RENAME_EXCHANGE) == 0;
}

} // namespace

void make_folder(const std::string& path) {
  std::error_code code;
  fs::create_directories(path, code);
  if (code) fail(path, "cannot make the folder", code);
}

std::string checkpoint_name(std::int64_t step) { return fmt::format("step-{:08}", step); }

CheckpointWriter::CheckpointWriter(const std::string& run_folder, std::int64_t step)
    : root_(checkpoints_of(run_folder)), name_(checkpoint_name(step)),
      temporary_(data::join_path(root_, fmt::format(".{}.tmp-{}", name_, ::getpid()))) {
  make_folder(root_);
  remove_stale(root_);
  remove_tree(temporary_);
  make_folder(temporary_);
}

CheckpointWriter::~CheckpointWriter() {
  if (committed_) return;
  std::error_code ignored;
  fs::remove_all(temporary_, ignored);
}

std::string CheckpointWriter::path(const std::string& file) const { return data::join_path(temporary_, file); }

std::string CheckpointWriter::commit() {
  const std::string final_path = data::join_path(root_, name_);
  flush_folder(temporary_);
  // A folder cannot replace one that has files in it: an older checkpoint of this step changes places with the new one,
  // or, on file systems that cannot do that, steps aside first.
  const std::string aside = temporary_ + ".old";
  remove_tree(aside);
  const bool again = data::folder_exists(final_path);
  if (!again || !swap_folders(temporary_, final_path)) {
    if (again) rename_folder(final_path, aside);
    rename_folder(temporary_, final_path);
  }
  committed_ = true;
  flush_folder(root_);
  data::write_file(data::join_path(root_, "latest"), std::string_view(name_ + "\n"));
  remove_tree(temporary_);
  remove_tree(aside);
  return final_path;
}

std::vector<std::int64_t> checkpoint_steps(const std::string& run_folder) {
  const std::string root = checkpoints_of(run_folder);
  std::vector<std::int64_t> steps = named_steps(root);
  std::erase_if(steps, [&](std::int64_t step) { return !is_complete(data::join_path(root, checkpoint_name(step))); });
  return steps;
}

std::vector<std::string> find_checkpoints(const std::string& folder) {
  if (!data::folder_exists(folder)) throw FileError(folder + ": no such folder");
  if (is_complete(folder)) return {folder};
  const std::string root = checkpoints_of(folder);
  std::vector<std::string> names;
  for (const std::int64_t step : checkpoint_steps(folder)) names.insert(names.begin(), checkpoint_name(step));
  if (names.empty())
    throw FileError(folder + ": neither a checkpoint (state.json) nor a run with one (checkpoints/step-*)");
  for (std::string& name : names) name = data::join_path(root, name);
  return names;
}

void prune_checkpoints(const std::string& run_folder, std::int64_t step, std::size_t keep) {
  const std::string root = checkpoints_of(run_folder);
  const std::vector<std::int64_t> steps = named_steps(root);
  std::size_t kept = 0;
  for (auto at = steps.rbegin(); at != steps.rend(); ++at) {
    const std::string folder = data::join_path(root, checkpoint_name(*at));
    if (*at <= step && kept < keep && is_complete(folder))
      ++kept;
    else
      remove_tree(folder);
  }
}

bool holds_run(const std::string& folder) {
  return data::file_exists(data::join_path(folder, "metrics.jsonl")) ||
         data::file_exists(data::join_path(folder, "model.safetensors")) || !checkpoint_steps(folder).empty();
}

void clear_run(const std::string& folder) {
  remove_tree(checkpoints_of(folder));
  for (const char* name : {"metrics.jsonl", "model.safetensors", "model_none.safetensors", "model_rows.safetensors",
                           "model_columns.safetensors", "model_both.safetensors"})
    remove_tree(data::join_path(folder, name));
}

data::NamedTensors optimizer_tensors(const optim::Optimizer& optimizer, const std::vector<std::string>& names) {
  data::NamedTensors out;
  for (std::size_t i = 0; i < names.size(); ++i)
    for (const auto& [what, tensor] : optimizer.state(i)) out.emplace_back(names[i] + "." + what, tensor);
  return out;
}

void load_optimizer_tensors(optim::Optimizer& optimizer, const std::vector<std::string>& names,
                            const data::NamedTensors& tensors, const std::string& source) {
  std::map<std::string, Tensor> given(tensors.begin(), tensors.end());
  std::vector<std::pair<Tensor, Tensor>> pairs;
  for (auto& [name, to] : optimizer_tensors(optimizer, names)) {
    const auto found = given.find(name);
    if (found == given.end()) throw FileError(fmt::format("{}: no optimiser state '{}'", source, name));
    const Tensor& from = found->second;
    if (from.dtype() != to.dtype() || !(from.shape() == to.shape()))
      throw FileError(fmt::format("{}: optimiser state '{}' is {} {}, the optimiser has {} {}", source, name,
                                  name_of(from.dtype()), from.shape().str(), name_of(to.dtype()), to.shape().str()));
    pairs.emplace_back(to, from);
    given.erase(found);
  }
  if (!given.empty()) throw FileError(fmt::format("{}: unexpected optimiser state '{}'", source, given.begin()->first));
  for (auto& [to, from] : pairs) to.copy_from(from);
}

} // namespace eg::permute
