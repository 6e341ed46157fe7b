#pragma once
// Lists public data sets: their addresses, their checksums, and where `--data NAME` looks for them.

#include "apps/fetch/download.h"
#include "core/base/interrupt.h"

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace eg::fetch {

/// One file of a set.
struct SetFile {
  const char* name;
  const char* url; ///< prefix: the file's address is this and its name
  const char* sha256;
  std::int64_t bytes;
};

struct PublicSet {
  const char* name;
  const char* about;
  const char* folder; ///< below the data folder
  std::span<const SetFile> files;
  /// Makes of a file that has come, an archive, what is read: into `folder`; null: it is read as it is.
  void (*unpack)(const std::string& archive, const std::string& folder) = nullptr;
};

/// All sets.
std::span<const PublicSet> public_sets();
/// Throws ValueError with the nearest name.
const PublicSet& public_set(const std::string& name);

/// Progress: file by file, bytes of the whole set.
using SetProgress = std::function<void(std::int64_t done, std::int64_t total, const std::string& file)>;

/// Downloads a set into `data_dir`, unpacking what is packed; existing files stay. `mirror`: another place for
/// the same files, "" for the set's own. Returns the folder. Throws what download() throws.
std::string fetch_set(const PublicSet& set, const std::string& data_dir, const std::string& mirror, StopFlag stop,
                      const SetProgress& on_progress = {});

} // namespace eg::fetch
