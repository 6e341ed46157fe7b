// equigrad cloud and equigrad edge: two processes over TLS.

#include "cli/serving.h"

#include "data/safetensors.h"

#include <algorithm>
#include <csignal>
#include <cstddef>
#include <doctest/doctest.h>
#include <filesystem>
#include <fmt/format.h>
#include <memory>

using namespace eg::test;

namespace {

const std::vector<std::string> recipe = {"--dim", "24",       "--layers", "2",          "--heads", "2",         "--mlp",
                                         "32",    "--warmup", "2",        "--schedule", "cosine",  "--dropout", "0.1"};

std::vector<std::string> vit(const std::string& verb, const std::string& steps, const std::string& out) {
  return with({verb,           "vit",    "--data",    "shapes",    "--train-limit", "128",
               "--test-limit", "64",     "--size",    "16",        "--patch",       "8",
               "--batch",      "16",     "--augment", "--permute", "both",          "--steps",
               steps,          "--seed", "3",         "--quiet",   "--out",         out},
              recipe);
}

std::string weights(const std::string& run) { return read_text(run + "/model.safetensors"); }

} // namespace

TEST_CASE("split: two processes over TLS leave the weights of one, byte for byte") {
  if (!has_net()) return;
  const TemporaryFolder folder;
  const std::string certs = folder.path("certs");
  REQUIRE(run_program({"certs", "--out", certs, "--quiet"}).code == 0);
  REQUIRE(run_program(vit("train", "50", folder.path("one"))).code == 0);
  ServingProgram cloud({"cloud", "--listen", "127.0.0.1:0", "--model", "any", "--certs", certs, "--seed", "3", "--json",
                        folder.path("cloud.json"), "--quiet"});
  const std::vector<std::string> there = {"--connect", cloud.place(), "--certs", certs};
  const Outcome edge = run_program(with(with(vit("edge", "50", folder.path("two")), there),
                                        {"--finish", "encrypted", "--json", folder.path("edge.json")}));
  INFO(edge.err);
  REQUIRE(edge.code == 0);
  CHECK(!weights(folder.path("one")).empty());
  CHECK(weights(folder.path("one")) == weights(folder.path("two")));
  const auto json = nlohmann::json::parse(read_text(folder.path("edge.json")));
  CHECK(json["wire"]["steps"] == 50);
  // z, y, dy and dz: [16, 5, 24] floats each, and a little around them.
  const double bytes = json["wire"]["bytes_per_step"];
  CHECK(bytes > 4 * 16 * 5 * 24 * 4);
  CHECK(bytes < 4 * (16 * 5 * 24 * 4 + 100));
  CHECK(json["without_key"]["accuracy"].is_number());
  // The plain weights are others, and those that training without permutation would leave to rounding.
  REQUIRE(run_program(with(with(vit("edge", "50", folder.path("three")), there),
                           {"--finish", "decrypt", "--json", folder.path("plain.json")}))
              .code == 0);
  CHECK(weights(folder.path("three")) != weights(folder.path("one")));
  // A run that goes on ends as it was begun.
  std::filesystem::copy(folder.path("two"), folder.path("again"), std::filesystem::copy_options::recursive);
  const Outcome again = run_program(with({"edge", "vit", "--quiet", "--resume", folder.path("again")}, there));
  CHECK_MESSAGE(again.code == 0, again.err);
  CHECK(weights(folder.path("again")) == weights(folder.path("one")));
  // One that was to end behind another holder's key is told so again.
  const std::string next = folder.path("next.key");
  REQUIRE(run_program({"keygen", "--out", next, "--quiet"}).code == 0);
  REQUIRE(run_program(with(with(vit("edge", "5", folder.path("moved")), there), {"--finish", next})).code == 0);
  const Outcome unsaid = run_program(with({"edge", "vit", "--quiet", "--resume", folder.path("moved")}, there));
  CHECK(unsaid.code == 2);
  CHECK_MESSAGE(unsaid.err.find("--finish: the run was to end behind another holder's key") != std::string::npos,
                unsaid.err);
  // The model folder says what it carries, and its holder takes it back: what decrypting here would have left.
  const auto infer = [&](const std::string& model) {
    return run_program({"infer", "--model", folder.path(model), "--inputs", folder.path("in.safetensors"), "--outputs",
                        folder.path("out.safetensors"), "--quiet"});
  };
  eg::data::save_safetensors(folder.path("in.safetensors"), {{"pixel_values", eg::Tensor::ones({1, 3, 16, 16})}});
  CHECK(infer("three").err.empty());
  const Outcome marked = infer("moved");
  CHECK(marked.code == 0);
  CHECK_MESSAGE(marked.err.find("its blocks carry the permutations of key ") != std::string::npos, marked.err);
  REQUIRE(run_program(with(with(vit("edge", "5", folder.path("decrypted")), there), {"--finish", "decrypt"})).code ==
          0);
  const auto taken_back = [&](const std::string& key, const std::string& out) {
    return run_program(
        {"permute", "--model", folder.path("moved"), "--key", key, "--inverse", "--out", folder.path(out), "--quiet"});
  };
  const Outcome back = taken_back(next, "back");
  CHECK_MESSAGE(back.code == 0, back.err);
  CHECK(infer("back").err.empty());
  CHECK(read_text(folder.path("back/model.safetensors")) ==
        read_text(folder.path("decrypted/model/model.safetensors")));
  CHECK(read_text(folder.path("back/preprocessor_config.json")) ==
        read_text(folder.path("decrypted/model/preprocessor_config.json")));
  // With another ending the mark goes.
  REQUIRE(run_program(with({"edge", "vit", "--quiet", "--resume", folder.path("moved"), "--finish", "decrypt"}, there))
              .code == 0);
  CHECK(infer("moved").err.empty());
  CHECK(weights(folder.path("moved")) == weights(folder.path("decrypted")));
  REQUIRE(
      run_program(with({"edge", "vit", "--quiet", "--resume", folder.path("moved"), "--finish", next}, there)).code ==
      0);
  REQUIRE(run_program({"keygen", "--out", folder.path("third.key"), "--quiet"}).code == 0);
  CHECK(taken_back(folder.path("third.key"), "none").err.find("the blocks carry key ") != std::string::npos);
  // A report takes the whole model from the run folder.
  REQUIRE(run_program({"report", folder.path("three"), "--out", folder.path("page.html"), "--quiet"}).code == 0);
  const std::string page = read_text(folder.path("page.html"));
  const double right = nlohmann::json::parse(read_text(folder.path("plain.json")))["accuracy"];
  CHECK(page.find("trained by another party") != std::string::npos);
  CHECK(page.find(fmt::format("The model of step 50 on 64 of 64 test images of shapes: {:.2f} % right", 100 * right)) !=
        std::string::npos);
  // Of weights that are still permuted it takes the key along.
  REQUIRE(run_program({"report", folder.path("two"), "--out", folder.path("page.html"), "--quiet"}).code == 0);
  CHECK(read_text(folder.path("page.html")).find(fmt::format("of shapes: {:.2f} % right", 100 * right)) !=
        std::string::npos);
  // Not when they were taken back afterwards.
  REQUIRE(run_program(with({"edge", "vit", "--quiet", "--resume", folder.path("two"), "--finish", "decrypt"}, there))
              .code == 0);
  CHECK(weights(folder.path("two")) == weights(folder.path("three")));
  REQUIRE(run_program({"report", folder.path("two"), "--out", folder.path("page.html"), "--quiet"}).code == 0);
  CHECK(read_text(folder.path("page.html")).find(fmt::format("of shapes: {:.2f} % right", 100 * right)) !=
        std::string::npos);
  const Outcome others = run_program({"report", folder.path("moved"), "--out", folder.path("page.html"), "--quiet"});
  CHECK_MESSAGE(others.err.find("its blocks carry another key") != std::string::npos, others.err);
  CHECK(cloud.stop().code == 0);
  CHECK(nlohmann::json::parse(read_text(folder.path("cloud.json")))["steps"] == 110);
}

