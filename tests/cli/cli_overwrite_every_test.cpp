// No option of any command that names a result goes over a file that the command reads. Commands and options are those
// that the program itself lists, so that one that is added is in.

#include "cli/commands.h"
#include "cli/program.h"
#include "core/ops.h"
#include "data/safetensors.h"

#include <algorithm>
#include <doctest/doctest.h>
#include <filesystem>
#include <map>
#include <set>
#include <stdexcept>

using namespace eg;
using namespace eg::test;

namespace {

/// The options of the command that `words` begin with.
const Json& options_of(const Words& words) {
  for (const Json& command : commands()) {
    const Words its = words_of(command);
    if (std::equal(its.begin(), its.end(), words.begin(), words.begin() + std::min(its.size(), words.size())))
      return command["options"];
  }
  throw std::invalid_argument(words.front() + ": no such command");
}

/// Names a result, or a folder that is made.
bool is_output(const Json& option) {
  const std::string file = option.value("file", "");
  return file == "result" || file == "new folder";
}

bool is_input(const Json& option) {
  const std::string file = option.value("file", "");
  return file == "read" || file == "data sets";
}

Words given(const Json& option, const std::string& value) {
  return option["kind"] == "word" ? Words{value} : Words{option["name"].get<std::string>(), value};
}

/// What an option that must be given, and that is no input and no output, gets.
std::string value_for(const Json& option) {
  static const std::map<std::string, std::string> known = {
      {"--connect", "127.0.0.1:9"}, {"--listen", "127.0.0.1:0"}, {"what", "ops"}};
  const auto found = known.find(option["name"].get<std::string>());
  REQUIRE_MESSAGE(found != known.end(), "give " << option["name"] << " a value here");
  return found->second;
}

/// The command with what it cannot do without, but for `left_out`.
Words least(const Json& command, const Words& left_out) {
  Words words = words_of(command);
  const bool has_part = words.size() > 1;
  for (const Json& option : command["options"]) {
    const auto name = option["name"].get<std::string>();
    if (!option["required"].get<bool>() || std::find(left_out.begin(), left_out.end(), name) != left_out.end())
      continue;
    if (option["kind"] == "word" && has_part && !option.contains("file")) continue; // MODEL or PART, which is there
    words = words + given(option, option.contains("file") ? "elsewhere-" + name.substr(2) : value_for(option));
  }
  return words;
}

/// Runs the command and checks that it refuses to write.
void check_not_written(const Words& words, const std::string& folder) {
  const Outcome got = run_program(words, folder);
  std::string line;
  for (const std::string& word : words) line += word + " ";
  INFO(line, got.out, got.err);
  CHECK(got.code == 2);
  CHECK(got.err.find("cannot be written: ") != std::string::npos);
  CHECK((got.err.find("read") != std::string::npos || got.err.find("another result goes there") != std::string::npos ||
         got.err.find("which the run goes on in") != std::string::npos));
}

/// A command that reads some files and folders. `own`: options that name outputs of which the verb itself says what
/// becomes.
struct Command {
  Words words;
  Words reads;
  Words own = {};

  Words outputs() const {
    Words found = own;
    for (const Json& option : options_of(words)) {
      const auto name = option["name"].get<std::string>();
      if (is_output(option) && std::find(words.begin(), words.end(), name) == words.end()) found.push_back(name);
    }
    return found;
  }
  /// With results elsewhere where it must have some, but for `option`.
  Words without(const std::string& option) const {
    Words all = words;
    for (const Json& other : options_of(words)) {
      const auto name = other["name"].get<std::string>();
      if (is_output(other) && other["required"].get<bool>() && name != option &&
          std::find(words.begin(), words.end(), name) == words.end())
        all = all + Words{name, "elsewhere"};
    }
    return all;
  }
};

Words files_below(const std::string& root, const std::string& path) {
  const std::filesystem::path at = std::filesystem::path(root) / path;
  if (!std::filesystem::is_directory(at)) return {path};
  Words files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(at))
    if (entry.is_regular_file()) files.push_back(std::filesystem::relative(entry.path(), root).string());
  return files;
}

