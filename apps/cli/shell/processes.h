#pragma once
// Opens the processes that a launcher of MPI started, and ends them together.

#include "apps/cli/shell/verb.h"

#include "distributed/communicator.h"
#include "distributed/launch.h"

#include <memory>
#include <optional>
#include <string_view>

namespace eg::cli {

/// The processes of one command. One that no launcher started stands alone. The first process speaks: others print
/// errors alone, with their names, and write no result.
class Processes {
public:
  /// Reads what the launcher says. Throws ValueError.
  Processes();

  /// Some other process speaks and writes.
  bool silent() const { return launch_ && launch_->rank > 0; }
  /// Starts MPI where a launcher started several processes, or one that runs a verb that spreads. Leaves `common` as
  /// this process needs it; sets the number of threads. Throws UsageError for a verb that one process does, ValueError,
  /// DistributedError.
  void open(const Verb& verb, CommonOptions& common);
  /// One line for people on stderr. What all processes say is said by the first alone: another waits until the first
  /// has ended it, if it is about to.
  int complain(std::string_view message, int code);
  /// Ends a command that went well, or that all processes stopped together: waits for them.
  void finish(int code);
  /// Ends all processes after an error.
  void end(int code);

private:
  void start();
  void give_up_start(double seconds);
  void give_up_end(double seconds, int code);
  void start_to_end() noexcept;
  void end_without_mpi();
  std::optional<distributed::Launch> launch_;
  bool started_ = false; ///< or tried to
  std::unique_ptr<distributed::Communicator> opened_;
};

} // namespace eg::cli
