#pragma once
// Describes the MPI that the program can use, and the processes that a launcher started.

#include "apps/cli/shell/verb.h"

#include <string>
#include <utility>
#include <vector>

namespace eg::cli {

/// One of the processes as `doctor` shows it.
struct ProcessLine {
  int rank = 0;
  std::string host;
  std::int64_t pid = 0;
  int threads = 1;
  std::string affinity; ///< processors that it may use: "0-3,8"
  int processors = 1;   ///< their number
  int online = 1;       ///< processors of its host
  int sharing = 1;      ///< processes on its host that may use the same ones, itself too

  /// Some processors of its host are closed to it.
  bool bound() const { return processors < online; }
};

/// Every process of the run, asked by all of them.
std::vector<ProcessLine> process_lines(const CommonOptions& common);

/// Modules and, under a launcher, the processes: lines as doctor_lines() has them.
std::vector<std::pair<std::string, std::string>> mpi_lines(const CommonOptions& common,
                                                           const std::vector<ProcessLine>& processes);
/// {"modules": [{"file", "path", "version", "error"}], "launcher", "library"}; null where there is none.
nlohmann::json mpi_json(const CommonOptions& common);
/// [{"rank", "host", "pid", "threads", "affinity", "processors", "host_processors", "sharing", "bound"}]
nlohmann::json processes_json(const std::vector<ProcessLine>& processes);

} // namespace eg::cli
