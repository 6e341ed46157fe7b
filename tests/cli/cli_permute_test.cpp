// equigrad symmetries, keygen and permute on model folders: what they say, what they write, what they refuse.

#include "program.h"

#include "core/base/bytes.h"
#include "data/safetensors.h"
#include "nn/hub/folder.h"
#include "support/temporary_folder.h"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <sys/stat.h>

using namespace eg;
using nlohmann::json;
using test::Outcome;
using test::run_program;
using test::TemporaryFolder;

namespace fs = std::filesystem;

namespace {

json vit() {
  return {{"model_type", "vit"},
          {"architectures", {"ViTForImageClassification"}},
          {"hidden_size", 12},
          {"num_hidden_layers", 2},
          {"num_attention_heads", 3},
          {"intermediate_size", 10},
          {"image_size", 8},
          {"patch_size", 4},
          {"id2label", {{"0", "a"}, {"1", "b"}, {"2", "c"}, {"3", "d"}}}};
}
json bert() {
  return {{"model_type", "bert"},     {"architectures", {"BertForMaskedLM"}},
          {"hidden_size", 12},        {"num_hidden_layers", 2},
          {"num_attention_heads", 3}, {"intermediate_size", 10},
          {"vocab_size", 20},         {"max_position_embeddings", 16}};
}
json gpt2() {
  return {{"model_type", "gpt2"}, {"architectures", {"GPT2LMHeadModel"}},
          {"n_embd", 12},         {"n_layer", 2},
          {"n_head", 3},          {"vocab_size", 20},
          {"n_positions", 16}};
}
json llama() {
  return {{"model_type", "llama"},
          {"architectures", {"LlamaForCausalLM"}},
          {"hidden_size", 16},
          {"num_hidden_layers", 2},
          {"num_attention_heads", 4},
          {"num_key_value_heads", 2},
          {"intermediate_size", 10},
          {"vocab_size", 20},
          {"max_position_embeddings", 16}};
}

/// A folder with random weights that are general everywhere.
void make_folder(const std::string& folder, const json& config) {
  const std::unique_ptr<hub::Model> model = hub::make_model(config, {7, 0});
  std::uint64_t tag = 1;
  for (const auto& [name, value] : model->module().state_dict()) {
    Tensor slot = value;
    slot.copy_from(random_normal(slot.shape(), {tag++, 3}, 0.1, 0.4, slot.dtype()));
  }
  hub::save_model(*model, folder);
}

Tensor inputs_for(const json& config) {
  if (config["model_type"] == "vit") return random_normal({3, 3, 8, 8}, {5, 0});
  return random_integers({3, 9}, {6, 0}, 0, 20);
}
const char* input_of(const json& config) { return config["model_type"] == "vit" ? "pixel_values" : "input_ids"; }

void save(const std::string& path, const std::string& name, const Tensor& x) {
  data::save_safetensors(path, {{name, x}});
}
Tensor logits(const std::string& path) { return *data::load_safetensors(path).find("logits"); }

void ok(const std::vector<std::string>& args, const std::string& folder) {
  const Outcome r = run_program(args, folder);
  CHECK_MESSAGE(r.code == 0, args[0], ": ", r.err);
}

void same_folders(const std::string& a, const std::string& b) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(a)) names.push_back(entry.path().filename());
  CHECK(!names.empty());
  std::size_t there = 0;
  for ([[maybe_unused]] const auto& entry : fs::directory_iterator(b)) ++there;
  CHECK(there == names.size());
  for (const std::string& name : names)
    CHECK_MESSAGE(test::read_text(join_path(a, name)) == test::read_text(join_path(b, name)), name);
}

} // namespace

