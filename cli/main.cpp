// equigrad VERB: parse, call the library, print.

#include "cli/arguments.h"
#include "cli/interrupt.h"
#include "cli/output.h"
#include "cli/profile_output.h"
#if EQUIGRAD_NET
#include "cli/stip/stip.h"
#endif
#include "cli/train_flags.h"
#include "cli/verb.h"
#include "core/words.h"

#include "core/error.h"
#include "core/out_of_memory.h"
#include "core/parallel.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cassert>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <fcntl.h>
#include <filesystem>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <string_view>
#include <unistd.h>
#include <vector>

namespace eg::cli {

void write_json(const CommonOptions& common, const nlohmann::json& result) {
  if (common.json.empty()) return;
  // In ASCII: a terminal must not obey what stands in names, and bytes that are not UTF-8 must not stop the result.
  const std::string text = result.dump(2, ' ', true, nlohmann::json::error_handler_t::replace) + "\n";
  if (common.json == "-") {
    say(text);
    require_output();
    return;
  }
  write_result(common.json, text);
}

namespace {

constexpr std::array verbs = {
    Verb{"doctor", nullptr, "what this program runs on: threads, BLAS, SIMD, memory", declare_doctor},
    Verb{"run", nullptr, "the main job: doctor, the theorems, permuted training side by side, out/report.html",
         declare_run},
    Verb{"verify", nullptr, "check the theorem catalogue, each identity with its gate and negative control",
         declare_verify, true},
    Verb{"train", train_topic, "train a ViT or DeiT, a BERT, a GPT-2, a Llama, a factorization machine", declare_train,
         true},
#if EQUIGRAD_NET
    Verb{"edge", train_topic, "train with the encoder's blocks in a cloud that sees permuted features alone",
         declare_edge, true},
    Verb{"cloud", nullptr, "hold and train encoder blocks for edges", declare_cloud},
    Verb{"stip", stip_topic,
         "inference with the blocks in a cloud that sees permuted features: transform, serve, query", declare_stip,
         true},
    Verb{"certs", nullptr, "a test authority: certificates for cloud and edges", declare_certs},
#endif
    Verb{"report", nullptr, "one page that compares runs and shows what their models do", declare_report},
    Verb{"reproduce", nullptr, "tables and figures of the papers again, beside the papers' numbers", declare_reproduce},
    Verb{"download", nullptr, "public data sets, with their checksums", declare_download},
    Verb{"inspect", nullptr, "what is in a model folder or a tensor file", declare_inspect},
    Verb{"infer", nullptr, "one forward pass of a model folder in Hugging Face's format, and all gradients",
         declare_infer, true},
    Verb{"generate", nullptr, "continue a text with a GPT-2 or Llama folder", declare_generate, true},
    Verb{"symmetries", nullptr, "which permutations a model folder or a config commutes with", declare_symmetries},
    Verb{"keygen", nullptr, "make a secret key for a model's groups or for permuted training", declare_keygen},
    Verb{"permute", nullptr, "move a model folder's weights by a key, undo it, or go from one key to another",
         declare_permute},
    Verb{"attack", nullptr, "what permuted weights and data give away: exact attacks, and what theory says of them",
         declare_attack, true},
    Verb{"tokenize", nullptr, "text to token ids and back", declare_tokenize},
    Verb{"bench", nullptr, "measure training steps, matrix products, operations", declare_bench, true},
};

/// One line for people on stderr, whatever the message held.
int complain(std::string_view message, int code) {
  // What a closed stderr returns must not change the exit code.
  std::fputs(fmt::format("equigrad: {}\n", printable(message)).c_str(), stderr);
  return code;
}

void add_common(CLI::App& verb, CommonOptions& common, bool computes) {
  common.files->result(verb.add_option("--json", common.json, "Write the result as JSON to this file, or - for stdout"))
      ->type_name("FILE");
  verb.add_option("--threads", common.threads, "Threads to use (default: what the machine and its quota give)")
      ->check(whole_number(0, 1024))
      ->type_name("N");
  verb.add_option("--seed", common.seed, "Seed of everything that is drawn at random (default 0; verify: 1)")
      ->check(CLI::Validator(
          [](const std::string& text) {
            std::uint64_t seed = 0;
            const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seed);
            const bool whole = error == std::errc() && end == text.data() + text.size();
            return whole ? std::string() : fmt::format("'{}' is not a whole number from 0 to 2^64 - 1", text);
          },
          ""))
      ->type_name("N");
  verb.add_flag("--quiet", common.quiet, "Print nothing but errors (generate: nothing but the new text)");
  if (computes)
    common.files
        ->result(verb.add_option(
            "--profile", common.profile,
            "Where the time goes: a trace for chrome://tracing or ui.perfetto.dev to this file, a table to stdout"))
        ->type_name("FILE");
}

/// Words of which the names of path options' types are made.
constexpr std::array<std::string_view, 9> path_types = {"FILE", "DIR",    "FOLDER",      "PATH", "RUN",
                                                        "DATA", "CONFIG", "safetensors", "KEY"};

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
  if (!output_is_lost()) return code;
  return code == done || code == check_failed ? complain(output_trouble(), bad_input) : code;
}

