#include "training/checkpoint.h"

#include "core/base/bytes.h"
#include "core/base/error.h"
#include "training/checkpoint_state.h"
#include "training/event_files.h"

#include <nlohmann/json.hpp>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <span>
#include <string_view>
#include <system_error>

namespace eg::training {
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

std::string checkpoints_of(const std::string& run_folder) { return join_path(run_folder, "checkpoints"); }

std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code code;
  for (fs::directory_iterator it(folder, code), end; !code && it != end; it.increment(code))
    names.push_back(it->path().filename().string());
  if (code && code != std::errc::no_such_file_or_directory) fail(folder, "cannot list the folder", code);
  return names;
}

/// Whether something is at `path`. Throws FileError when the system does not say (no permission, a loop of links):
/// taking that for a no would pass over what is there.
bool is_there(const std::string& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) == 0) return true;
  if (errno != ENOENT && errno != ENOTDIR) fail(path, "cannot look at it", {errno, std::generic_category()});
  return false;
}

bool is_complete(const std::string& checkpoint) { return is_there(join_path(checkpoint, "state.json")); }

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

/// What a process that was killed while writing leaves: .step-N.tmp-PID and .step-N.tmp-PID.old in `checkpoints`,
/// NAME.tmp-PID-COUNT beside the file NAME.
bool is_leftover(std::string_view name) {
  const std::size_t at = name.rfind(".tmp-");
  if (at == std::string_view::npos || at == 0) return false;
  const bool folder = name.starts_with(".step-");
  std::string_view numbers = name.substr(at + 5);
  if (folder && numbers.ends_with(".old")) numbers.remove_suffix(4);
  if (folder) return number_of(numbers) > 0;
  const std::size_t dash = numbers.find('-');
  return dash != std::string_view::npos && number_of(numbers.substr(0, dash)) > 0 &&
         number_of(numbers.substr(dash + 1)) >= 0;
}

constexpr std::array run_files = {"config.json",
                                  "metrics.jsonl",
                                  "metrics.csv",
                                  "table.json",
                                  "complete.json",
                                  "permuted_blocks.json",
                                  "model.safetensors",
                                  "model_none.safetensors",
                                  "model_rows.safetensors",
                                  "model_columns.safetensors",
                                  "model_both.safetensors",
                                  "model_ema.safetensors",
                                  "model_ema_none.safetensors",
                                  "model_ema_rows.safetensors",
                                  "model_ema_columns.safetensors",
                                  "model_ema_both.safetensors"};

/// What a run writes into each of the folders RUN/model, RUN/model-ema and those of a plain twin.
constexpr std::array model_files = {"config.json",
                                    "model.safetensors",
                                    "tokenizer.json",
                                    "vocab.txt",
                                    "vocab.json",
                                    "merges.txt",
                                    "added_tokens.json",
                                    "tokenizer_config.json",
                                    "special_tokens_map.json",
                                    "preprocessor_config.json",
                                    "generation_config.json",
                                    "permuted_blocks.json"};

constexpr std::array model_folders = {"model", "model-ema", "model-none", "model-none-ema"};

std::vector<std::string> models_of(const std::string& run_folder) {
  std::vector<std::string> folders;
  for (const char* name : model_folders) folders.push_back(join_path(run_folder, name));
  return folders;
}