TEST_CASE("a permuted folder on permuted inputs gives permuted outputs; undone, it is the old one byte for byte") {
  for (const json& config : {vit(), bert(), gpt2(), llama()}) {
    const TemporaryFolder place;
    const std::string here = place.path("");
    const std::string family = config["model_type"];
    CAPTURE(family);
    make_folder(here + "/m", config);
    save(here + "/in.safetensors", input_of(config), inputs_for(config));
    ok({"keygen", "--model", "m", "--out", "a.key"}, here);
    ok({"keygen", "--model", "m", "--out", "b.key"}, here);
    ok({"permute", "--model", "m", "--key", "a.key", "--out", "p"}, here);
    const std::string longest(255, 'p'); // as long as a name may be
    ok({"permute", "--model", "m", "--key", "a.key", "--out", longest}, here);
    CHECK(test::read_text(here + "/" + longest + "/model.safetensors") ==
          test::read_text(here + "/p/model.safetensors"));
    ok({"permute", "--model", "m", "--key", "a.key", "--tensors", "in.safetensors", "--tensors-out", "pin.safetensors"},
       here);
    ok({"infer", "--model", "m", "--inputs", "in.safetensors", "--outputs", "y.safetensors", "--dtype", "f64"}, here);
    ok({"infer", "--model", "p", "--inputs", "pin.safetensors", "--outputs", "py.safetensors", "--dtype", "f64"}, here);
    ok({"infer", "--model", "p", "--inputs", "in.safetensors", "--outputs", "wrong.safetensors", "--dtype", "f64"},
       here);
    ok({"permute", "--model", "m", "--key", "a.key", "--inverse", "--tensors", "py.safetensors", "--tensors-out",
        "back.safetensors"},
       here);
    const Tensor y = logits(here + "/y.safetensors");
    CHECK(relative_error(logits(here + "/back.safetensors"), y) < 1e-12);
    CHECK(relative_error(logits(here + "/wrong.safetensors"), y) > 1e-2); // plain inputs

    ok({"permute", "--model", "p", "--key", "a.key", "--inverse", "--out", "b"}, here);
    same_folders(here + "/m", here + "/b");
    ok({"permute", "--model", "p", "--from-key", "a.key", "--key", "b.key", "--out", "q"}, here);
    ok({"permute", "--model", "q", "--key", "b.key", "--inverse", "--out", "c"}, here);
    same_folders(here + "/m", here + "/c");
    ok({"permute", "--model", "m", "--key", "b.key", "--out", "r"}, here);
    same_folders(here + "/q", here + "/r");

    // Undone with the wrong key: refused, and useless where it is forced.
    const Outcome refused = run_program({"permute", "--model", "p", "--key", "b.key", "--inverse", "--out", "w"}, here);
    CHECK(refused.code == 2);
    CHECK(refused.err.find("the result would be useless") != std::string::npos);
    ok({"permute", "--model", "p", "--key", "b.key", "--inverse", "--force", "--out", "w"}, here);
    ok({"infer", "--model", "w", "--inputs", "in.safetensors", "--outputs", "w.safetensors", "--dtype", "f64"}, here);
    CHECK(relative_error(logits(here + "/w.safetensors"), y) > 1e-2);

    // inner: inputs and outputs are as ever.
    ok({"keygen", "--model", "m", "--out", "inner.key", "--groups", "inner"}, here);
    ok({"permute", "--model", "m", "--key", "inner.key", "--out", "i"}, here);
    ok({"infer", "--model", "i", "--inputs", "in.safetensors", "--outputs", "iy.safetensors", "--dtype", "f64"}, here);
    CHECK(relative_error(logits(here + "/iy.safetensors"), y) < 1e-12);
    CHECK(test::read_text(here + "/i/model.safetensors") != test::read_text(here + "/m/model.safetensors"));
  }
}

TEST_CASE("both names of the bias of an untied decoder move with the vocabulary") {
  const TemporaryFolder place;
  const std::string here = place.path("");
  json config = bert();
  config["tie_word_embeddings"] = false;
  make_folder(here + "/m", config);
  ok({"keygen", "--model", "m", "--out", "a.key"}, here);
  ok({"permute", "--model", "m", "--key", "a.key", "--out", "p"}, here);
  const data::TensorFile plain = data::load_safetensors(here + "/m/model.safetensors");
  const data::TensorFile moved = data::load_safetensors(here + "/p/model.safetensors");
  CHECK(!same_bits(*moved.find("cls.predictions.bias"), *plain.find("cls.predictions.bias")));
  CHECK(same_bits(*moved.find("cls.predictions.bias"), *moved.find("cls.predictions.decoder.bias")));
}

