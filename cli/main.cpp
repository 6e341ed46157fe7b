// equigrad VERB: parse, call the library, print.

#include "cli/verb.h"

#include "core/error.h"
#include "core/parallel.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <fcntl.h>
#include <memory>
#include <new>
#include <string_view>
#include <unistd.h>

namespace eg::cli {

void write_json(const CommonOptions& common, const nlohmann::json& result) {
  if (common.json.empty()) return;
  const std::string text = result.dump(2) + "\n";
  if (common.json == "-") {
    if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0)
      throw FileError("standard output: cannot be written");
    return;
  }
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(common.json.c_str(), "wb"), &std::fclose);
  if (!file || std::fwrite(text.data(), 1, text.size(), file.get()) != text.size() || std::fflush(file.get()) != 0)
    throw FileError(fmt::format("{}: cannot be written", common.json));
}

namespace {

constexpr std::array verbs = {
    Verb{"doctor", "what this program runs on: threads, BLAS, SIMD, memory", declare_doctor},
    Verb{"run", "the main job: doctor, the theorems, permuted training side by side, out/report.html", declare_run},
    Verb{"verify", "check the theorem catalogue, each identity with its gate and negative control", declare_verify},
    Verb{"train", "train a model, plain or permuted", declare_train},
    Verb{"keygen", "make a secret key for permuted training", declare_keygen},
    Verb{"bench", "measure training steps, matrix products, operations", declare_bench},
};

/// One line for people on stderr, whatever the message held.
int complain(std::string_view message, int code) {
  std::string line(message);
  while (!line.empty() && line.back() == '\n') line.pop_back();
  std::replace(line.begin(), line.end(), '\n', ' ');
  std::fputs(fmt::format("equigrad: {}\n", line).c_str(), stderr); // a closed stderr must not change the exit code
  return code;
}

void add_common(CLI::App& verb, CommonOptions& common) {
  verb.add_option("--json", common.json, "Write the result as JSON to this file, or - for stdout");
  verb.add_option("--threads", common.threads, "Threads to use (default: what the machine and its quota give)")
      ->check(CLI::Range(0, 1024));
  verb.add_option("--seed", common.seed, "Seed of everything that is drawn at random (default 0; verify: 1)")
      ->check(CLI::Validator(
          [](const std::string& text) {
            std::uint64_t seed = 0;
            const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seed);
            const bool whole = error == std::errc() && end == text.data() + text.size();
            return whole ? std::string() : fmt::format("'{}' is not a whole number from 0 to 2^64 - 1", text);
          },
          "SEED"));
  verb.add_flag("--quiet", common.quiet, "Print nothing but errors");
}

std::string verb_names() {
  std::string names;
  for (const Verb& verb : verbs) names += fmt::format("{}{}", names.empty() ? "" : ", ", verb.name);
  return names;
}

/// A file opened in the place of a closed stream would receive what is printed. Writing to what stands here fails, so
/// that a lost result is noticed.
void reserve_standard_streams() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (::fcntl(stream, F_GETFD) < 0 && errno == EBADF)
      static_cast<void>(::open("/dev/null", stream == STDIN_FILENO ? O_WRONLY : O_RDONLY));
}

/// The code of a job whose output may have been lost on the way.
int finished(int code) {
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return code;
  return code == done || code == check_failed ? complain("standard output: cannot be written", bad_input) : code;
}

int parse_and_run(int argc, char** argv) {
  CLI::App app("Deep learning that commutes with permutations.", "equigrad");
  app.set_version_flag("--version", "equigrad " EQUIGRAD_VERSION);
  app.require_subcommand(1);
  CommonOptions common;
  std::array<Job, verbs.size()> jobs;
  std::array<CLI::App*, verbs.size()> apps{};
  for (std::size_t i = 0; i < verbs.size(); ++i) {
    apps[i] = app.add_subcommand(verbs[i].name, verbs[i].about);
    add_common(*apps[i], common);
    jobs[i] = verbs[i].declare(*apps[i], common);
  }
  if (argc > 1 && argv[1][0] != '-' && std::none_of(verbs.begin(), verbs.end(), [&](const Verb& verb) {
        return std::string_view(argv[1]) == verb.name;
      }))
    return complain(fmt::format("there is no verb '{}'; there are {}", argv[1], verb_names()), bad_input);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& help_or_version) {
    return app.exit(help_or_version);
  } catch (const CLI::ParseError& error) {
    return complain(fmt::format("{} (see equigrad --help)", error.what()), bad_input);
  }
  parallel::set_threads(common.threads);
  for (std::size_t i = 0; i < verbs.size(); ++i)
    if (apps[i]->parsed()) return jobs[i]();
  return complain("no verb was given (see equigrad --help)", bad_input);
}

} // namespace
} // namespace eg::cli

int main(int argc, char** argv) {
  using namespace eg::cli;
  reserve_standard_streams();
  try {
    return finished(parse_and_run(argc, argv));
  } catch (const eg::Interrupted& error) {
    return complain(error.what(), interrupted);
  } catch (const eg::Error& error) {
    return complain(error.what(), bad_input);
  } catch (const std::bad_alloc&) {
    return complain("the machine has no more memory", bad_input);
  } catch (const std::exception& error) {
    return complain(error.what(), bad_input);
  }
}