TEST_CASE("split: a BERT over TLS leaves the weights of one process, byte for byte, with its key and without") {
  if (!has_net()) return;
  const TemporaryFolder folder;
  const std::string certs = folder.path("certs"), key = folder.path("secret.key");
  REQUIRE(run_program({"certs", "--out", certs, "--quiet"}).code == 0);
  REQUIRE(run_program({"keygen", "--out", key, "--quiet"}).code == 0);
  std::string rows = "label\ttext\n";
  for (int i = 0; i < 120; ++i)
    rows += (i % 2 == 0 ? "bad\ta dull " : "good\ta lovely ") + std::to_string(i) +
            (i % 3 == 0 ? " film\n" : " old film\n");
  write_text(folder.path("films.tsv"), rows);
  const auto bert = [&](const std::string& verb, const std::string& permute, const std::string& out) {
    std::vector<std::string> args = {verb,        "bert", "--data",    folder.path("films.tsv"),
                                     "--dim",     "16",   "--layers",  "2",
                                     "--heads",   "2",    "--context", "12",
                                     "--batch",   "8",    "--steps",   "50",
                                     "--warmup",  "3",    "--clip",    "0",
                                     "--seed",    "3",    "--permute", permute,
                                     "--dropout", "0.1",  "--out",     folder.path(out),
                                     "--quiet"};
    return permute == "none" ? args : with(args, {"--key", key});
  };
  ServingProgram cloud(
      {"cloud", "--listen", "127.0.0.1:0", "--model", "any", "--certs", certs, "--seed", "3", "--quiet"});
  const std::vector<std::string> there = {"--connect", cloud.place(), "--certs", certs};
  const auto model = [&](const std::string& run) { return read_text(folder.path(run) + "/model/model.safetensors"); };
  for (const char* permute : {"none", "both"}) {
    CAPTURE(permute);
    const std::string one = std::string("one-") + permute, two = std::string("two-") + permute;
    REQUIRE(run_program(bert("train", permute, one)).code == 0);
    const Outcome edge = run_program(
        with(with(bert("edge", permute, two), there), {"--finish", "encrypted", "--json", folder.path("edge.json")}));
    INFO(edge.err);
    REQUIRE(edge.code == 0);
    CHECK(!model(one).empty());
    CHECK(model(one) == model(two));
    const auto json = nlohmann::json::parse(read_text(folder.path("edge.json")));
    CHECK(json["wire"]["steps"] == 50);
    CHECK(json["without_key"].is_null() == (std::string(permute) == "none"));
  }
  REQUIRE(run_program(with(bert("edge", "both", "plain"), there)).code == 0); // --finish decrypt
  CHECK(model("plain") != model("one-both"));
  // A report takes the key to weights that are permuted still.
  const auto report = [&](const std::string& run, std::vector<std::string> more) {
    more.insert(more.begin(), {"report", folder.path(run), "--out", folder.path("page.html"), "--quiet"});
    return run_program(more);
  };
  const auto said = [&] {
    const std::string page = read_text(folder.path("page.html"));
    const std::size_t at = page.find("The final model on ");
    return at == std::string::npos ? "nothing" : page.substr(at, page.find("right.", at) - at);
  };
  REQUIRE(report("plain", {}).code == 0);
  const std::string plain = said();
  CHECK(plain != "nothing");
  const std::string moved = folder.path("moved.key"), other = folder.path("other.key");
  std::filesystem::rename(key, moved);
  REQUIRE(run_program({"keygen", "--out", other, "--quiet"}).code == 0);
  for (const char* run : {"one-both", "two-both"}) {
    REQUIRE(report(run, {"--key", moved}).code == 0);
    CHECK(said() == plain);
    CHECK(report(run, {"--key", other}).err.find("its blocks carry another key") != std::string::npos);
    CHECK(report(run, {}).err.find("secret.key: ") != std::string::npos);
  }
  CHECK(report("one-none", {"--key", moved}).err.find("--key: none of the runs") != std::string::npos);
  std::filesystem::rename(moved, key);
  const Outcome clipped = run_program(with(with(bert("edge", "none", "clipped"), there), {"--clip", "1"}));
  CHECK(clipped.code == 2);
  CHECK(clipped.err.find("clip") != std::string::npos);
  CHECK(cloud.stop().code == 0);
}