TEST_CASE("the id of padding, which a classifier looks for, keeps its number") {
  const TemporaryFolder place;
  json config = gpt2();
  config["architectures"] = {"GPT2ForSequenceClassification"};
  config["pad_token_id"] = 3;
  test::write_text(place.path() + "/c.json", config.dump());
  const Outcome r = run_program({"symmetries", "--config", "c.json", "--json", "-"}, place.path());
  REQUIRE_MESSAGE(r.code == 0, r.err);
  bool found = false;
  const json result = json::parse(r.out);
  for (const json& g : result["groups"]) {
    if (g["name"] != "vocabulary") continue;
    found = true;
    CHECK(g["size"] == 19);
    for (const json& axis : g["axes"]) {
      REQUIRE(axis["places"].size() == 19);
      for (const json& id : axis["places"]) CHECK(id != 3);
    }
  }
  CHECK(found);
}

TEST_CASE("the row of padding, which gets no gradient, keeps its number") {
  json encoder = bert(), llama_body = llama(), unpadded = bert();
  encoder["architectures"] = {"BertModel"}; // its padding is 0 where the config is silent
  llama_body["architectures"] = {"LlamaModel"};
  llama_body["pad_token_id"] = 3;
  unpadded["pad_token_id"] = nullptr;
  for (const auto& each : {std::pair{encoder, 0}, {llama_body, 3}, {bert(), 0}, {unpadded, -1}}) {
    const json& config = each.first; // clang 14 captures no structured binding
    const int padding = each.second;
    CAPTURE(config.dump());
    const TemporaryFolder place;
    test::write_text(place.path("c.json"), config.dump());
    const Outcome r = run_program({"symmetries", "--config", "c.json", "--json", "-"}, place.path());
    REQUIRE_MESSAGE(r.code == 0, r.err);
    int found = 0;
    const json result = json::parse(r.out);
    for (const json& g : result["groups"]) {
      if (g["name"] != "vocabulary") continue;
      ++found;
      CHECK(g["size"] == (padding < 0 ? 20 : 19));
      for (const json& axis : g["axes"])
        if (axis.contains("places"))
          for (const json& id : axis["places"]) CHECK(id != padding);
    }
    CHECK(found == 1);
  }
}

TEST_CASE("a folder whose vocabulary moved has the plain folder's gradients, moved") {
  json encoder = bert(), llama_body = llama();
  encoder["architectures"] = {"BertModel"};
  llama_body["architectures"] = {"LlamaModel"};
  llama_body["pad_token_id"] = 3;
  for (const auto& each :
       {std::pair{encoder, "embeddings.word_embeddings.weight"}, std::pair{llama_body, "embed_tokens.weight"}}) {
    const json& config = each.first;
    const char* table = each.second;
    CAPTURE(table);
    const TemporaryFolder place;
    const std::string here = place.path("");
    make_folder(here + "/m", config);
    const Tensor ids = Tensor::arange(20).reshape({2, 10}); // every word
    save(here + "/ids.safetensors", "input_ids", ids);
    ok({"keygen", "--model", "m", "--groups", "vocabulary", "--out", "a.key"}, here);
    ok({"permute", "--model", "m", "--key", "a.key", "--out", "p"}, here);
    ok({"permute", "--model", "m", "--key", "a.key", "--tensors", "ids.safetensors", "--tensors-out",
        "moved.safetensors"},
       here);
    const Tensor moved = *data::load_safetensors(here + "/moved.safetensors").find("input_ids");
    const auto gradient = [&](const std::string& model, const Tensor& of) {
      const std::int64_t dim = config["hidden_size"];
      data::save_safetensors(here + "/in.safetensors", {{"input_ids", of},
                                                        {"cotangent.last_hidden_state",
                                                         random_normal({2, 10, dim}, {8, 0}, 0.0, 1.0, DType::f64)}});
      ok({"infer", "--model", model, "--inputs", "in.safetensors", "--outputs", "y.safetensors", "--gradients",
          "g.safetensors", "--dtype", "f64"},
         here);
      return *data::load_safetensors(here + "/g.safetensors").find(table);
    };
    const Tensor plain = gradient("m", ids), permuted = gradient("p", moved);
    CHECK(relative_error(embedding(permuted, moved), embedding(plain, ids)) < 1e-12);
  }
}