std::map<std::string, std::string> contents_of(const std::string& root) {
  std::map<std::string, std::string> all;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(root))
    if (entry.is_regular_file()) all[entry.path().string()] = read_text(entry.path().string());
  return all;
}

/// A text, a run of it with two checkpoints and an event file, a model with shards and a tokenizer, its key, inputs.
void fill(const TemporaryFolder& folder) {
  std::string text;
  for (int i = 0; i < 40; ++i) text += "to be or not to be, that is the question\n";
  write_text(folder.path("d.txt"), text);
  const auto run = [&](const Words& words) {
    const Outcome got = run_program(words, folder.path());
    INFO(got.err);
    REQUIRE(got.code == 0);
  };
  run({"train",     "gpt2",
       "--data",    "d.txt",
       "--context", "8",
       "--dim",     "8",
       "--heads",   "1",
       "--layers",  "1",
       "--mlp",     "8",
       "--steps",   "2",
       "--batch",   "2",
       "--out",     "R",
       "--quiet",   "--checkpoint-every",
       "1",         "--best",
       "loss",      "--evaluate-every",
       "1",         "--tensorboard"});
  std::filesystem::rename(folder.path("R/model"), folder.path("M"));
  std::filesystem::copy(folder.path("M"), folder.path("R/model"));
  run({"keygen", "--model", "M", "--out", "key", "--groups", "inner", "--quiet"});
  data::save_safetensors(folder.path("in.st"), {{"input_ids", Tensor::arange(3).reshape({1, 3})}});
  write_text(folder.path("config.json"), R"({"steps": 3})");
}

} // namespace

TEST_CASE("every option that names an output, beside every option that names an input, of every command") {
  const TemporaryFolder folder;
  write_text(folder.path("in/file"), "kept");
  write_text(folder.path("in/mnist/file"), "kept");
  const auto before = contents_of(folder.path());
  std::size_t tried = 0;
  std::set<std::string> own;
  for (const Json& command : commands())
    for (const Json& output : command["options"]) {
      if (output.value("file", "") == "own")
        own.insert(words_of(command).front() + " " + output["name"].get<std::string>());
      if (!is_output(output)) continue;
      for (const Json& input : command["options"]) {
        if (!is_input(input)) continue;
        const Words words = least(command, {input["name"], output["name"]}) + given(input, "in");
        const std::string part = input["file"] == "data sets" ? "in/mnist/" : "in/";
        for (const char* name : {"file", "new"}) {
          check_not_written(words + given(output, part + name), folder.path());
          ++tried;
        }
      }
    }
  CHECK(contents_of(folder.path()) == before);
  CHECK(tried > 300);
  // What these become, the verbs say; the cases below try them. One that is added here needs a case there.
  CHECK(own == std::set<std::string>{"certs --out", "cloud --out", "edge --data", "edge --out", "edge --resume",
                                     "report --out", "reproduce --out", "run --out", "train --data", "train --out",
                                     "train --resume"});
}

TEST_CASE("no result goes into the folder that a command fills or goes on in") {
  const TemporaryFolder folder;
  for (const char* name : {"C/file", "K/file", "O/run/file", "O/cvpr-F8.html", "O/report.html", "O/run.lock"})
    write_text(folder.path(name), "kept");
  const auto before = contents_of(folder.path());
  check_not_written({"certs", "--out", "C", "--json", "C/ca.key"}, folder.path());
  check_not_written(
      {"cloud", "--listen", "127.0.0.1:0", "--insecure-loopback", "--model", "any", "--out", "K", "--json", "K/file"},
      folder.path());
  check_not_written({"run", "--out", "O", "--json", "O/report.html"}, folder.path());
  check_not_written({"run", "--out", "O", "--json", "O/run/file"}, folder.path());
  check_not_written({"reproduce", "cvpr-F8", "--out", "O", "--json", "O/cvpr-F8.html"}, folder.path());
  CHECK(contents_of(folder.path()) == before);
}