/// Whether `name` is a leftover of one of these files.
bool is_leftover_of(std::span<const char* const> files, const std::string& name) {
  return is_leftover(name) && std::any_of(files.begin(), files.end(), [&](const char* file) {
           return name.starts_with(std::string(file) + ".tmp-");
         });
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

CheckpointWriter::CheckpointWriter(const std::string& run_folder, std::int64_t step, std::optional<std::int64_t> best)
    : root_(checkpoints_of(run_folder)), name_(checkpoint_name(step)),
      temporary_(join_path(root_, fmt::format(".{}.tmp-{}", name_, ::getpid()))), best_(best) {
  make_folder(root_);
  remove_tree(temporary_);
  make_folder(temporary_);
}

CheckpointWriter::~CheckpointWriter() {
  if (committed_) return;
  std::error_code ignored;
  fs::remove_all(temporary_, ignored);
}

nlohmann::ordered_json CheckpointWriter::files() const { return file_records(temporary_); }

std::string CheckpointWriter::path(const std::string& file) const { return join_path(temporary_, file); }

std::string CheckpointWriter::commit() {
  const std::string final_path = join_path(root_, name_);
  flush_folder(temporary_);
  // A folder cannot replace one that has files in it: an older checkpoint of this step changes places with the new one,
  // or, on file systems that cannot do that, steps aside first.
  const std::string aside = temporary_ + ".old";
  remove_tree(aside);
  const bool again = folder_exists(final_path);
  if (!again || !swap_folders(temporary_, final_path)) {
    if (again) rename_folder(final_path, aside);
    rename_folder(temporary_, final_path);
  }
  committed_ = true;
  flush_folder(root_);
  write_file(join_path(root_, "latest"), std::string_view(name_ + "\n"));
  remove_tree(temporary_);
  remove_tree(aside);
  return final_path;
}

std::vector<std::int64_t> checkpoint_steps(const std::string& run_folder) {
  const std::string root = checkpoints_of(run_folder);
  std::vector<std::int64_t> steps = named_steps(root);
  std::erase_if(steps, [&](std::int64_t step) { return !is_complete(join_path(root, checkpoint_name(step))); });
  return steps;
}

namespace {

std::string why_no_checkpoint(const std::string& folder) {
  const fs::path path = fs::path(folder).lexically_normal();
  const fs::path above = (path.has_filename() ? path : path.parent_path()).parent_path();
  if (!above.empty() && holds_run(above.string()))
    return fmt::format("is inside a run folder but is not a checkpoint; give the run folder: {}",
                       shell_word(above.string()));
  if (is_there(join_path(folder, "metrics.jsonl")))
    return "a run without a checkpoint, which it has not yet made, or ended before; its command can be given again";
  return "neither a checkpoint (state.json) nor a run with one (checkpoints/step-*)";
}

} // namespace

std::vector<std::string> find_checkpoints(const std::string& folder) {
  if (!is_there(folder)) throw FileError(folder + ": no such folder");
  if (is_complete(folder)) return {folder};
  if (!folder_exists(folder) || checkpoint_steps(folder).empty())
    throw FileError(fmt::format("{}: {}", folder, why_no_checkpoint(folder)));
  // One without its state.json, which is written before the folder gets its name, has been damaged since.
  const std::string root = checkpoints_of(folder);
  std::vector<std::string> found;
  for (const std::int64_t step : named_steps(root)) found.push_back(join_path(root, checkpoint_name(step)));
  std::reverse(found.begin(), found.end());
  return found;
}

namespace {

enum class Condition { good, damaged, unknown };

Condition condition_of(const std::string& checkpoint) {
  try {
    verify_checkpoint_files(checkpoint, read_checkpoint_state(checkpoint));
    return Condition::good;
  } catch (const DamagedCheckpoint&) {
    return Condition::damaged;
  } catch (const FileError&) {
    return Condition::unknown; // unreadable to us, or a newer equigrad's
  }
}

} // namespace

void prune_checkpoints(const std::string& run_folder, std::int64_t step, std::size_t keep,
                       std::optional<std::int64_t> best) {
  const std::string root = checkpoints_of(run_folder);
  const std::vector<std::int64_t> steps = named_steps(root);
  std::size_t kept = 0;
  for (auto at = steps.rbegin(); at != steps.rend(); ++at) {
    const std::string folder = join_path(root, checkpoint_name(*at));
    if (*at == best) {
      if (kept < keep && condition_of(folder) == Condition::good) ++kept;
      continue;
    }
    const Condition condition = *at <= step && kept < keep ? condition_of(folder) : Condition::damaged;
    if (condition == Condition::good) ++kept;
    if (condition == Condition::damaged) remove_tree(folder);
  }
}

namespace {

/// Also one that a person has given another name.
bool holds_checkpoint(const std::string& folder) {
  const std::string root = checkpoints_of(folder);
  const std::vector<std::string> names = names_in(root);
  return std::any_of(names.begin(), names.end(),
                     [&](const std::string& name) { return !is_leftover(name) && is_complete(join_path(root, name)); });
}

} // namespace

bool holds_results(const std::string& folder) {
  return holds_checkpoint(folder) ||
         std::ranges::any_of(models_of(folder),
                             [](const std::string& model) { return is_there(join_path(model, "config.json")); }) ||
         std::any_of(run_files.begin(), run_files.end(), [&](std::string_view name) {
           return name.starts_with("model") && is_there(join_path(folder, name));
         });
}

bool holds_run(const std::string& folder) {
  return is_there(join_path(folder, "metrics.jsonl")) || holds_results(folder);
}

std::vector<std::string> files_of_run(const std::string& folder) {
  std::vector<std::string> files;
  for (const char* name : run_files) files.push_back(join_path(folder, name));
  for (const std::string& model : models_of(folder)) files.push_back(model);
  files.push_back(checkpoints_of(folder));
  return files;
}

std::string foreign_file(const std::string& folder) {
  if (holds_run(folder)) return {};
  for (const char* name : run_files) {
    const std::string path = join_path(folder, name);
    if (!is_there(path)) continue;
    if (name != std::string_view("config.json")) return path;
    // A run that was killed before its first step leaves its options.
    const nlohmann::json config = nlohmann::json::parse(std::ifstream(path), nullptr, false);
    if (!config.is_object() || !config.contains("optimizer") || !config.contains("steps")) return path;
  }
  return {};
}

void clear_run(const std::string& folder) {
  remove_tree(checkpoints_of(folder));
  for (const char* name : run_files)
    if (name != std::string_view("config.json")) remove_tree(join_path(folder, name));
  for (const std::string& name : names_in(folder))
    if (is_event_file(name)) remove_tree(join_path(folder, name));
  for (const std::string& model : models_of(folder)) {
    for (const char* name : model_files) remove_tree(join_path(model, name));
    std::error_code not_empty; // what a person has put there stays
    fs::remove(model, not_empty);
  }
}

void remove_leftovers_of(const std::string& path) {
  const fs::path file = path;
  const std::string folder = file.has_parent_path() ? file.parent_path().string() : ".";
  for (const std::string& name : names_in(folder))
    if (is_leftover(name) && name.starts_with(file.filename().string() + ".tmp-")) remove_tree(join_path(folder, name));
}

void remove_leftovers(const std::string& folder) {
  for (const std::string& name : names_in(folder))
    if (is_leftover_of(run_files, name)) remove_tree(join_path(folder, name));
  for (const std::string& model : models_of(folder))
    for (const std::string& name : names_in(model))
      if (is_leftover_of(model_files, name)) remove_tree(join_path(model, name));
  const std::string root = checkpoints_of(folder);
  for (const std::string& name : names_in(root))
    if (is_leftover(name)) remove_tree(join_path(root, name));
}

data::NamedTensors optimizer_tensors(const optim::Optimizer& optimizer, const std::vector<std::string>& names) {
  data::NamedTensors out;
  for (std::size_t i = 0; i < names.size(); ++i)
    for (const auto& [what, tensor] : optimizer.state(i)) out.emplace_back(names[i] + "." + what, tensor);
  return out;
}

namespace {

/// Copies tensors of these names into `into`: each there once, of the same shape and type. Throws FileError beginning
/// with `source`; nothing is changed then. `what`: what they are called.
void copy_named(const data::NamedTensors& into, const data::NamedTensors& tensors, const std::string& source,
                const char* what, const char* whose) {
  std::map<std::string, Tensor> given(tensors.begin(), tensors.end());
  std::vector<std::pair<Tensor, Tensor>> pairs;
  for (const auto& [name, to] : into) {
    const auto found = given.find(name);
    if (found == given.end()) throw FileError(fmt::format("{}: no {} '{}'", source, what, name));
    const Tensor& from = found->second;
    if (from.dtype() != to.dtype() || !(from.shape() == to.shape()))
      throw FileError(fmt::format("{}: {} '{}' is {} {}, {} has {} {}", source, what, name, name_of(from.dtype()),
                                  from.shape().str(), whose, name_of(to.dtype()), to.shape().str()));
    pairs.emplace_back(to, from);
    given.erase(found);
  }
  if (!given.empty()) throw FileError(fmt::format("{}: unexpected {} '{}'", source, what, given.begin()->first));
  const PauseRecording pause;
  for (auto& [to, from] : pairs) to.copy_from(from);
}

} // namespace

void load_optimizer(optim::Optimizer& optimizer, const std::vector<std::string>& names, const std::string& path) {
  copy_named(optimizer_tensors(optimizer, names), data::load_safetensors(path).tensors, path, "optimiser state",
             "the optimiser");
}

data::NamedTensors average_tensors(const optim::WeightAverage& average, const std::vector<std::string>& names) {
  data::NamedTensors out;
  for (std::size_t i = 0; i < names.size(); ++i) out.emplace_back(names[i], average.values()[i]);
  return out;
}

void load_average(optim::WeightAverage& average, const std::vector<std::string>& names, const std::string& path) {
  copy_named(average_tensors(average, names), data::load_safetensors(path).tensors, path, "average", "the model");
}

void load_model(nn::Module& model, const std::string& path) {
  try {
    model.load_state_dict(data::load_safetensors(path).tensors);
  } catch (const FileError&) {
    throw;
  } catch (const Error& e) {
    throw FileError(fmt::format("{}: {}", path, e.what()));
  }
}

} // namespace eg::training
