#include "training/checkpoint_state.h"

#include "core/base/bytes.h"
#include "core/base/json.h"
#include "permute/digest.h"
#include "training/checkpoint.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>

namespace eg::training {
namespace {

/// An open regular file. Throws DamagedCheckpoint when what is there is no such file, FileError when the system refuses
/// for a reason that says nothing about the file (no permission, too many open files, ...).
class CheckpointFile {
public:
  explicit CheckpointFile(const std::string& path)
      : path_(path), descriptor_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
    if (descriptor_ < 0) fail("cannot open", errno);
  }
  ~CheckpointFile() { ::close(descriptor_); }
  CheckpointFile(const CheckpointFile&) = delete;
  CheckpointFile& operator=(const CheckpointFile&) = delete;

  std::uint64_t size() const {
    struct stat info {};
    if (::fstat(descriptor_, &info) != 0) fail("cannot read", errno);
    if (!S_ISREG(info.st_mode)) throw DamagedCheckpoint(path_ + ": not a regular file");
    return static_cast<std::uint64_t>(info.st_size);
  }
  /// Bytes read, 0 at the end.
  std::size_t read(unsigned char* to, std::size_t most) const {
    for (;;) {
      const ssize_t got = ::read(descriptor_, to, most);
      if (got >= 0) return static_cast<std::size_t>(got);
      if (errno != EINTR) fail("cannot read", errno);
    }
  }

private:
  [[noreturn]] void fail(const char* what, int code) const {
    const std::string text = fmt::format("{}: {}: {}", path_, what, std::strerror(code));
    constexpr std::array damage = {ENOENT, ENOTDIR, ELOOP, EIO, EISDIR, ENXIO};
    if (std::find(damage.begin(), damage.end(), code) != damage.end()) throw DamagedCheckpoint(text);
    throw FileError(text);
  }

  std::string path_;
  int descriptor_;
};

/// BLAKE2b-256 in hexadecimal digits.
std::string checksum(const CheckpointFile& file) {
  permute::Digest digest("checkpoint");
  std::vector<unsigned char> block(std::size_t{1} << 20);
  for (std::size_t got = 0; (got = file.read(block.data(), block.size())) > 0;) digest.add({block.data(), got});
  return permute::hexadecimal(digest.finish());
}

bool is_text(const nlohmann::json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string();
}

bool is_count(const nlohmann::json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_number_unsigned() && found->get<std::uint64_t>() <= std::uint64_t{1} << 53;
}

bool are_records(const nlohmann::json& files) {
  if (!files.is_object()) return false;
  for (const auto& [name, record] : files.items())
    if (name.find('/') != std::string::npos || !record.is_object() || !is_count(record, "bytes") ||
        !is_text(record, "blake2b"))
      return false;
  return true;
}

/// Whether a text is the line of metrics of a training step.
bool is_metrics_line(const std::string& text, const nlohmann::json& step) {
  const nlohmann::json line = nlohmann::json::parse(text, nullptr, false);
  return line.is_object() && is_text(line, "split") && line["split"] == "train" && is_count(line, "step") &&
         line["step"] == step;
}

/// Throws FileError for a version above ours. Anything else that is wrong with the state is for the caller to see.
void refuse_newer(const nlohmann::json& state, const std::string& path) {
  if (!state.is_object() || !is_text(state, "format") || state["format"] != "equigrad-checkpoint") return;
  if (!is_count(state, "version") || state["version"].get<std::uint64_t>() <= checkpoint_version) return;
  throw FileError(fmt::format("{}: written by a newer equigrad: checkpoint version {}, this program reads version {}",
                              path, state["version"].get<std::uint64_t>(), checkpoint_version));
}

struct Source {
  const char* key;  ///< in state.json
  const char* made; ///< what a checkpoint was that remembers another one
  std::string DataFingerprint::*print;
};
/// In the order in which they are compared: another tokenizer makes other data.
constexpr Source sources[] = {{"tokenizer", "made with another tokenizer", &DataFingerprint::tokenizer},
                              {"data", "made from other data", &DataFingerprint::train},
                              {"test_data", "tested on other data", &DataFingerprint::test},
                              {"pixels", "made with images normalised in another way", &DataFingerprint::pixels},
                              {"teacher", "made with another teacher", &DataFingerprint::teacher}};

bool is_sound(const nlohmann::json& state) {
  return state.is_object() && is_text(state, "format") && state["format"] == "equigrad-checkpoint" &&
         is_count(state, "version") && state["version"] == checkpoint_version && is_count(state, "step") &&
         state.contains("options") && state["options"].is_object() && state.contains("files") &&
         are_records(state["files"]) && (!state.contains("key_fingerprint") || is_text(state, "key_fingerprint")) &&
         std::all_of(std::begin(sources), std::end(sources),
                     [&](const Source& s) { return !state.contains(s.key) || is_text(state, s.key); }) &&
         (!state.contains("unwritten") ||
          (is_text(state, "unwritten") && is_metrics_line(state["unwritten"].get<std::string>(), state["step"])));
}

} // namespace

