// equigrad inspect: tables, statistics, folders, and files that are malformed.

#include "cli/program.h"
#include "data/npy.h"
#include "data/safetensors.h"
#include "nn/hub/folder.h"

#include <algorithm>
#include <cmath>
#include <doctest/doctest.h>
#include <filesystem>
#include <limits>
#include <sys/resource.h>
#include <sys/stat.h>

using namespace eg;
using namespace eg::test;
using nlohmann::json;

namespace {

/// Exit code 2, nothing on stdout, exactly this line on stderr.
void check_refused(const std::vector<std::string>& args, const std::string& message) {
  const Outcome got = run_program(args);
  CHECK(got.code == 2);
  CHECK(got.out.empty());
  CHECK(got.err == "equigrad: " + message + "\n");
}

const Tensor holes =
    Tensor::from<float>({1.0F, -3.0F, std::nanf(""), std::numeric_limits<float>::infinity(), 5.0F, 0.0F}, {2, 3});

} // namespace

TEST_CASE("inspect: a file as a table and as JSON") {
  const TemporaryFolder folder;
  const std::string path = folder.path("w.safetensors");
  data::save_safetensors(path, {{"holes", holes}, {"ids", Tensor::arange(1500)}}, {{"format", "pt"}});
  const Outcome got = run_program({"inspect", path});
  CHECK(got.code == 0);
  CHECK(got.err.empty());
  CHECK(got.out == "name   dtype  shape    bytes\n"
                   "ids    I64    [1500]  12,000\n"
                   "holes  F32    [2, 3]      24\n"
                   "metadata format = pt\n"
                   "2 tensors, 1,506 parameters, 12.0 kB\n");
  const json result = json::parse(run_program({"inspect", path, "--stats", "--json", "-"}).out);
  CHECK(result["format"] == "safetensors");
  CHECK(result["totals"] == json{{"tensors", 2}, {"parameters", 1506}, {"bytes", 12024}});
  CHECK(result["metadata"] == json{{"format", "pt"}});
  const json& last = result["tensors"][1];
  CHECK(last["name"] == "holes");
  CHECK(last["shape"] == json{2, 3});
  CHECK(last["stats"]["nan"] == 1);
  CHECK(last["stats"]["inf"] == 1);
  CHECK(last["stats"]["min"] == -3.0);
  CHECK(last["stats"]["max"] == 5.0);
  CHECK(last["stats"]["mean"] == 0.75);
  CHECK(last["stats"]["std"].get<double>() == doctest::Approx(std::sqrt(8.1875)));
  CHECK(result["tensors"][0]["stats"]["mean"] == 749.5);
  CHECK(run_program({"inspect", path, "--quiet"}).out.empty());
}

TEST_CASE("inspect: one tensor") {
  const TemporaryFolder folder;
  const std::string path = folder.path("w.npz");
  data::save_npz(path, {{"holes", holes}, {"ids", Tensor::arange(3)}});
  const Outcome got = run_program({"inspect", path, "--tensor", "ids"});
  CHECK(got.code == 0);
  CHECK(got.out == "ids I64 [3]\n[0, 1, 2]\ni64 [3]\nmin 0, max 2, mean 1, std 0.8165, NaN 0, Inf 0\n");
  const json result = json::parse(run_program({"inspect", path, "--tensor", "ids", "--json", "-"}).out);
  CHECK(result["tensor"]["values"] == json{0, 1, 2});
  CHECK_FALSE(result.contains("tensors"));
  check_refused({"inspect", path, "--tensor", "idx"}, path + ": there is no tensor 'idx'; did you mean ids?");
  check_refused({"inspect", path, "--tensor", "ids", "--stats"},
                "--stats has no effect with --tensor, which shows them anyway (see equigrad inspect --help)");
}

