// What the program says of its own commands (help --json), and what holds for every flag of every one of them.

#include "cli/commands.h"
#include "cli/program.h"

#include <doctest/doctest.h>
#include <set>

using namespace eg::test;

namespace {

/// The options that a help text lists: words behind the margin that begin with two dashes.
std::set<std::string> options_in(const std::string& help) {
  std::set<std::string> found;
  for (std::size_t at = help.find("\n  "); at != std::string::npos; at = help.find("\n  ", at + 1)) {
    const std::string line = help.substr(at + 1, help.find('\n', at + 1) - at - 1);
    const std::size_t first = line.find_first_not_of(' ');
    if (first == std::string::npos || first > 8 || line[first] != '-') continue;
    const std::size_t dashes = line.find("--", first);
    if (dashes == std::string::npos || (dashes != first && line[dashes - 1] != ',')) continue;
    found.insert(line.substr(dashes, line.find_first_of(" =,{", dashes) - dashes));
  }
  return found;
}

} // namespace

TEST_CASE("help --json lists what help lists: every verb, and every option of every command") {
  std::set<std::string> verbs;
  for (const Json& command : commands()) {
    const Words words = words_of(command);
    verbs.insert(words.front());
    std::set<std::string> listed;
    for (const Json& option : command["options"])
      if (option["kind"] != "word") listed.insert(option["name"].get<std::string>());
    INFO(command["command"]);
    CHECK(options_in(run_program(words + Words{"--help"}).out) == listed);
  }
  const std::string message = run_program({}).err; // "...; there are doctor, run, ..."
  const std::size_t list = message.find("there are ");
  REQUIRE(list != std::string::npos);
  std::string names;
  for (const std::string& verb : verbs) {
    CHECK_MESSAGE(message.find(verb, list) != std::string::npos, verb);
    names += verb + ", ";
  }
  CHECK(std::count(message.begin() + static_cast<std::ptrdiff_t>(list), message.end(), ',') ==
        static_cast<std::ptrdiff_t>(verbs.size()) - 1);
}

TEST_CASE("a flag is true, false or alone; any other value is refused with its name") {
  std::size_t flags = 0;
  for (const Json& command : commands())
    for (const Json& option : command["options"]) {
      if (option["kind"] != "flag") continue;
      ++flags;
      const auto name = option["name"].get<std::string>();
      INFO(command["command"], " ", name);
      // What stands behind a flag that is taken is refused next.
      const auto said = [&](const std::string& argument) {
        const Outcome got = run_program(words_of(command) + Words{argument, "--no-such-option"});
        CHECK(got.code == 2);
        CHECK(got.out.empty());
        return got.err;
      };
      const std::string next = "there is no option '--no-such-option'";
      if (name == "--help") {
        CHECK(said("--help=true").find("--help takes no value") != std::string::npos);
        continue;
      }
      for (const char* value : {"-1", "0", "1x", "1e400", "TRUE"})
        CHECK(said(name + "=" + value).find(name + ": '" + value + "' is neither true nor false") != std::string::npos);
      for (const char* value : {"", "=true", "=false"}) CHECK(said(name + value).find(next) != std::string::npos);
    }
  CHECK(flags > 100);
}

TEST_CASE("a flag that is false does what no flag does") {
  const TemporaryFolder folder;
  const auto run = [&](const Words& words) {
    const Outcome got = run_program(words, folder.path());
    REQUIRE_MESSAGE(got.code == 0, got.err);
    return got.out;
  };
  CHECK(!run({"doctor", "--quiet=false"}).empty());
  CHECK(run({"doctor", "--quiet=true"}).empty());
  const Words train = {"train",    "gpt2", "--data", "d.txt", "--context", "8", "--dim",   "8", "--heads", "1",
                       "--layers", "1",    "--mlp",  "8",     "--steps",   "1", "--batch", "2", "--quiet", "--out"};
  std::string text;
  for (int i = 0; i < 40; ++i) text += "to be or not to be, that is the question\n";
  write_text(folder.path("d.txt"), text);
  run(train + Words{"R", "--csv=false", "--tensorboard=false"});
  CHECK_FALSE(std::filesystem::exists(folder.path("R/metrics.csv")));
  run(train + Words{"S", "--csv=true"});
  CHECK(std::filesystem::exists(folder.path("S/metrics.csv")));
  run({"keygen", "--model", "R/model", "--out", "key", "--groups", "inner", "--quiet"});
  const Words permute = {"permute", "--model", "R/model", "--key", "key", "--quiet", "--out"};
  run(permute + Words{"forward"});
  run(permute + Words{"same", "--inverse=false"});
  CHECK(read_text(folder.path("same/model.safetensors")) == read_text(folder.path("forward/model.safetensors")));
  run({"permute", "--model", "forward", "--key", "key", "--quiet", "--out", "back", "--inverse=true"});
  CHECK(read_text(folder.path("back/model.safetensors")) == read_text(folder.path("R/model/model.safetensors")));
}
