// equigrad train ... --from: beginning from another run, parts that are fresh, frozen or slower; DeiT's teacher; masked
// words and then classes.

#include "cli/program.h"

#include <doctest/doctest.h>

using namespace eg::test;

namespace {

using Args = std::vector<std::string>;

/// `train MODEL` with small sizes and these options.
Outcome trained(const std::string& model, Args more) {
  Args args = {"train", model, "--batch", "8", "--warmup", "1", "--json", "-"};
  args.insert(args.end(), more.begin(), more.end());
  return run_program(args);
}

Args sizes(const char* dim = "16") { return {"--dim", dim, "--heads", "2", "--layers", "2", "--mlp", "24"}; }
Args patches() { return {"--patch", "8"}; }

Args joined(Args a, const Args& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

Args shapes(const std::string& out) {
  return {"--data", "shapes", "--train-limit", "64", "--test-limit", "32", "--size", "16", "--out", out};
}

nlohmann::json result_of(const Outcome& outcome) {
  INFO(outcome.err);
  REQUIRE(outcome.code == 0);
  return nlohmann::json::parse(outcome.out);
}

/// The bytes of one tensor of a run's model.
std::string tensor_bytes(const std::string& run, const std::string& name) {
  const std::string file = read_text(run + "/model.safetensors");
  std::uint64_t header = 0;
  for (int i = 7; i >= 0; --i) header = header << 8 | static_cast<unsigned char>(file[static_cast<std::size_t>(i)]);
  const auto entry = nlohmann::json::parse(file.substr(8, header)).at(name)["data_offsets"];
  return file.substr(8 + header + entry[0].get<std::size_t>(),
                     entry[1].get<std::size_t>() - entry[0].get<std::size_t>());
}

} // namespace

TEST_CASE("fine-tuning: frozen parts keep their bits, the rest moves, layers below learn more slowly") {
  const TemporaryFolder folder;
  const std::string first = folder.path("first"), second = folder.path("second"), third = folder.path("third");
  result_of(trained("vit", joined(joined(joined(shapes(first), sizes()), patches()), {"--steps", "6"})));
  const Args from = {"--from", first, "--steps", "3", "--freeze", "blocks.0.*", "--layer-decay", "0.5"};
  result_of(trained("vit", joined(shapes(second), from)));
  const std::string frozen = "blocks.0.mlp.fc1.weight", moved = "blocks.1.mlp.fc1.weight";
  CHECK(tensor_bytes(second, frozen) == tensor_bytes(first, frozen));
  CHECK(tensor_bytes(second, moved) != tensor_bytes(first, moved));
  CHECK(nlohmann::json::parse(read_text(second + "/config.json"))["layer_decay"] == 0.5);
  result_of(trained("vit", joined(shapes(third), {"--from", first, "--steps", "3", "--freeze", "blocks.0.*"})));
  CHECK(tensor_bytes(third, moved) != tensor_bytes(second, moved)); // the factor of the rate is what differs

  for (const char* wrong : {"0", "1.5", "-1", "nan"}) {
    const Outcome got = trained("vit", joined(shapes(folder.path("no")), {"--steps", "1", "--layer-decay", wrong}));
    CHECK(got.code == 2);
    CHECK(got.err.find("layer_decay must be in (0, 1]") != std::string::npos);
  }
  const Outcome nothing =
      trained("vit", joined(shapes(folder.path("no")), {"--from", first, "--freeze", "block.9.*", "--steps", "1"}));
  CHECK(nothing.code == 2);
  CHECK(nothing.err.find("block.9.*") != std::string::npos);
  const Outcome missing =
      trained("vit", joined(shapes(folder.path("no")), {"--from", folder.path("nowhere"), "--steps", "1"}));
  CHECK(missing.code == 2);
  CHECK(missing.err.find("nowhere") != std::string::npos);
}

TEST_CASE("a DeiT learns from a teacher, and a teacher of other classes is refused") {
  const TemporaryFolder folder;
  const std::string teacher = folder.path("teacher"), run = folder.path("run");
  result_of(trained("vit", joined(joined(joined(shapes(teacher), sizes()), patches()), {"--steps", "6"})));
  const Args student = joined(joined(joined(shapes(run), sizes("8")), patches()), {"--steps", "4"});
  CHECK(result_of(trained("deit", joined(student, {"--teacher", teacher}))).contains("accuracy"));
  const Outcome text =
      trained("deit", joined(joined(shapes(folder.path("no")), sizes()), {"--teacher", folder.path()}));
  CHECK(text.code == 2);
  const Outcome vit = trained("vit", joined(student, {"--teacher", teacher}));
  CHECK(vit.code == 2);
  CHECK(vit.err.find("teacher") != std::string::npos);
}

TEST_CASE("masked words are learnt, and a classifier begins from what knows them") {
  const TemporaryFolder folder;
  std::string story, films = "label\ttext\n";
  for (int i = 0; i < 200; ++i) story += i % 2 == 0 ? "a dull film , and long .\n" : "a fine film , and short .\n";
  for (int i = 0; i < 60; ++i) films += i % 2 == 0 ? "0\ta dull film\n" : "1\ta fine film\n";
  write_text(folder.path("story.txt"), story);
  write_text(folder.path("films.tsv"), films);
  const auto words =
      result_of(trained("bert", joined(sizes(), {"--task", "mlm", "--data", folder.path("story.txt"), "--context", "16",
                                                 "--steps", "400", "--lr", "3e-3", "--out", folder.path("words")})));
  const std::string metrics = read_text(folder.path("words/metrics.jsonl"));
  const auto begin = nlohmann::json::parse(metrics.substr(0, metrics.find('\n')));
  CHECK(words["loss"].get<double>() < begin["loss"].get<double>() - 0.3);
  const auto classes = result_of(trained("bert", {"--from", folder.path("words"), "--data", folder.path("films.tsv"),
                                                  "--held-out", "0.3", // texts as long as the model takes
                                                  "--steps", "80", "--lr", "1e-2", "--out", folder.path("films")}));
  CHECK(classes["accuracy"] == 1.0);
  const Outcome gpt = trained("gpt2", {"--from", folder.path("words"), "--data", folder.path("story.txt"), "--steps",
                                       "1", "--out", folder.path("no")});
  CHECK(gpt.code == 2);
  CHECK(gpt.err.find("bert") != std::string::npos);
}