nlohmann::ordered_json file_records(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code code;
  for (std::filesystem::directory_iterator it(folder, code), end; !code && it != end; it.increment(code))
    names.push_back(it->path().filename().string());
  if (code) throw FileError(fmt::format("{}: cannot list the folder: {}", folder, code.message()));
  std::sort(names.begin(), names.end());
  nlohmann::ordered_json records = nlohmann::ordered_json::object();
  for (const std::string& name : names) {
    const CheckpointFile file(join_path(folder, name));
    records[name] = {{"bytes", file.size()}, {"blake2b", checksum(file)}};
  }
  return records;
}

nlohmann::json read_checkpoint_state(const std::string& checkpoint) {
  const std::string path = join_path(checkpoint, "state.json");
  static_cast<void>(CheckpointFile(path).size()); // tells what the system refuses from what is damaged
  nlohmann::json state;
  try {
    state = read_json(path);
  } catch (const FileError& e) {
    throw DamagedCheckpoint(e.what());
  }
  refuse_newer(state, path);
  if (!is_sound(state))
    throw DamagedCheckpoint(
        fmt::format("{}: not the state of an equigrad checkpoint of version {}", path, checkpoint_version));
  const std::string folder = std::filesystem::path(checkpoint).filename().string();
  const std::string named = fmt::format("step-{:08}", state["step"].get<std::uint64_t>());
  if (folder.starts_with("step-") && folder != named)
    throw DamagedCheckpoint(
        fmt::format("{}: says step {}, but lies in {}", path, state["step"].get<std::uint64_t>(), folder));
  return state;
}

nlohmann::json newest_state(const std::string& folder) {
  for (const std::string& checkpoint : find_checkpoints(folder)) try {
      return read_checkpoint_state(checkpoint);
    } catch (const DamagedCheckpoint&) {
      continue;
    }
  return {};
}

void verify_checkpoint_files(const std::string& checkpoint, const nlohmann::json& state,
                             const std::vector<std::string>& needed) {
  for (const std::string& name : needed)
    if (!state.at("files").contains(name))
      throw DamagedCheckpoint(fmt::format("{}: does not record '{}'", join_path(checkpoint, "state.json"), name));
  for (const auto& [name, record] : state.at("files").items()) {
    const std::string path = join_path(checkpoint, name);
    const CheckpointFile file(path);
    const auto bytes = record.at("bytes").get<std::uint64_t>();
    if (file.size() != bytes)
      throw DamagedCheckpoint(fmt::format("{}: {} bytes, but {} were written", path, file.size(), bytes));
    if (checksum(file) != record.at("blake2b").get<std::string>())
      throw DamagedCheckpoint(path + ": not the file that was written: its checksum is another one");
  }
}

void remember_sources(nlohmann::ordered_json& state, const DataFingerprint& print) {
  for (const Source& s : sources)
    if (!(print.*s.print).empty()) state[s.key] = print.*s.print;
}

void require_same_sources(const nlohmann::json& state, const std::string& checkpoint, const DataFingerprint& now) {
  for (const Source& s : sources)
    if (const std::string then = state.value(s.key, now.*s.print); then != now.*s.print)
      throw ValueError(fmt::format("train: {} was {}: {}; now {}", checkpoint, s.made, then, now.*s.print));
}

} // namespace eg::training