TEST_CASE("symmetries --json says what interfaces rely on") {
  const TemporaryFolder place;
  test::write_text(place.path() + "/c.json", llama().dump());
  const Outcome r = run_program({"symmetries", "--config", "c.json", "--json", "-"}, place.path());
  REQUIRE_MESSAGE(r.code == 0, r.err);
  const json result = json::parse(r.out);
  double bits = 0.0;
  std::set<std::string> kinds;
  for (const json& g : result["groups"]) {
    for (const char* field : {"name", "size", "kind", "log2_size", "axes"}) CHECK(g.contains(field));
    CHECK(!g["axes"].empty());
    for (const json& axis : g["axes"])
      CHECK((axis.contains("tensor") && (axis.contains("axis") || axis.contains("values"))));
    kinds.insert(g["kind"]);
    if (g["in_key"]) bits += g["log2_size"].get<double>();
  }
  CHECK(kinds == std::set<std::string>{"symmetric", "trivial", "wreath"});
  CHECK(result["log2_key_space"].get<double>() == doctest::Approx(bits));
  const Outcome table = run_program({"symmetries", "--config", "c.json"}, place.path());
  CHECK(table.out.find("residual") != std::string::npos);
  CHECK(table.out.find("no measure of security") != std::string::npos);
  CHECK(table.out.find("certified on a small copy of the model") != std::string::npos);
  const json& certificate = result["certificate"];
  CHECK(certificate["groups"] == std::count_if(result["groups"].begin(), result["groups"].end(),
                                               [](const json& g) { return g["kind"] != "trivial"; }));
  CHECK(certificate["generators"] > certificate["groups"]);
  for (const char* error : {"forward_error", "gradient_error"}) {
    CHECK(certificate[error].get<double>() > 0.0);
    CHECK(certificate[error].get<double>() < 1e-9);
  }
  const Outcome skipped =
      run_program({"symmetries", "--config", "c.json", "--no-certify", "--json", "-"}, place.path());
  CHECK(json::parse(skipped.out)["certificate"].is_null());
  CHECK(json::parse(skipped.out)["groups"] == result["groups"]);
}

TEST_CASE("keys and folders that do not fit are refused, and nothing is left behind") {
  const TemporaryFolder place;
  const std::string here = place.path("");
  make_folder(here + "/m", gpt2());
  json other = gpt2();
  other["n_embd"] = 24;
  make_folder(here + "/other", other);
  ok({"keygen", "--model", "m", "--out", "a.key"}, here);
  ok({"keygen", "--out", "plain.key"}, here);
  const auto refused = [&](const std::vector<std::string>& args, const std::string& words) {
    const Outcome r = run_program(args, here);
    CHECK_MESSAGE(r.code == 2, args[0], ": ", r.out);
    CHECK_MESSAGE(r.err.find(words) != std::string::npos, words, " is not in: ", r.err);
    CHECK(std::count(r.err.begin(), r.err.end(), '\n') <= 2);
    CHECK(!fs::exists(here + "/p"));
    for (const auto& entry : fs::directory_iterator(here))
      CHECK(entry.path().string().find(".tmp-") == std::string::npos);
  };
  refused({"permute", "--model", "other", "--key", "a.key", "--out", "p"}, "was made for another model");
  refused({"permute", "--model", "m", "--key", "plain.key", "--out", "p"}, "was made for no model");
  refused({"permute", "--model", "m", "--key", "a.key", "--inverse", "--out", "p"}, "is not marked as permuted");
  refused({"permute", "--model", "m", "--key", "a.key", "--out", "other"}, "is there already");
  refused({"permute", "--model", "m", "--key", "a.key"}, "give --out");
  refused({"keygen", "--model", "m", "--out", "p", "--groups", "transformer.h.7.mlp.c_fc"}, "no group fits");
  refused({"keygen", "--model", "m", "--out", "p", "--groups", "input_ids.axis1"},
          "fixed by causal scaled_dot_product_attention at blocks.0.attention");
  refused({"keygen", "--model", "m", "--out", "a.key"}, "never overwritten");
  refused({"keygen", "--out", "p", "--groups", "all"}, "--groups needs --model or --config");
  refused({"symmetries"}, "give --model FOLDER or --config FILE");

  const std::string bytes = test::read_text(here + "/a.key");
  const auto written = [&](const std::string& text, mode_t mode) {
    std::ofstream(here + "/bad.key", std::ios::binary).write(text.data(), static_cast<std::streamsize>(text.size()));
    REQUIRE(::chmod((here + "/bad.key").c_str(), mode) == 0);
  };
  written(bytes, 0644);
  refused({"permute", "--model", "m", "--key", "bad.key", "--out", "p"}, "open to others");
  written(bytes.substr(0, bytes.size() - 5), 0600);
  refused({"permute", "--model", "m", "--key", "bad.key", "--out", "p"}, "truncated");
  std::string changed = bytes;
  changed[60] = static_cast<char>(changed[60] ^ 1); // in the label
  written(changed, 0600);
  refused({"permute", "--model", "m", "--key", "bad.key", "--out", "p"}, "damaged");
}