/// Whether every option whose value is shown as a path has its place in the account of files.
[[maybe_unused]] bool paths_are_declared(const CLI::App& verb, const CommandFiles& files) {
  const auto options = verb.get_options();
  return std::all_of(options.begin(), options.end(), [&](const CLI::Option* option) {
    const std::string type = option->get_type_name();
    const bool path = std::any_of(path_types.begin(), path_types.end(),
                                  [&](std::string_view word) { return type.find(word) != std::string::npos; });
    return !path || files.declared(option);
  });
}

/// The verbs with their options, and what each will do.
struct Program {
  CommonOptions common;
  CLI::App app{"Deep learning that commutes with permutations.", "equigrad"};
  std::array<CLI::App*, verbs.size()> apps{};
  std::array<Job, verbs.size()> jobs;

  explicit Program(const std::vector<std::string>& words) {
    common.words = words;
    app.set_version_flag("--version", "equigrad " EQUIGRAD_VERSION, "Print the version and exit");
    app.set_help_flag("-h,--help", "Print this help and exit");
    app.require_subcommand(1);
    app.footer("Each verb has its own help: equigrad VERB --help, or equigrad help VERB.\n"
               "Exit codes: 0 done, 1 a check failed, 2 wrong usage or bad input, 130 interrupted.");
    for (std::size_t i = 0; i < verbs.size(); ++i) {
      apps[i] = app.add_subcommand(verbs[i].name, verbs[i].about);
      add_common(*apps[i], common, verbs[i].computes);
      jobs[i] = verbs[i].declare(*apps[i], common);
      assert(paths_are_declared(*apps[i], *common.files));
    }
  }
  Program(const Program&) = delete; // the jobs refer to `common`
  Program& operator=(const Program&) = delete;
};

/// Place in `verbs`. Throws UsageError with the nearest verb when there is none of that name.
std::size_t verb_named(const std::string& name) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < verbs.size(); ++i) {
    if (name == verbs[i].name) return i;
    names.emplace_back(verbs[i].name);
  }
  const std::string hint = did_you_mean(name, names);
  throw UsageError(fmt::format("there is no verb '{}'{} there are {}", name, hint.empty() ? ";" : hint, verb_names()));
}

int print_help(const CLI::App& of) {
  say(of.help(of.get_parent() == nullptr ? "" : of.get_parent()->get_name()));
  return done;
}

/// equigrad help [VERB ...]
int help(const Program& program, const std::vector<std::string>& words) {
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

/// What to ask --help with.
std::string topic_of(const Verb& verb, const std::vector<std::string>& words) {
  return verb.topic == nullptr ? verb.name : verb.topic(words);
}

int run_verb(Program& program, std::size_t i, const std::vector<std::string>& words) {
  try {
    check_arguments(*program.apps[i], std::span(words).subspan(1));
    try {
      program.app.parse(std::vector<std::string>(words.rbegin(), words.rend()));
    } catch (const CLI::Success&) {
      return print_help(*program.apps[i]);
    } catch (const CLI::ParseError& error) {
      throw UsageError(error.what());
    }
    if (program.common.profile == "-") throw UsageError("--profile writes a file; give it a name");
    program.common.files->add_given(*program.apps[i]);
    program.common.files->check();
    require_writable(program.common.json);
    require_writable(program.common.profile);
    parallel::set_threads(program.common.threads);
    return run_profiled(program.jobs[i], program.common);
  } catch (const UsageError& error) {
    return complain(fmt::format("{} (see equigrad {} --help)", error.what(), topic_of(verbs[i], words)), bad_input);
  }
}

int parse_and_run(const std::vector<std::string>& words) {
  Program program(words);
  try {
    if (words.empty() || words[0].starts_with('-')) return without_verb(program, words);
    if (words[0] == "help") return help(program, words);
    const std::size_t verb = verb_named(words[0]);
    return run_verb(program, verb, words);
  } catch (const UsageError& error) {
    return complain(fmt::format("{} (see equigrad --help)", error.what()), bad_input);
  }
}

} // namespace
} // namespace eg::cli

int main(int argc, char** argv) {
  using namespace eg::cli;
  catch_interrupts();
  fail_rather_than_die();
  reserve_standard_streams();
  try {
    return finished(parse_and_run({argv + std::min(argc, 1), argv + argc}));
  } catch (const eg::Interrupted& error) {
    return complain(error.what(), interrupted);
  } catch (const eg::Error& error) {
    return complain(error.what(), bad_input);
  } catch (const std::filesystem::filesystem_error& error) {
    return complain(fmt::format("{}: {}", error.path1().string(), error.code().message()), bad_input);
  } catch (const std::bad_alloc&) {
    return complain(fmt::format("out of memory: no more could be had; {}", eg::memory_limit_words()), bad_input);
  } catch (const std::exception& error) {
    return complain(error.what(), bad_input);
  }
}
