#pragma once
// Reads and writes state.json of a checkpoint, and verifies the files that it lists.

#include "core/base/error.h"

#include <nlohmann/json_fwd.hpp>

#include <string>
#include <vector>

namespace eg::training {

/// A checkpoint with a file that is missing, torn or not the one that was written. An older one may be whole.
class DamagedCheckpoint : public FileError {
public:
  using FileError::FileError;
};

/// The version of state.json that this program writes and reads.
inline constexpr int checkpoint_version = 1;

/// Size and checksum of every file in `folder`: {"NAME": {"bytes": 123, "blake2b": "<64 hex digits>"}, ...}, the
/// checksum being BLAKE2b-256. Throws FileError.
nlohmann::ordered_json file_records(const std::string& folder);

/// state.json of a checkpoint, its fields checked for presence and kind (format, version, step, options, files,
/// key_fingerprint). Throws DamagedCheckpoint; FileError when the system refuses to read it, or a newer equigrad wrote
/// it.
nlohmann::json read_checkpoint_state(const std::string& checkpoint);

/// Of the newest checkpoint that `folder` stands for (find_checkpoints) and whose state is sound; null when none is.
/// Throws FileError.
nlohmann::json newest_state(const std::string& folder);

/// Compares the recorded size and checksum of every file, and that those called `needed` are recorded. Throws as
/// read_checkpoint_state, with the file's name.
void verify_checkpoint_files(const std::string& checkpoint, const nlohmann::json& state,
                             const std::vector<std::string>& needed = {});

/// Fingerprints of what a run reads: before it is resumed, files may move but not change. "" where there is no such
/// thing.
struct DataFingerprint {
  std::string train, test;    ///< what it learns from and what it is tested on
  std::string tokenizer = {}; ///< the one that the options name, or that comes with a model
  std::string pixels = {};    ///< how images are normalised
  std::string teacher = {};
};

/// Adds them to a checkpoint's state, as "data", "test_data", "tokenizer", "pixels" and "teacher".
void remember_sources(nlohmann::ordered_json& state, const DataFingerprint& print);
/// Throws ValueError when a checkpoint's state remembers another print than `now`. One that remembers none is of an
/// equigrad that did not.
void require_same_sources(const nlohmann::json& state, const std::string& checkpoint, const DataFingerprint& now);

} // namespace eg::training
