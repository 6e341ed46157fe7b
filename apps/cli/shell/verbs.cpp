#include "apps/cli/shell/verbs.h"

#include "apps/cli/shell/arguments.h"
#include "core/base/words.h"
#include "core/threads/parallel_common.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cassert>
#include <charconv>
#include <string_view>

namespace eg::cli {
namespace {

void add_common(CLI::App& verb, CommonOptions& common, bool computes) {
  common.files->result(verb.add_option("--json", common.json, "Write the result as JSON to this file, or - for stdout"))
      ->type_name("FILE");
  verb.add_option("--threads", common.threads, "Threads to use (default: what the machine and its quota give)")
      ->check(whole_number(0, parallel::max_threads()))
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

/// What --help says of an option, and what becomes of a file that it names.
nlohmann::ordered_json option_json(const CLI::Option& option, const CommandFiles& files) {
  const bool word = option.get_positional(), flag = !word && option.get_items_expected_min() == 0;
  nlohmann::ordered_json json = {{"name", word ? option.get_name(true) : "--" + option.get_lnames().front()},
                                 {"kind", word   ? "word"
                                          : flag ? "flag"
                                                 : "value"},
                                 {"required", option.get_required()},
                                 {"about", option.get_description()}};
  if (!flag && !option.get_type_name().empty()) json["type"] = option.get_type_name();
  if (!option.get_default_str().empty()) json["default"] = option.get_default_str();
  if (files.declared(&option)) json["file"] = name_of(files.role_of(&option));
  return json;
}

/// One command: a verb, or a verb and the word that its options depend on. Options that it only refuses are left out.
nlohmann::ordered_json command_json(const std::vector<std::string>& words) {
  const Program program(words);
  const CLI::App& app = *program.apps[verb_named(words.front())];
  nlohmann::ordered_json options = nlohmann::ordered_json::array();
  for (const CLI::Option* option : app.get_options())
    if (!option->get_group().empty()) options.push_back(option_json(*option, *program.common.files));
  const char* const spreads = verbs()[verb_named(words.front())].spreads;
  return {{"command", fmt::format("{}", fmt::join(words, " "))},
          {"about", app.get_description()},
          {"processes", spreads == nullptr ? nlohmann::ordered_json(nullptr) : nlohmann::ordered_json(spreads)},
          {"options", std::move(options)}};
}

} // namespace

Program::Program(const std::vector<std::string>& words) {
  common.words = words;
  app.set_version_flag("--version", "equigrad " EQUIGRAD_VERSION, "Print the version and exit");
  app.set_help_flag("-h,--help", "Print this help and exit");
  app.require_subcommand(1);
  app.footer("Each verb has its own help: equigrad VERB --help, or equigrad help VERB; all of them as JSON: equigrad "
             "help --json.\n"
             "Exit codes: 0 done, 1 a check failed, 2 wrong usage or bad input, 130 interrupted.");
  for (const Verb& verb : verbs()) {
    apps.push_back(app.add_subcommand(verb.name, verb.about));
    add_common(*apps.back(), common, verb.computes);
    jobs.push_back(verb.declare(*apps.back(), common));
    if (verb.spreads != nullptr) {
      const std::string own = apps.back()->get_footer();
      apps.back()->footer(fmt::format("{}{}mpirun -n N equigrad {}: the processes {} (docs/distributed.md).", own,
                                      own.empty() ? "" : "\n", verb.name, verb.spreads));
    }
    assert(paths_are_declared(*apps.back(), *common.files));
  }
}

std::string verb_names() {
  std::string names;
  for (const Verb& verb : verbs()) names += fmt::format("{}{}", names.empty() ? "" : ", ", verb.name);
  return names;
}

std::size_t verb_named(const std::string& name) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < verbs().size(); ++i) {
    if (name == verbs()[i].name) return i;
    names.emplace_back(verbs()[i].name);
  }
  const std::string hint = did_you_mean(name, names);
  throw UsageError(fmt::format("there is no verb '{}'{} there are {}", name, hint.empty() ? ";" : hint, verb_names()));
}

std::string topic_of(std::size_t verb, const std::vector<std::string>& words) {
  return verbs()[verb].topic == nullptr ? verbs()[verb].name : verbs()[verb].topic(words);
}

nlohmann::ordered_json commands_json() {
  nlohmann::ordered_json commands = nlohmann::ordered_json::array();
  for (const Verb& verb : verbs()) {
    if (verb.parts == nullptr)
      commands.push_back(command_json({verb.name}));
    else
      for (const std::string& part : verb.parts()) commands.push_back(command_json({verb.name, part}));
  }
  return {{"version", EQUIGRAD_VERSION}, {"commands", std::move(commands)}};
}

} // namespace eg::cli
