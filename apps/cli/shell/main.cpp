// equigrad VERB: parse, call the library, print.

#include "apps/cli/shell/arguments.h"
#include "apps/cli/shell/interrupt.h"
#include "apps/cli/shell/output.h"
#include "apps/cli/shell/processes.h"
#include "apps/cli/shell/profile_output.h"
#include "apps/cli/shell/verbs.h"
#include "core/base/words.h"

#include "core/base/error.h"
#include "core/base/out_of_memory.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <fcntl.h>
#include <filesystem>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unistd.h>
#include <vector>

namespace eg::cli {

namespace {

/// A terminal must not obey what stands in names, and bytes that are not UTF-8 must not stop the result.
template <class Json> std::string in_ascii(const Json& json) {
  return json.dump(2, ' ', true, Json::error_handler_t::replace) + "\n";
}

} // namespace

void write_json(const CommonOptions& common, const nlohmann::json& result) {
  if (common.json.empty()) return;
  const std::string text = in_ascii(result);
  if (common.json == "-") {
    say(text);
    require_output();
    return;
  }
  write_result(common.json, text);
}

namespace {

/// A file opened in the place of a closed stream would receive what is printed. Writing to what stands here fails, so
/// that a lost result is noticed.
void reserve_standard_streams() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (::fcntl(stream, F_GETFD) < 0 && errno == EBADF)
      static_cast<void>(::open("/dev/null", stream == STDIN_FILENO ? O_WRONLY : O_RDONLY));
}

/// The code of a job whose output may have been lost on the way.
int finished(Processes& processes, int code) {
  if (!output_is_lost()) return code;
  return code == done || code == check_failed ? processes.complain(output_trouble(), bad_input) : code;
}

int print_help(const CLI::App& of) {
  say(of.help(of.get_parent() == nullptr ? "" : of.get_parent()->get_name()));
  return done;
}

/// equigrad help [VERB ...], equigrad help --json
int help(const Program& program, const std::vector<std::string>& words) {
  if (words.size() == 2 && words[1] == "--json") {
    say(in_ascii(commands_json()));
    return done;
  }
  return words.size() < 2 ? print_help(program.app) : print_help(*program.apps[verb_named(words[1])]);
}

/// What stands before any verb.
int without_verb(const Program& program, const std::vector<std::string>& words) {
  if (words.empty()) throw UsageError(fmt::format("no verb was given; there are {}", verb_names()));
  if (words[0] == "--help" || words[0] == "-h") return print_help(program.app);
  if (words[0] == "--version") {
    say(fmt::format("equigrad {}\n", EQUIGRAD_VERSION));
    return done;
  }
  const std::vector<std::string> known = {"--help", "--version"};
  throw UsageError(fmt::format("'{}' stands before any verb{}", words[0], did_you_mean(words[0], known)));
}

int run_verb(Program& program, std::size_t i, const std::vector<std::string>& words, Processes& processes) {
  try {
    const auto arguments = std::span(words).subspan(1);
    if (asks_for_help(arguments)) return print_help(*program.apps[i]);
    check_arguments(*program.apps[i], arguments);
    try {
      program.app.parse(std::vector<std::string>(words.rbegin(), words.rend()));
    } catch (const CLI::ParseError& error) {
      throw UsageError(error.what());
    }
    if (program.common.profile == "-") throw UsageError("--profile writes a file; give it a name");
    program.common.files->add_given(*program.apps[i]);
    program.common.files->check();
    require_writable(program.common.json);
    require_writable(program.common.profile);
    processes.open(verbs()[i], program.common);
    return run_profiled(program.jobs[i], program.common);
  } catch (const UsageError& error) {
    return processes.complain(fmt::format("{} (see equigrad {} --help)", error.what(), topic_of(i, words)), bad_input);
  }
}

int parse_and_run(const std::vector<std::string>& words, Processes& processes) {
  Program program(words);
  try {
    if (words.empty() || words[0].starts_with('-')) return without_verb(program, words);
    if (words[0] == "help") return help(program, words);
    const std::size_t verb = verb_named(words[0]);
    return run_verb(program, verb, words, processes);
  } catch (const UsageError& error) {
    return processes.complain(fmt::format("{} (see equigrad --help)", error.what()), bad_input);
  }
}

int complain(std::optional<Processes>& processes, std::string_view message) {
  if (processes) return processes->complain(message, bad_input);
  std::fputs(fmt::format("equigrad: {}\n", printable(message)).c_str(), stderr);
  return bad_input;
}

} // namespace
} // namespace eg::cli

int main(int argc, char** argv) {
  using namespace eg::cli;
  catch_interrupts();
  fail_on_broken_output();
  reserve_standard_streams();
  std::optional<Processes> processes;
  int code = bad_input;
  try {
    processes.emplace();
    code = finished(*processes, parse_and_run({argv + std::min(argc, 1), argv + argc}, *processes));
    processes->finish(code);
    return code;
  } catch (const eg::Interrupted& error) {
    code = processes->complain(error.what(), interrupted);
    processes->finish(code);
    return code;
  } catch (const eg::Error& error) {
    code = complain(processes, error.what());
  } catch (const std::filesystem::filesystem_error& error) {
    code = complain(processes, fmt::format("{}: {}", error.path1().string(), error.code().message()));
  } catch (const std::bad_alloc&) {
    code = complain(processes, fmt::format("out of memory: no more could be had; {}", eg::memory_limit_words()));
  } catch (const std::exception& error) {
    code = complain(processes, error.what());
  }
  if (processes) processes->end(code);
  return code;
}