TEST_CASE("inspect: a model folder") {
  const TemporaryFolder folder;
  const std::string path = folder.path("model");
  std::filesystem::create_directory(path);
  check_refused({"inspect", path},
                path + ": the folder holds neither model.safetensors nor model.safetensors.index.json");
  write_text(path + "/config.json",
             R"({"model_type":"bert","architectures":["BertForMaskedLM"],"hidden_size":32,"torch_dtype":"float32"})");
  CHECK(run_program({"inspect", path}).out == "config.json  model_type bert  architectures [\"BertForMaskedLM\"]  "
                                              "(known to equigrad infer)\n  hidden_size 32\n  torch_dtype float32\n"
                                              "no weights: the folder holds neither model.safetensors nor "
                                              "model.safetensors.index.json\n");
  write_text(path + "/vocab.txt", "[PAD]\n");
  write_text(path + "/preprocessor_config.json", R"({"size":32,"do_flip":true})");
  data::save_sharded(path, {{"a", Tensor::ones({3})}, {"b", Tensor::ones({2})}}, {.max_bytes = 12});
  const json result = json::parse(run_program({"inspect", path, "--json", "-"}).out);
  CHECK(result["folder"]["config"]["model_type"] == "bert");
  CHECK(result["folder"]["config"]["support"] == "known");
  CHECK(result["folder"]["config"]["sizes"]["hidden_size"] == 32);
  CHECK(result["folder"]["model"]["loads"] == false);
  CHECK(result["folder"]["model"]["report"].get<std::string>().find("holds 2 tensors, the config asks for 12 blocks") !=
        std::string::npos);
  CHECK(result["folder"]["tokenizer"] == json{"vocab.txt"});
  CHECK(result["folder"]["preprocessor"] ==
        json{{"supported", false}, {"reason", "do_flip: is not known, and may change the result"}});
  CHECK(result["files"].size() == 2);
  CHECK(result["tensors"][1]["file"] == path + "/model-00002-of-00002.safetensors");
  write_text(path + "/preprocessor_config.json", R"({"image_processor_type":"DeiTImageProcessor","size":32})");
  CHECK(run_program({"inspect", path})
            .out.find("preprocessor_config.json  DeiTImageProcessor, resized to 32x32 (bicubic), middle 224x224, times "
                      "0.00392157, less [0.5, 0.5, 0.5], by [0.5, 0.5, 0.5]\n") != std::string::npos);
  write_text(path + "/config.json", "{");
  const Outcome broken = run_program({"inspect", path});
  CHECK(broken.code == 2);
  CHECK(broken.err.find(path + "/config.json: malformed JSON at line 1") != std::string::npos);
}

TEST_CASE("inspect: what is found before damaged weights, and files that are none") {
  const TemporaryFolder folder;
  const std::string path = folder.path("model");
  write_text(path + "/config.json", R"({"model_type":"vit","id2label":{"0":"cat","1":"dog"}})");
  write_text(path + "/vocab.txt", "[PAD]\n");
  write_text(path + "/pytorch_model.bin", "x");
  const Outcome pickle = run_program({"inspect", path});
  CHECK(pickle.out.find("  id2label with 2 labels\n") != std::string::npos);
  CHECK(pickle.out.find("\ntokenizer: does not read: ") != std::string::npos);
  CHECK(pickle.out.find("no weights: the folder holds neither model.safetensors nor model.safetensors.index.json; "
                        "pytorch_model.bin is a pickle") != std::string::npos);
  const json found = json::parse(run_program({"inspect", path, "--json", "-"}).out)["folder"];
  CHECK(found["config"]["labels"] == 2);
  CHECK(found["tokenizer_check"]["loads"] == false);
  CHECK(found["weights"]["there"] == false);

  write_text(path + "/vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n");
  write_text(path + "/model.safetensors", "1234567");
  const Outcome damaged = run_program({"inspect", path});
  CHECK(damaged.code == 2);
  CHECK(damaged.out.find("config.json  model_type vit") == 0);
  CHECK(damaged.out.find("\ntokenizer: reads: WordPiece, 5 tokens\n") != std::string::npos);
  CHECK(damaged.err == "equigrad: " + path +
                           "/model.safetensors: not a safetensors file: 7 bytes, at least 8 are "
                           "needed\n");
  std::filesystem::remove(path + "/model.safetensors");
  std::filesystem::create_directory(path + "/model.safetensors");
  CHECK(run_program({"inspect", path}).err == "equigrad: " + path + "/model.safetensors: is a folder\n");
  std::filesystem::remove(path + "/config.json");
  REQUIRE(mkfifo((path + "/config.json").c_str(), 0600) == 0);
  check_refused({"inspect", path}, path + "/config.json: is there, but not a regular file");
}

TEST_CASE("inspect: a file of a model folder that holds no tensors") {
  const TemporaryFolder folder;
  for (const char* name : {"config.json", "tokenizer.json", "preprocessor_config.json", "vocab.txt"}) {
    write_text(folder.path(name), "{}");
    check_refused({"inspect", folder.path(name)},
                  folder.path(name) +
                      ": is a file of a model folder and holds no tensors; give the folder: equigrad "
                      "inspect " +
                      folder.path());
  }
  check_refused({"inspect", folder.path("none/config.json")},
                folder.path("none/config.json") + ": cannot open: No such file or directory");
}

