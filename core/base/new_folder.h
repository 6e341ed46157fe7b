#pragma once
// Creates folders that appear under their name complete or not at all.

#include "core/base/file_descriptor.h"

#include <optional>
#include <string>

namespace eg {

/// A folder that is filled as NAME.tmp-PID-N/equigrad-unfinished beside its final place, and renamed by keep(). Without
/// keep() it goes with all that it holds. What processes that were killed have left of the same NAME goes first: the
/// lock on a temporary folder, flock(2), ends with its process. A folder of such a name without the one of the inner
/// name stays as it is. Throws FileError when something has the final name already, or the system refuses.
class NewFolder {
public:
  explicit NewFolder(std::string path);
  ~NewFolder();
  NewFolder(const NewFolder&) = delete;
  NewFolder& operator=(const NewFolder&) = delete;

  /// Where a file of that name is to be written.
  std::string file(const std::string& name) const;
  /// Makes a folder inside.
  std::string make_folder(const std::string& name) const;
  void keep();

private:
  std::string path_, temporary_;
  std::optional<FileDescriptor> lock_;
  bool kept_ = false;
};

} // namespace eg
