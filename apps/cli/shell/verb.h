#pragma once
// Defines a verb of the program: a file verb_NAME.cpp that declares its options and returns its job.

#include "apps/cli/shell/command_files.h"

#include "core/base/error.h"

#include <CLI/CLI.hpp>
#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace eg::distributed {
class Communicator;
} // namespace eg::distributed

namespace eg::cli {

/// Exit codes that scripts rely on.
enum ExitCode : int { done = 0, check_failed = 1, bad_input = 2, interrupted = 130 };

/// Options that every verb has.
struct CommonOptions {
  std::string json; ///< file for the result, "-" for stdout, empty for none
  int threads = 0;  ///< 0: EQUIGRAD_THREADS, else affinity and cgroup quota
  std::uint64_t seed = 0;
  bool quiet = false;
  distributed::Communicator* processes = nullptr; ///< that a launcher of MPI started; null for this one alone
  std::string profile;                            ///< file for a trace of what the job computes, empty for none
  /// The command line from the verb on: for verbs whose options depend on one of its words.
  std::vector<std::string> words;
  /// What the command reads and writes. Every option that names a path is declared there.
  std::shared_ptr<CommandFiles> files = std::make_shared<CommandFiles>();

  /// Something a person reads goes to stdout: neither quiet nor is the result there.
  bool talks() const { return !quiet && json != "-"; }
};

/// A mistake on the command line: what is said ends with where to read about the verb.
class UsageError : public ValueError {
public:
  using ValueError::ValueError;
};

/// What a verb's options leave to be done; returns an ExitCode. Library errors may pass through it.
using Job = std::function<int()>;

/// Adds the verb's options to `app` (they bind to values that the job owns) and returns the job.
using Declare = Job (*)(CLI::App& app, const CommonOptions& common);

/// A line of the table of verbs.
struct Verb {
  const char* name;
  std::string (*topic)(const std::vector<std::string>& words); ///< what to ask --help with; null: the name
  const char* about;
  Declare declare;
  bool computes = false; ///< what it does can be profiled
  /// What processes that mpirun started do: "share its rows". Null: one process does it.
  const char* spreads = nullptr;
  /// The words behind the verb that its options depend on; null: they depend on none.
  const std::vector<std::string>& (*parts)() = nullptr;
};

/// Writes the result where --json says. Throws FileError when the file cannot be written.
void write_json(const CommonOptions& common, const nlohmann::json& result);

Job declare_doctor(CLI::App& app, const CommonOptions& common);
Job declare_verify(CLI::App& app, const CommonOptions& common);
Job declare_train(CLI::App& app, const CommonOptions& common);
Job declare_explore(CLI::App& app, const CommonOptions& common);
Job declare_keygen(CLI::App& app, const CommonOptions& common);
Job declare_permute(CLI::App& app, const CommonOptions& common);
Job declare_symmetries(CLI::App& app, const CommonOptions& common);
Job declare_bench(CLI::App& app, const CommonOptions& common);
Job declare_inspect(CLI::App& app, const CommonOptions& common);
Job declare_generate(CLI::App& app, const CommonOptions& common);
Job declare_infer(CLI::App& app, const CommonOptions& common);
Job declare_tokenize(CLI::App& app, const CommonOptions& common);
Job declare_download(CLI::App& app, const CommonOptions& common);
Job declare_reproduce(CLI::App& app, const CommonOptions& common);
Job declare_report(CLI::App& app, const CommonOptions& common);
Job declare_attack(CLI::App& app, const CommonOptions& common);
Job declare_run(CLI::App& app, const CommonOptions& common);
// Where the build has asio and OpenSSL (EQUIGRAD_NET):
Job declare_cloud(CLI::App& app, const CommonOptions& common);
Job declare_edge(CLI::App& app, const CommonOptions& common);
/// Models that `edge` trains.
const std::vector<std::string>& edge_models();
Job declare_certs(CLI::App& app, const CommonOptions& common);
Job declare_stip(CLI::App& app, const CommonOptions& common);

} // namespace eg::cli