TEST_CASE("what may hold plain weights or a key is not copied, and modes stay") {
  const TemporaryFolder place;
  const std::string here = place.path();
  make_folder(here + "/m", gpt2());
  test::write_text(here + "/m/pytorch_model.bin", "plain weights");
  test::write_text(here + "/m/vocab.json", "{}");
  fs::create_directory(here + "/m/onnx");
  fs::copy_file(here + "/m/model.safetensors", here + "/m/other.safetensors");
  ok({"keygen", "--model", "m", "--out", "my.key"}, here);
  fs::rename(here + "/my.key", here + "/m/my.key");
  REQUIRE(::chmod((here + "/m/model.safetensors").c_str(), 0600) == 0);
  const Outcome r = run_program({"permute", "--model", "m", "--key", "m/my.key", "--out", "p/"}, here);
  REQUIRE_MESSAGE(r.code == 0, r.err);
  for (const char* name : {"pytorch_model.bin", "my.key", "other.safetensors", "onnx"}) {
    CHECK(!fs::exists(here + "/p/" + name));
    CHECK(r.out.find(name) != std::string::npos);
  }
  // The key moves the vocabulary: the tokenizer is kept, but not where anybody would take its ids for the model's.
  CHECK(!fs::exists(here + "/p/vocab.json"));
  CHECK(fs::exists(here + "/p/plain_tokenizer/vocab.json"));
  CHECK((fs::status(here + "/p/model.safetensors").permissions() & fs::perms::group_read) == fs::perms::none);
  // The model's own files are not written over.
  const std::string before = test::read_text(here + "/m/config.json");
  CHECK(run_program({"symmetries", "--model", "m", "--json", "m/config.json"}, here).code == 2);
  CHECK(run_program({"keygen", "--model", "m", "--out", "k", "--json", "m/config.json"}, here).code == 2);
  CHECK(test::read_text(here + "/m/config.json") == before);
}

TEST_CASE("a key is not copied whatever its name, and is named") {
  const TemporaryFolder place;
  const std::string here = place.path();
  make_folder(here + "/m", gpt2());
  ok({"keygen", "--model", "m", "--out", "a.key"}, here);
  for (const char* folder : {"keys", "1_Pooling"}) fs::create_directory(here + "/m/" + folder);
  test::write_text(here + "/m/1_Pooling/config.json", "{}");
  const std::vector<std::string> copies = {"mine.json", "notes.txt", "README.md", "keys/key.json"};
  for (const std::string& copy : copies) fs::copy_file(here + "/a.key", here + "/m/" + copy);
  const Outcome r = run_program({"permute", "--model", "m", "--key", "a.key", "--out", "p", "--json", "r.json"}, here);
  REQUIRE_MESSAGE(r.code == 0, r.err);
  const std::string key = test::read_text(here + "/a.key");
  for (const auto& entry : fs::recursive_directory_iterator(here + "/p"))
    if (entry.is_regular_file()) CHECK_MESSAGE(test::read_text(entry.path()) != key, entry.path().string());
  CHECK(fs::exists(here + "/p/1_Pooling/config.json"));
  const json left_out = json::parse(test::read_text(here + "/r.json"))["left_out"];
  for (const std::string& copy : copies) {
    CHECK_MESSAGE(r.out.find("not copied, it is a key: " + copy + "\n") != std::string::npos, r.out);
    CHECK(std::count(left_out.begin(), left_out.end(), json(copy)) == 1);
  }
}

