#pragma once
// Locks a run folder for one process at a time.

#include <string>
#include <vector>

namespace eg::training {

/// An exclusive lock on a run folder, held while this lives: flock(2) on FOLDER/run.lock, so that the kernel releases
/// it whatever becomes of the process. The folder is made when it is missing; the lock file goes with the lock, and so
/// do the folders that were made for it when nothing else is in them.
class RunLock {
public:
  /// Throws FileError when another process (or another lock of this one) holds it, and when the folder cannot be made
  /// or written, or holds a pipe, socket or device (itself or in checkpoints/), which a read or write could wait for.
  explicit RunLock(const std::string& folder);
  ~RunLock();
  RunLock(const RunLock&) = delete;
  RunLock& operator=(const RunLock&) = delete;

private:
  void take(const std::string& folder);

  std::string path_;
  std::vector<std::string> made_; ///< folders that did not exist, outermost first
  int descriptor_ = -1;
};

/// Whether someone holds the lock of that folder now. Nothing is made or written.
bool run_is_locked(const std::string& folder);

} // namespace eg::training