TEST_CASE("inspect: one very long name does not widen every row") {
  const TemporaryFolder folder;
  const std::string path = folder.path("w.safetensors");
  const std::string name(100'000, 'n');
  data::NamedTensors tensors = {{name, Tensor::ones({1})}};
  for (int i = 0; i < 100; ++i) tensors.emplace_back("t" + std::to_string(i), Tensor::ones({1}));
  data::save_safetensors(path, tensors);
  const std::string out = run_program({"inspect", path}).out;
  CHECK(out.size() < 2 * name.size());
  CHECK(out.find("\n" + name + "  F32") != std::string::npos);
  CHECK(out.find("\nt7" + std::string(80, ' ') + "F32") != std::string::npos);
}

TEST_CASE("inspect: the statistics of many tensors take time in proportion to their number") {
  const TemporaryFolder folder;
  std::string header;
  for (int i = 0; i < 60'000; ++i)
    header +=
        (i == 0 ? "{" : ",") + ("\"" + std::to_string(i) + R"(":{"dtype":"F32","shape":[0],"data_offsets":[0,0]})");
  header += "}";
  std::string front(8, '\0');
  for (std::size_t i = 0; i < 8; ++i) front[i] = static_cast<char>(header.size() >> 8 * i & 0xff);
  write_text(folder.path("many.safetensors"), front + header);
  rusage before{}, after{};
  getrusage(RUSAGE_CHILDREN, &before);
  CHECK(run_program({"inspect", folder.path("many.safetensors"), "--stats", "--quiet"}).code == 0);
  getrusage(RUSAGE_CHILDREN, &after);
  CHECK(after.ru_utime.tv_sec - before.ru_utime.tv_sec < 4); // 3.6e9 additions took longer
}

TEST_CASE("inspect: whether a folder loads") {
  const TemporaryFolder folder;
  const auto model = hub::make_model({{"model_type", "vit"},
                                      {"architectures", {"ViTModel"}},
                                      {"hidden_size", 12},
                                      {"num_hidden_layers", 1},
                                      {"num_attention_heads", 3},
                                      {"intermediate_size", 10},
                                      {"image_size", 8},
                                      {"patch_size", 4}},
                                     {1, 0});
  const std::string good = folder.path("good");
  hub::save_model(*model, good);
  const Outcome loads = run_program({"inspect", good});
  CHECK(loads.code == 0);
  CHECK(loads.out.find("\nmodel  equigrad infer reads it: every tensor found\n") != std::string::npos);
  CHECK(json::parse(run_program({"inspect", good, "--json", "-"}).out)["folder"]["model"]["loads"] == true);
  auto tensors = data::load_safetensors(good + "/model.safetensors").tensors;
  const std::string gone = tensors.back().first;
  tensors.pop_back();
  data::save_safetensors(good + "/model.safetensors", tensors);
  const Outcome lacks = run_program({"inspect", good});
  CHECK(lacks.code == 0); // the files are well-formed
  CHECK(lacks.out.find("model  equigrad infer does not read it: ") != std::string::npos);
  CHECK(lacks.out.find(gone) != std::string::npos);
  write_text(good + "/config.json", R"({"model_type":"gpt9"})");
  const json unknown = json::parse(run_program({"inspect", good, "--json", "-"}).out)["folder"]["model"];
  CHECK(unknown["loads"] == false);
  CHECK(unknown["report"].get<std::string>().find("gpt9") != std::string::npos);
}

TEST_CASE("inspect: names and texts of a file do not steer the terminal") {
  const TemporaryFolder folder;
  const std::string path = folder.path("w.safetensors");
  const std::string name = "a\x1b]0;title\x07\xC2\x9B\xE2\x80\xAE";
  data::save_safetensors(path, {{name, Tensor::ones({1})}}, {{"k\x1b[2J", "v\r\n"}});
  for (const auto& args : {std::vector<std::string>{"inspect", path},
                           {"inspect", path, "--json", "-"},
                           {"inspect", path, "--tensor", name},
                           {"inspect", path, "--tensor", "b\x1b"}}) {
    const Outcome got = run_program(args);
    const std::string text = got.out + got.err;
    for (const char* raw : {"\x1b", "\x07", "\r", "\xC2\x9B", "\xE2\x80\xAE"})
      CHECK(text.find(raw) == std::string::npos);
  }
  CHECK(json::parse(run_program({"inspect", path, "--json", "-"}).out)["tensors"][0]["name"] == name);
}

TEST_CASE("inspect: what is malformed is one line and exit code 2") {
  const TemporaryFolder folder;
  const std::string path = folder.path("w.safetensors");
  check_refused({"inspect", path}, path + ": no such file");
  write_text(path, "1234567");
  check_refused({"inspect", path}, path + ": not a safetensors file: 7 bytes, at least 8 are needed");
  check_refused({"inspect", path, "--tensor", "a"}, path + ": not a safetensors file: 7 bytes, at least 8 are needed");
  write_text(folder.path("a.npy"), "text");
  check_refused({"inspect", folder.path("a.npy")}, folder.path("a.npy") + ": not an npy file");
  write_text(folder.path("a.npz"), "text");
  check_refused({"inspect", folder.path("a.npz")},
                folder.path("a.npz") + ": not a whole zip archive: it has no directory");
  write_text(folder.path("m.index.json"), R"({"weight_map":{"w":"../w.safetensors"}})");
  check_refused({"inspect", folder.path("m.index.json")},
                folder.path("m.index.json") + ": tensor 'w': its shard '../w.safetensors' is not a plain file name");
  CHECK(run_program({"inspect"}).code == 2);
}