TEST_CASE("split: a BERT learns masked words over the wire to the weights of one process") {
  if (!has_net()) return;
  const TemporaryFolder folder;
  std::string text;
  for (int i = 0; i < 300; ++i)
    text += "the " + std::to_string(i % 7) + " cats saw " + std::to_string(i % 5) + " dogs. ";
  write_text(folder.path("text.txt"), text);
  const auto masked = [&](const std::string& verb, const std::string& out) {
    return std::vector<std::string>{verb,        "bert",
                                    "--task",    "mlm",
                                    "--data",    folder.path("text.txt"),
                                    "--dim",     "16",
                                    "--heads",   "2",
                                    "--layers",  "2",
                                    "--context", "12",
                                    "--batch",   "8",
                                    "--steps",   "20",
                                    "--clip",    "0",
                                    "--seed",    "3",
                                    "--permute", "both",
                                    "--out",     folder.path(out),
                                    "--quiet"};
  };
  const ServingProgram cloud(
      {"cloud", "--listen", "127.0.0.1:0", "--model", "any", "--insecure-loopback", "--seed", "3", "--quiet"});
  REQUIRE(run_program(masked("train", "one")).code == 0);
  const Outcome edge = run_program(
      with(masked("edge", "two"), {"--connect", cloud.place(), "--insecure-loopback", "--finish", "encrypted"}));
  INFO(edge.err);
  REQUIRE(edge.code == 0);
  const auto model = [&](const char* run) { return read_text(folder.path(run) + "/model/model.safetensors"); };
  CHECK(!model("one").empty());
  CHECK(model("one") == model("two"));
}