TEST_CASE("no output goes over a file that no option names: of a run, of its data, of a model") {
  const TemporaryFolder folder;
  fill(folder);
  const std::vector<Command> table = {
      {{"report", "R"}, {"R", "d.txt"}, {"--out"}},
      {{"report", "R", "--data", "d.txt"}, {"R", "d.txt"}, {"--out"}},
      {{"train", "gpt2", "--resume", "R", "--steps", "3"}, {"R", "d.txt"}},
      {{"train", "gpt2", "--resume", "R", "--steps", "3", "--out", "S"}, {"R", "d.txt"}},
      {{"train", "gpt2", "--data", "d.txt", "--config", "config.json", "--out", "S"}, {"d.txt", "config.json"}},
      {{"train", "gpt2", "--data", "d.txt", "--from", "M", "--steps", "1", "--out", "S"}, {"d.txt", "M"}},
      {{"train", "gpt2", "--data", "d.txt", "--tokenizer", "M", "--steps", "1", "--out", "S"}, {"d.txt", "M"}},
      {{"inspect", "M"}, {"M"}},
      {{"inspect", "R"}, {"R"}},
      {{"inspect", "in.st"}, {"in.st"}},
      {{"infer", "--model", "M", "--inputs", "in.st", "--outputs", "o.st"}, {"M", "in.st"}},
      {{"infer", "--model", "R", "--inputs", "in.st"}, {"R", "in.st"}},
      {{"generate", "--model", "M", "--prompt", "to"}, {"M"}},
      {{"generate", "--model", "R", "--prompt", "to", "--tokenizer", "M"}, {"M", "R"}},
      {{"tokenize", "--tokenizer", "M", "--file", "d.txt"}, {"M", "d.txt"}},
      {{"symmetries", "--model", "M"}, {"M"}},
      {{"symmetries", "--config", "M/config.json"}, {"M/config.json"}},
      {{"keygen", "--model", "M"}, {"M"}},
      {{"explore", "--model", "M", "--page", "d.txt"}, {"M", "d.txt"}},
      {{"permute", "--model", "M", "--key", "key"}, {"M", "key"}},
      {{"permute", "--model", "M", "--key", "key", "--tensors", "in.st"}, {"M", "key", "in.st"}},
      {{"verify", "--model", "M"}, {"M"}},
      {{"attack", "weights", "--model", "M"}, {"M"}},
      {{"stip", "transform", "--model", "M"}, {"M"}},
      {{"stip", "demonstrate", "--model", "M"}, {"M"}},
      {{"reproduce", "cvpr-F8", "--config", "config.json"}, {"config.json"}},
  };
  const auto before = contents_of(folder.path());
  std::size_t tried = 0;
  for (const Command& command : table)
    for (const std::string& option : command.outputs())
      for (const std::string& source : command.reads) {
        Words targets = files_below(folder.path(), source);
        if (std::filesystem::is_directory(folder.path(source))) targets.push_back(source + "/new");
        for (const std::string& target : targets)
          check_not_written(command.without(option) + Words{option, target}, folder.path());
        tried += targets.size();
      }
  CHECK(contents_of(folder.path()) == before);
  CHECK(tried > 300);
}

