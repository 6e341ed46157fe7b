// Results never go over what they were made from, nor over each other.

#include "cli/program.h"
#include "core/ops.h"
#include "data/safetensors.h"
#include "nn/hub/folder.h"
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
