#pragma once
// Runs the program on several processes, by each launcher of MPI that this machine has.

#include "support/temporary_folder.h"

#include <chrono>
#include <string>
#include <utility>
#include <vector>

namespace eg::test {

/// A launcher for whose MPI the build made a module.
struct Launcher {
  std::string name;               ///< "openmpi", "mpich"
  std::vector<std::string> words; ///< before the number of processes
};
/// In the order of their names; at least one, or the build has no such tests.
const std::vector<Launcher>& launchers();

/// How a launched program ended.
struct Launched {
  int code = -1;          ///< exit code of the launcher, or 128 + signal
  std::string out, err;   ///< of all processes
  bool timed_out = false; ///< it was killed
  double seconds = 0.0;
};

struct LaunchOptions {
  std::string folder = ".";
  std::vector<std::pair<std::string, std::string>> variables = {};
  std::chrono::seconds timeout{300};
  /// Started instead of the program.
  std::string program = {};
};

/// A launched program that runs while the test goes on.
class LaunchedProgram {
public:
  /// `launcher` null: without any, one process.
  LaunchedProgram(const Launcher* launcher, int processes, const std::vector<std::string>& args,
                  const LaunchOptions& options = {});
  ~LaunchedProgram();
  LaunchedProgram(const LaunchedProgram&) = delete;
  LaunchedProgram& operator=(const LaunchedProgram&) = delete;

  /// To the launcher, or to the program that none started.
  void signal(int number) const;
  /// The processes that the launcher started, by /proc; fewer while they start.
  std::vector<int> processes() const;
  /// What was printed so far.
  std::string out() const;
  std::string err() const;
  bool running() const;
  /// Kills all of it after the timeout.
  Launched wait();

private:
  int pid_ = -1;
  bool waited_ = false;
  std::string program_;
  std::chrono::seconds timeout_;
  std::chrono::steady_clock::time_point start_;
  TemporaryFolder streams_;
};

/// Runs `equigrad ARGS...` and waits.
Launched run_processes(const Launcher* launcher, int processes, const std::vector<std::string>& args,
                       const LaunchOptions& options = {});

} // namespace eg::test
