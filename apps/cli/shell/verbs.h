#pragma once
// Declares the verbs of a program with their options, and describes them as text and as JSON.

#include "apps/cli/shell/verb.h"

#include <CLI/CLI.hpp>
#include <nlohmann/json_fwd.hpp>

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace eg::cli {

/// The verbs of this program, in the order of its help. Each program defines its own (apps/cli/programs).
std::span<const Verb> verbs();

/// The parser of one command line, with every verb declared. apps[n] and jobs[n] belong to verbs()[n].
struct Program {
  /// `words`: the command line from the verb on.
  explicit Program(const std::vector<std::string>& words);
  Program(const Program&) = delete; // the jobs refer to `common`
  Program& operator=(const Program&) = delete;

  CommonOptions common;
  CLI::App app{"Deep learning that commutes with permutations.", "equigrad"};
  std::vector<CLI::App*> apps;
  std::vector<Job> jobs;
};

/// "doctor, run, ...", for messages.
std::string verb_names();
/// Index of a verb in verbs(). Throws UsageError that names the nearest verb when there is none of that name.
std::size_t verb_named(const std::string& name);
/// The words before --help that describe a command best: "train vit".
std::string topic_of(std::size_t verb, const std::vector<std::string>& words);

/// All commands with their options, for other programs to read: {"version", "commands": [{"command": "train vit",
/// "about", "options": [{"name", "kind": "word"|"flag"|"value", "required", "about", "type", "default", "file"}]}]}.
/// "file", of an option that names one: name_of(FileRole).
nlohmann::ordered_json commands_json();

} // namespace eg::cli
