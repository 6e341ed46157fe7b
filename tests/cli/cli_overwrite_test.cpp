// Results never go over what they were made from, nor over each other.

#include "cli/program.h"
#include "core/ops.h"
#include "data/safetensors.h"
#include "hub/folder.h"
#include "support/byte_tokenizer.h"

#include <doctest/doctest.h>
#include <filesystem>
#include <map>

using namespace eg;
using namespace eg::test;

namespace {

/// A GPT-2 in shards with its tokenizer, inputs, and another way to each file.
class Scene {
public:
  Scene() {
    const auto model = hub::make_model({{"model_type", "gpt2"},
                                        {"architectures", {"GPT2Model"}},
                                        {"vocab_size", 257},
                                        {"n_embd", 8},
                                        {"n_layer", 1},
                                        {"n_head", 2},
                                        {"n_positions", 32}},
                                       {1, 0});
    hub::save_model(*model, folder_.path("model"), 4096);
    write_byte_tokenizer(folder_.path("model"));
    data::save_safetensors(folder_.path("in.st"), {{"input_ids", Tensor::arange(3).reshape({1, 3})},
                                                   {"cotangent.last_hidden_state", Tensor::ones({1, 3, 8})}});
    std::filesystem::create_hard_link(folder_.path("in.st"), folder_.path("hard.st"));
    std::filesystem::create_symlink("model", folder_.path("link"));
    for (const auto& file : std::filesystem::directory_iterator(folder_.path("model")))
      files_.push_back("model/" + file.path().filename().string());
    files_.emplace_back("in.st");
    before_ = contents();
  }

  /// Exit code 2, `words` in the one line, and every file as it was.
  void refused(const std::vector<std::string>& args, const std::string& words) const {
    const Outcome got = run_program(args, folder_.path());
    INFO(got.err);
    CHECK(got.code == 2);
    CHECK(got.err.find(words) != std::string::npos);
    CHECK(contents() == before_);
  }
  /// One of the shards.
  std::string shard() const {
    for (const std::string& file : files_)
      if (file.starts_with("model/model-")) return file;
    return "";
  }
  Outcome run(const std::vector<std::string>& args) const { return run_program(args, folder_.path()); }

private:
  std::map<std::string, std::string> contents() const {
    std::map<std::string, std::string> all;
    for (const std::string& file : files_) all[file] = read_text(folder_.path(file));
    return all;
  }