TEST_CASE("split: both sides stop, by Ctrl-C and killed, and go on to the same weights") {
  if (!has_net()) return;
  const TemporaryFolder folder;
  const auto train = [&](const char* verb, const char* out) {
    return with(vit(verb, "400", folder.path(out)), {"--checkpoint-every", "20"});
  };
  REQUIRE(run_program(train("train", "one")).code == 0);
  const auto cloud_args = [&](const std::string& place, const char* out = "cloud") {
    return std::vector<std::string>{"cloud",  "--listen", place,   "--model",        "any",    "--insecure-loopback",
                                    "--seed", "3",        "--out", folder.path(out), "--quiet"};
  };
  auto cloud = std::make_unique<ServingProgram>(cloud_args("127.0.0.1:0"));
  const std::string place = cloud->place();
  const std::vector<std::string> there = {"--connect",  place, "--insecure-loopback", "--finish", "encrypted",
                                          "--attempts", "200"};
  {
    RunningProgram edge(with(train("edge", "two"), there), ".");
    REQUIRE(edge.wait_until([&] { return std::filesystem::exists(folder.path("two/checkpoints/step-00000060")); }));
    edge.signal(SIGINT);
    const Outcome stopped = edge.wait();
    CHECK(stopped.code == 130);
    CHECK(stopped.err.find("go on with: equigrad edge vit --connect") != std::string::npos);
  }
  CHECK(cloud->stop().code == 0);
  cloud = std::make_unique<ServingProgram>(cloud_args(place));
  const Outcome second = run_program(with({"edge", "vit", "--quiet", "--resume", folder.path("two")}, there));
  INFO(second.err);
  REQUIRE(second.code == 0);
  CHECK(weights(folder.path("one")) == weights(folder.path("two")));

  // In the place of a cloud that is killed stands one that knows nothing of the run: the edge ends and says how to go
  // on.
  {
    RunningProgram edge(with(train("edge", "three"), there), ".");
    REQUIRE(edge.wait_until([&] { return std::filesystem::exists(folder.path("three/checkpoints/step-00000060")); }));
    cloud->program().signal(SIGKILL);
    cloud->program().wait();
    cloud = std::make_unique<ServingProgram>(cloud_args(place, "elsewhere"));
    const Outcome lost = edge.wait();
    INFO(lost.err);
    CHECK(lost.code == 2);
    CHECK(lost.err.find("the last checkpoint is kept, go on with: equigrad edge vit") != std::string::npos);
  }
  CHECK(cloud->stop().code == 0);
  cloud = std::make_unique<ServingProgram>(cloud_args(place));
  const Outcome third = run_program(with({"edge", "vit", "--quiet", "--resume", folder.path("three")}, there));
  INFO(third.err);
  REQUIRE(third.code == 0);
  CHECK(weights(folder.path("one")) == weights(folder.path("three")));
  CHECK(cloud->stop().code == 0);
}

