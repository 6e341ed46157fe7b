#include "permute/checkpoint.h"

#include "core/error.h"
#include "data/bytes.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <map>
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
  // A folder cannot replace one that has files in it, so an older checkpoint of this step steps aside first.
  const std::string aside = temporary_ + ".old";
  remove_tree(aside);
  if (data::folder_exists(final_path)) rename_folder(final_path, aside);
  rename_folder(temporary_, final_path);
  committed_ = true;
  flush_folder(root_);
  data::write_file(data::join_path(root_, "latest"), std::string_view(name_ + "\n"));
  remove_tree(aside);
  return final_path;
}

std::string find_checkpoint(const std::string& folder) {
  if (!data::folder_exists(folder)) throw FileError(folder + ": no such folder");
  if (data::file_exists(data::join_path(folder, "state.json"))) return folder;
  const std::string root = checkpoints_of(folder);
  const std::string pointer = data::join_path(root, "latest");
  if (!data::file_exists(pointer))
    throw FileError(folder + ": neither a checkpoint (state.json) nor a run with one (checkpoints/latest)");
  const data::Bytes bytes = data::read_file(pointer, 4096);
  std::string name(bytes.begin(), bytes.end());
  while (!name.empty() && (name.back() == '\n' || name.back() == '\r')) name.pop_back();
  if (name.empty() || name.find('/') != std::string::npos || name.front() == '.')
    throw FileError(pointer + ": does not name a checkpoint");
  const std::string found = data::join_path(root, name);
  if (!data::file_exists(data::join_path(found, "state.json")))
    throw FileError(fmt::format("{}: names '{}', which is not there or not complete", pointer, name));
  return found;
}

void remove_checkpoint(const std::string& run_folder, std::int64_t step) {
  remove_tree(data::join_path(checkpoints_of(run_folder), checkpoint_name(step)));
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