  TemporaryFolder folder_;
  std::vector<std::string> files_;
  std::map<std::string, std::string> before_;
};

using Words = std::vector<std::string>;
Words operator+(Words a, const Words& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

} // namespace

TEST_CASE("infer: outputs are no inputs, no weights and not each other") {
  const Scene scene;
  const Words infer = {"infer", "--model", "model", "--inputs", "in.st"};
  scene.refused(infer + Words{"--outputs", "in.st"}, "in.st: cannot be written: it is read");
  scene.refused(infer + Words{"--outputs", "hard.st"}, "hard.st: cannot be written: it is in.st, which is read");
  for (const std::string& file :
       {std::string("model/config.json"), std::string("model/model.safetensors.index.json"), scene.shard()}) {
    REQUIRE(!file.empty());
    scene.refused(infer + Words{"--outputs", "link" + file.substr(5)}, "which is read");
  }
  const Words outputs = infer + Words{"--outputs", "s.st"};
  scene.refused(outputs + Words{"--gradients", "s.st"}, "s.st: cannot be written: another result goes there");
  scene.refused(outputs + Words{"--gradients", "./s.st"}, "another result goes there");
  scene.refused(outputs + Words{"--json", "model/../s.st"}, "another result goes there");
  scene.refused(infer + Words{"--outputs", "none.st", "--inputs=none.st"}, "given twice");
  const Outcome apart = scene.run(infer + Words{"--outputs", "/dev/null", "--json", "/dev/null"});
  CHECK(apart.err.find("another result") == std::string::npos); // no file that could be lost
  CHECK(scene.run(outputs + Words{"--gradients", "g.st", "--json", "r.json"}).code == 0);
  CHECK(scene.run(outputs + Words{"--gradients", "g.st", "--json", "r.json"}).code == 0); // over old results
}

TEST_CASE("--json goes over no file that inspect, tokenize and generate read") {
  const Scene scene;
  for (const char* path : {"model", "model/model.safetensors.index.json"}) {
    scene.refused({"inspect", path, "--json", scene.shard()}, "it is read");
    scene.refused({"inspect", path, "--json", "model/config.json"}, "it is read");
  }
  scene.refused({"inspect", "in.st", "--tensor", "input_ids", "--json", "./in.st"}, "it is in.st, which is read");
  for (const char* tokenizer : {"model", "model/vocab.json"})
    scene.refused({"tokenize", "--tokenizer", tokenizer, "a", "--json", "model/merges.txt"}, "it is read");
  scene.refused({"tokenize", "--tokenizer", "model", "--file", "in.st", "--json", "in.st"}, "it is read");
  scene.refused({"generate", "--model", "model", "--ids", "1", "--json", "model/vocab.json"}, "it is read");
  scene.refused({"generate", "--model", "model", "--ids", "1", "--json", scene.shard()}, "it is read");
  scene.refused({"inspect", "model", "--json", "model/report.json"}, "it lies in model, which is read");
}

TEST_CASE("keygen, verify, train: two results in one file") {
  const Scene scene;
  scene.refused({"keygen", "--out", "key", "--json", "key"}, "another result goes there");
  scene.refused({"verify", "--filter", "eq5", "--report", "r", "--json", "./r"}, "another result goes there");
  scene.refused({"verify", "--model", "model", "--json", "model/config.json"}, "it is read");
  scene.refused({"train", "vit", "--data", "shapes", "--steps", "1", "--out", ".", "--json", "metrics.jsonl"},
                "another result goes there");
}

TEST_CASE("--profile goes over nothing that is read or written") {
  const Scene scene;
  const Words infer = {"infer", "--model", "model", "--inputs", "in.st", "--outputs", "out.st", "--profile"};
  scene.refused(infer + Words{scene.shard()}, "it is read");
  scene.refused(infer + Words{"link/config.json"}, "which is read");
  scene.refused(infer + Words{"hard.st"}, "which is read");
  scene.refused(infer + Words{"out.st"}, "another result goes there");
  scene.refused(infer + Words{"."}, "it is a folder");
  scene.refused(infer + Words{"-"}, "give it a name");
  scene.refused({"generate", "--model", "model", "--prompt", "a", "--profile", "model/config.json"}, "it is read");
  CHECK(scene.run(infer + Words{"trace.json"}).code == 0);
}

TEST_CASE("bench that measures nothing leaves an older result alone") {
  const Scene scene;
  scene.refused({"bench", "step", "--case", "nope", "--json", "in.st"}, "there is no case 'nope'");
}

namespace {

/// A command that reads some files and folders, and its options that name results.
struct Command {
  Words words;
  Words options;
  Words reads;
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

TEST_CASE("no option that names a result goes over a file that the command reads, nor into a folder of them") {
  const TemporaryFolder folder;
  fill(folder);
  const Words results = {"--json", "--profile"};
  const std::vector<Command> commands = {
      {{"report", "R"}, {"--json", "--out"}, {"R", "d.txt"}},
      {{"report", "R", "--data", "d.txt"}, {"--json", "--out"}, {"R", "d.txt"}},
      {{"train", "gpt2", "--resume", "R", "--steps", "3"}, results, {"R", "d.txt"}},
      {{"train", "gpt2", "--resume", "R", "--steps", "3", "--out", "S"}, results, {"R", "d.txt"}},
      {{"train", "gpt2", "--data", "d.txt", "--config", "config.json", "--out", "S"},
       results,
       {"d.txt", "config.json"}},
      {{"train", "gpt2", "--data", "d.txt", "--from", "M", "--steps", "1", "--out", "S"}, results, {"d.txt", "M"}},
      {{"train", "gpt2", "--data", "d.txt", "--tokenizer", "M", "--steps", "1", "--out", "S"}, results, {"d.txt", "M"}},
      {{"inspect", "M"}, {"--json"}, {"M"}},
      {{"inspect", "R"}, {"--json"}, {"R"}},
      {{"inspect", "in.st"}, {"--json"}, {"in.st"}},
      {{"infer", "--model", "M", "--inputs", "in.st", "--outputs", "o.st"},
       {"--json", "--profile", "--gradients"},
       {"M", "in.st"}},
      {{"infer", "--model", "R", "--inputs", "in.st"}, {"--outputs"}, {"R", "in.st"}},
      {{"generate", "--model", "M", "--prompt", "to"}, results, {"M"}},
      {{"generate", "--model", "R", "--prompt", "to", "--tokenizer", "M"}, results, {"M", "R"}},
      {{"tokenize", "--tokenizer", "M", "--file", "d.txt"}, {"--json"}, {"M", "d.txt"}},
      {{"symmetries", "--model", "M"}, {"--json"}, {"M"}},
      {{"symmetries", "--config", "M/config.json"}, {"--json"}, {"M/config.json"}},
      {{"keygen", "--model", "M"}, {"--out"}, {"M"}},
      {{"keygen", "--model", "M", "--out", "k2"}, {"--json"}, {"M"}},
      {{"permute", "--model", "M", "--key", "key"}, {"--out"}, {"M", "key"}},
      {{"permute", "--model", "M", "--key", "key", "--out", "P"}, {"--json"}, {"M", "key"}},
      {{"permute", "--model", "M", "--key", "key", "--tensors", "in.st"}, {"--tensors-out"}, {"M", "key", "in.st"}},
      {{"verify", "--model", "M"}, {"--json", "--report", "--profile"}, {"M"}},
      {{"attack", "weights", "--model", "M"}, {"--json", "--out", "--markdown", "--profile"}, {"M"}},
      {{"stip", "transform", "--model", "M", "--out", "P"}, {"--json"}, {"M"}},
      {{"stip", "transform", "--model", "M"}, {"--out"}, {"M"}},
      {{"stip", "demonstrate", "--model", "M"}, {"--json"}, {"M"}},
      {{"reproduce", "fig4", "--config", "config.json"}, {"--json", "--markdown"}, {"config.json"}},
  };
  const auto before = contents_of(folder.path());
  std::size_t tried = 0;
  const auto refused = [&](const Words& words) {
    const Outcome got = run_program(words, folder.path());
    std::string line;
    for (const std::string& word : words) line += word + " ";
    INFO(line, got.out, got.err);
    CHECK(got.code == 2);
    CHECK(got.err.find("cannot be written: ") != std::string::npos);
    ++tried;
  };
  for (const Command& command : commands)
    for (const std::string& option : command.options)
      for (const std::string& source : command.reads) {
        for (const std::string& file : files_below(folder.path(), source)) refused(command.words + Words{option, file});
        if (std::filesystem::is_directory(folder.path(source))) refused(command.words + Words{option, source + "/new"});
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