TEST_CASE("split: wrong usage is one line") {
  if (!has_net()) return;
  const TemporaryFolder folder;
  const auto refused = [&](const std::vector<std::string>& args, const char* words) {
    const Outcome outcome = run_program(args);
    INFO(outcome.err);
    CHECK(outcome.code == 2);
    CHECK(outcome.err.find(words) != std::string::npos);
    CHECK(std::count(outcome.err.begin(), outcome.err.end(), '\n') == 1);
  };
  write_text(folder.path("films.tsv"), "label\ttext\na\tgood film\nb\tbad film\na\tfine film\nb\tdull film\n");
  refused({"cloud", "--listen", "127.0.0.1:0", "--model", "any"}, "--certs is needed");
  refused({"cloud", "--listen", "nowhere", "--model", "any", "--insecure-loopback"}, "is not HOST:PORT");
  refused({"cloud", "--listen", "0.0.0.0:0", "--model", "any", "--insecure-loopback"}, "only loopback");
  refused({"edge", "vit", "--data", "shapes", "--steps", "1", "--connect", "127.0.0.1:1", "--insecure-loopback",
           "--attempts", "1", "--out", folder.path("a")},
          "127.0.0.1:1");
  refused({"edge", "vit", "--data", "shapes", "--steps", "1", "--connect", "127.0.0.1:1", "--insecure-loopback",
           "--clip", "1"},
          "clip");
  refused({"edge", "vit", "--data", "shapes", "--steps", "1", "--connect", "127.0.0.1:1", "--insecure-loopback",
           "--finish", "x"},
          "neither decrypt nor encrypted");
  // Held weights of blocks would learn there.
  for (const char* model : {"vit", "bert"})
    refused({"edge", model, "--data", model[0] == 'v' ? "shapes" : folder.path("films.tsv"), "--dim", "16", "--heads",
             "2", "--batch", "2", "--steps", "1", "--connect", "127.0.0.1:1", "--insecure-loopback", "--freeze",
             "blocks.0.*", "--out", folder.path("held")},
            "freeze holds weights of the encoder");
  refused({"certs", "--out", folder.path("c"), "--edge", "../x"}, "no name for an edge");
  refused({"certs", "--out", folder.path("c"), "--edge", ",", "--threads", "1"}, "--edge: ','");
  refused({"certs", "--out", folder.path("c"), "--edge", "a,b,a"}, "'a' is there twice");
  CHECK(!std::filesystem::exists(folder.path("c")));
  write_text(folder.path("config.json"), "{\"dimm\": 4}");
  refused({"cloud", "--listen", "127.0.0.1:0", "--model", folder.path("config.json"), "--insecure-loopback"}, "dim");
}