TEST_CASE("a file that is read is known by its inode: links, hard links, links that dangle into its folder") {
  const TemporaryFolder folder;
  fill(folder);
  std::filesystem::create_hard_link(folder.path("R/checkpoints/best.json"), folder.path("hard"));
  std::filesystem::create_symlink("R/metrics.jsonl", folder.path("link"));
  std::filesystem::create_symlink("R/made", folder.path("dangling"));
  std::filesystem::create_directory(folder.path("blobs"));
  std::filesystem::rename(folder.path("M/model.safetensors"), folder.path("blobs/1"));
  std::filesystem::create_symlink("../blobs/1", folder.path("M/model.safetensors"));
  const auto before = contents_of(folder.path());
  const auto refused = [&](const Words& words, const std::string& why) {
    const Outcome got = run_program(words, folder.path());
    INFO(got.err);
    CHECK(got.code == 2);
    CHECK(got.err.find(why) != std::string::npos);
  };
  refused({"report", "R", "--json", "hard"}, "hard: cannot be written: it is R/checkpoints/best.json, which is read");
  refused({"report", "R", "--json", "link"}, "link: cannot be written: it is R/metrics.jsonl, which is read");
  refused({"report", "R", "--json", "dangling"}, "dangling: cannot be written: it lies in R, which is read");
  refused({"inspect", "M", "--json", "blobs/1"},
          "blobs/1: cannot be written: it is M/model.safetensors, which is read");
  refused({"permute", "--model", "M", "--key", "key", "--out", "M/P"},
          "M/P: cannot be written: it lies in M, which is read");
  CHECK(contents_of(folder.path()) == before);
  CHECK(run_program({"inspect", "M", "--json", "blobs/2"}, folder.path()).code == 0); // beside a file that is read
}

TEST_CASE("what a config says is read counts as what an option says, and the name of a data set is no path") {
  const TemporaryFolder folder;
  write_text(folder.path("dd/mnist/file"), "kept");
  write_text(folder.path("dd/criteo/file"), "kept");
  write_text(folder.path("shapes/old/file"), "kept");
  write_text(folder.path("config.json"), R"({"data": "mnist", "data_dir": "dd"})");
  write_text(folder.path("table.json"), R"({"data": "criteo", "data_dir": "dd"})");
  write_text(folder.path("resume.json"), R"({"resume": "shapes/old"})");
  write_text(folder.path("pictures/1.png"), "kept");
  std::filesystem::create_directories(folder.path("other"));
  std::filesystem::create_directories(folder.path("data/class"));
  std::filesystem::create_symlink("../../other", folder.path("data/class/first"));
  std::filesystem::create_symlink("../pictures", folder.path("other/second"));
  std::filesystem::create_symlink("..", folder.path("other/round"));
  const auto before = contents_of(folder.path());
  for (const char* to : {"dd/mnist/file", "dd/mnist/new"})
    check_not_written({"train", "vit", "--config", "config.json", "--steps", "1", "--out", "S", "--json", to},
                      folder.path());
  check_not_written(
      {"train", "difm", "--config", "table.json", "--steps", "1", "--out", "S", "--json", "dd/criteo/file"},
      folder.path());
  check_not_written({"train", "vit", "--data", "data", "--steps", "1", "--out", "S", "--json", "pictures/1.png"},
                    folder.path());
  const Outcome resumed = run_program({"train", "vit", "--config", "resume.json", "--out", "S"}, folder.path());
  CHECK(resumed.code == 2);
  CHECK(resumed.err ==
        "equigrad: resume.json: 'resume' is not taken from a config; give --resume on the command line\n");
  CHECK(contents_of(folder.path()) == before);

  const Outcome made = run_program({"train",
                                    "vit",
                                    "--data",
                                    "shapes",
                                    "--size",
                                    "16",
                                    "--train-limit",
                                    "20",
                                    "--test-limit",
                                    "20",
                                    "--patch",
                                    "8",
                                    "--dim",
                                    "8",
                                    "--heads",
                                    "1",
                                    "--layers",
                                    "1",
                                    "--mlp",
                                    "8",
                                    "--steps",
                                    "1",
                                    "--batch",
                                    "4",
                                    "--quiet",
                                    "--out",
                                    "shapes/run",
                                    "--json",
                                    "shapes/result.json"},
                                   folder.path());
  INFO(made.err);
  CHECK(made.code == 0);
  CHECK(std::filesystem::exists(folder.path("shapes/result.json")));
}