TEST_CASE("a copied folder keeps its mode") {
  const TemporaryFolder place;
  const std::string here = place.path();
  make_folder(here + "/m", gpt2());
  ok({"keygen", "--model", "m", "--out", "a.key"}, here);
  for (const auto& [name, mode] : {std::pair{"closed", 0700U}, {"open", 0755U}, {"read_only", 0550U}}) {
    const std::string folder = here + "/m/" + name;
    fs::create_directory(folder);
    test::write_text(folder + "/config.json", "{}");
    fs::permissions(folder, fs::perms(mode));
  }
  ok({"permute", "--model", "m", "--key", "a.key", "--out", "p"}, here);
  const auto mode = [&](const char* name) { return fs::status(here + "/p/" + name).permissions(); };
  CHECK(mode("closed") == fs::perms(0700));
  CHECK(mode("open") == fs::perms(0755));
  CHECK(mode("read_only") == fs::perms(0750)); // its owner may write
}

TEST_CASE("a tokenizer in a folder of the model's does not lie beside other ids") {
  const TemporaryFolder place;
  const std::string here = place.path();
  make_folder(here + "/m", gpt2());
  test::write_text(here + "/m/vocab.json", "{}");
  fs::create_directory(here + "/m/0_Words");
  test::write_text(here + "/m/0_Words/vocab.txt", "a");
  ok({"keygen", "--model", "m", "--out", "a.key"}, here);
  ok({"keygen", "--model", "m", "--out", "b.key"}, here);
  ok({"keygen", "--model", "m", "--out", "inner.key", "--groups", "inner"}, here);
  const Outcome r = run_program({"permute", "--model", "m", "--key", "a.key", "--out", "p"}, here);
  REQUIRE_MESSAGE(r.code == 0, r.err);
  CHECK(!fs::exists(here + "/p/0_Words"));
  CHECK_MESSAGE(
      r.out.find("not copied, its tokenizer gives other ids than the model's: 0_Words\n") != std::string::npos, r.out);
  // The files that were set aside stay so under another key.
  ok({"permute", "--model", "p", "--from-key", "a.key", "--key", "b.key", "--out", "q"}, here);
  CHECK(fs::exists(here + "/q/plain_tokenizer/vocab.json"));
  ok({"permute", "--model", "m", "--key", "inner.key", "--out", "i"}, here);
  CHECK(fs::exists(here + "/i/0_Words/vocab.txt"));
}

TEST_CASE("no byte of a key comes out anywhere") {
  const TemporaryFolder place;
  const std::string here = place.path("");
  make_folder(here + "/m", gpt2());
  std::string told;
  const auto run = [&](const std::vector<std::string>& args) {
    const Outcome r = run_program(args, here);
    told += r.out + r.err;
    return r.code;
  };
  CHECK(run({"keygen", "--model", "m", "--out", "a.key", "--json", "k.json"}) == 0);
  CHECK(run({"permute", "--model", "m", "--key", "a.key", "--out", "p", "--json", "p.json"}) == 0);
  CHECK(run({"permute", "--model", "p", "--key", "a.key", "--out", "q"}) == 2);
  CHECK(run({"symmetries", "--model", "p", "--json", "s.json"}) == 0);
  const std::string file = test::read_text(here + "/a.key");
  const std::string secret = file.substr(16, 32);
  std::string hex;
  for (const char c : secret)
    hex += "0123456789abcdef"[static_cast<unsigned char>(c) >> 4], hex += "0123456789abcdef"[c & 15];
  for (const auto& entry : fs::recursive_directory_iterator(here))
    if (entry.is_regular_file() && entry.path().filename() != "a.key") told += test::read_text(entry.path());
  CHECK(told.size() > 10000);
  for (std::size_t i = 0; i + 6 <= secret.size(); ++i) CHECK(told.find(secret.substr(i, 6)) == std::string::npos);
  for (std::size_t i = 0; i + 12 <= hex.size(); i += 2) CHECK(told.find(hex.substr(i, 12)) == std::string::npos);
  CHECK(file.find(secret.substr(0, 6)) != std::string::npos); // the search finds what is there
}
