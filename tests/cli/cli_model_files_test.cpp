// What commands make of the files of a model folder: configs that are wrong, settings of generation, tokenizers of
// permuted folders, pictures.

#include "program.h"

#include "core/base/error.h"
#include "core/base/json.h"
#include "core/ops.h"
#include "data/image.h"
#include "data/preprocess.h"
#include "data/safetensors.h"
#include "nn/decoder.h"
#include "nn/generate.h"
#include "nn/hub/folder.h"
#include "nn/vit.h"
#include "support/byte_tokenizer.h"
#include "support/small_models.h"

#include <doctest/doctest.h>
#include <filesystem>

using namespace eg;
using nlohmann::json;
using test::Outcome;
using test::run_program;
using test::TemporaryFolder;

namespace fs = std::filesystem;

namespace {

void refused(const Outcome& outcome, const std::string& words) {
  CHECK(outcome.code == 2);
  CHECK_MESSAGE(outcome.err.find(words) != std::string::npos, outcome.err);
  CHECK_MESSAGE(std::count(outcome.err.begin(), outcome.err.end(), '\n') == 1, outcome.err);
}

/// A folder with a GPT-2 of bytes, its tokenizer, and calls of generate.
class Writer {
public:
  Writer() {
    test::write_small_model(folder.path("m"), "gpt2");
    test::write_byte_tokenizer(folder.path("m"));
  }
  Outcome run(std::vector<std::string> args) const { return run_program(args, folder.path()); }
  Outcome generate(std::vector<std::string> more) const {
    more.insert(more.begin(), {"generate", "--model", "m"});
    return run(more);
  }
  json told(std::vector<std::string> more) const {
    more.insert(more.end(), {"--ids", "84,104", "--json", "-"});
    const Outcome outcome = generate(more);
    REQUIRE_MESSAGE(outcome.code == 0, outcome.err);
    return json::parse(outcome.out);
  }
  void says(const json& settings) const { write_json(folder.path("m/generation_config.json"), settings); }

  TemporaryFolder folder;
};

/// A ViT for pictures of 8 x 8, and a picture.
class Viewer {
public:
  Viewer() {
    json config = test::small_config("vit");
    config["image_size"] = 8;
    const auto model = hub::make_model(config, {1, 0});
    test::draw_all(model->module(), {1, 1});
    hub::save_model(*model, folder.path("m"));
    steps({{"size", 8}});
    data::Image image{.height = 9, .width = 10, .channels = 3, .pixels = {}};
    for (int i = 0; i < 270; ++i) image.pixels.push_back(static_cast<std::uint8_t>(i * 37));
    write_file(folder.path("a.png"), data::encode_png(image));
  }
  void steps(const json& what) const { write_json(folder.path("m/preprocessor_config.json"), what); }
  Outcome infer(std::vector<std::string> more = {}) const {
    more.insert(more.begin(), {"infer", "--model", "m", "--image", "a.png"});
    return run_program(more, folder.path());
  }
  TemporaryFolder folder;
};

} // namespace

TEST_CASE("a config.json that is no object is refused by every command, and named") {
  const Writer w;
  for (const char* content : {"[]", "null", "\"x\"", "3"}) {
    test::write_text(w.folder.path("m/config.json"), content);
    test::write_text(w.folder.path("text.txt"), std::string(400, 'a'));
    for (const std::vector<std::string>& args : std::initializer_list<std::vector<std::string>>{
             {"generate", "--model", "m", "--ids", "1"},
             {"infer", "--model", "m", "--inputs", "x", "--outputs", "y"},
             {"symmetries", "--model", "m"},
             {"keygen", "--model", "m", "--out", "new.key"},
             {"verify", "--model", "m"},
             {"inspect", "m"},
             {"train", "gpt2", "--data", "text.txt", "--from", "m", "--steps", "1", "--out", "r"},
             {"train", "vit", "--data", "shapes", "--from", "m", "--steps", "1", "--out", "r"}}) {
      CAPTURE(args.front());
      CAPTURE(std::string(content));
      if (args.front() == "infer")
        data::save_safetensors(w.folder.path("x"), {{"input_ids", Tensor::zeros({1, 2}, DType::i64)}});
      refused(w.run(args), "m/config.json: is not a JSON object");
    }
  }
}

TEST_CASE("generate does what generation_config.json says; flags go before it") {
  const Writer w;
  const auto loaded = hub::load_model(w.folder.path("m"));
  const std::vector<std::int64_t> prompt = {84, 104};
  const json greedy = w.told({"--max-new-tokens", "12"})["ids"];
  w.says({{"repetition_penalty", 1.5}, {"max_new_tokens", 12}, {"eos_token_id", 256}});
  nn::GenerateOptions options{.max_new_tokens = 12, .end_ids = {256}, .rules = {.repetition_penalty = 1.5}};
  const json penalised = w.told({})["ids"];
  CHECK(penalised == json(nn::generate(*loaded.model->decoder(), prompt, options)));
  CHECK(penalised != greedy);
  CHECK(w.told({"--repetition-penalty", "1"})["ids"] == greedy);
  CHECK(w.told({"--ignore-generation-config", "--max-new-tokens", "12"})["ids"] == greedy);
  CHECK(w.told({"--max-new-tokens", "3"})["ids"].size() == 3);

  w.says({{"do_sample", true}, {"temperature", 0.6}, {"top_p", 0.9}, {"max_length", 14}, {"eos_token_id", nullptr}});
  const json sampled = w.told({});
  CHECK(sampled["settings"]["temperature"] == 0.6);
  CHECK(sampled["settings"]["top_p"] == 0.9);
  CHECK(sampled["settings"]["top_k"] == 50); // transformers' own
  CHECK(sampled["ids"].size() == 12);
  CHECK(sampled["ids"] != greedy);
  CHECK(w.told({"--temperature", "0"})["ids"] == greedy);
  CHECK(w.told({"--top-k", "3"})["settings"]["top_k"] == 3);
  CHECK(w.told({"--top-k", "3"})["settings"]["temperature"] == 0.6);
  refused(w.generate({"--ids", "1 2 3 4 5 6 7 8 9 10 11 12 13 14"}), "field 'max_length' is 14");

  w.says({{"num_beams", 4}});
  refused(w.generate({"--ids", "1"}),
          "m/generation_config.json: field 'num_beams' is 4, which is not supported and may change the text");
}

TEST_CASE("flags sample where the folder does not, whatever zeros it holds") {
  const Writer w;
  const std::vector<std::string> flags = {"--top-k", "200", "--seed", "3", "--max-new-tokens", "12", "--ignore-end"};
  const json wanted = w.told(flags);
  CHECK(wanted["settings"]["temperature"] == 1.0);
  for (const json& zeros : {json{{"do_sample", false}, {"temperature", 0.0}},
                            json{{"do_sample", false}, {"temperature", 0.0}, {"top_p", 0.0}}}) {
    w.says(zeros);
    const json told = w.told(flags);
    CHECK(told["settings"] == wanted["settings"]);
    CHECK(told["ids"] == wanted["ids"]);
  }
  CHECK(w.told({"--max-new-tokens", "12", "--ignore-end"})["ids"] != wanted["ids"]);
  CHECK(w.told({"--temperature", "0.7", "--max-new-tokens", "2"})["settings"]["top_p"] == 1.0);
}

TEST_CASE("dynamic rope is read beyond the model's positions by generate too") {
  const TemporaryFolder folder;
  json config = test::small_config("llama");
  config["max_position_embeddings"] = 8;
  config["rope_scaling"] = {{"rope_type", "dynamic"}, {"factor", 2.0}};
  const auto model = hub::make_model(config, {1, 0});
  hub::save_model(*model, folder.path("m"));
  const auto ids = [&](const std::vector<std::string>& more) {
    std::vector<std::string> args = {"generate", "--model", "m", "--ids", "1 2 3", "--ignore-end", "--json", "-"};
    args.insert(args.end(), more.begin(), more.end());
    const Outcome outcome = run_program(args, folder.path());
    REQUIRE_MESSAGE(outcome.code == 0, outcome.err);
    return json::parse(outcome.out)["ids"].size();
  };
  CHECK(ids({}) == 100);
  CHECK(ids({"--max-new-tokens", "20"}) == 20);
  write_json(folder.path("m/generation_config.json"), json{{"use_cache", false}});
  refused(run_program({"generate", "--model", "m", "--ids", "1"}, folder.path()), "use_cache false");
}

TEST_CASE("files of other formats and no files are called what they are") {
  const Writer w;
  test::write_text(w.folder.path("x.pt"), std::string("\x80\x02}q\x00.", 6) + std::string(64, 'x'));
  test::write_text(w.folder.path("z.bin"), std::string("PK\x03\x04", 4) + std::string(64, 'x'));
  test::write_text(w.folder.path("n.npy"), "\x93NUMPY" + std::string(64, ' '));
  const std::string pickle = ": is a pickle, which can run any program";
  refused(w.run({"generate", "--model", "x.pt", "--ids", "1"}), "x.pt" + pickle);
  refused(w.run({"generate", "--model", "x.pt", "--prompt", "a"}), "x.pt" + pickle);
  refused(w.run({"infer", "--model", "x.pt", "--inputs", "m/model.safetensors", "--outputs", "o"}), "x.pt" + pickle);
  refused(w.run({"inspect", "x.pt"}), "x.pt" + pickle);
  for (const auto& [name, words] : std::initializer_list<std::pair<std::string, std::string>>{
           {"x.pt", pickle}, {"z.bin", ": is a zip archive"}, {"n.npy", ": is an npy file"}})
    refused(w.run({"infer", "--model", "m", "--inputs", name, "--outputs", "o"}), name + words);
  refused(w.generate({"--prompt", "a", "--tokenizer", "/dev/null"}), "/dev/null: is not a regular file");
  refused(w.run({"generate", "--model", "/dev/null", "--ids", "1"}), "/dev/null: not a regular file");
  refused(w.run({"generate", "--model", "/dev/null", "--prompt", "a"}), "/dev/null: is not a regular file");
  // As a folder that may not be searched, which root may: links in a circle.
  fs::create_directory(w.folder.path("round"));
  fs::create_symlink("config.json", w.folder.path("round/config.json"));
  refused(w.run({"inspect", "round"}), "round/config.json: cannot be looked at: Too many levels of symbolic links");
}

TEST_CASE("what a pass refuses names the file of its inputs, or the model") {
  const Writer w;
  data::save_safetensors(w.folder.path("x.safetensors"),
                         {{"input_ids", Tensor::from(std::vector<std::int64_t>{1, 300}, {1, 2})}});
  refused(w.run({"infer", "--model", "m", "--inputs", "x.safetensors", "--outputs", "o"}), "equigrad: x.safetensors: ");
  const auto loaded = hub::load_model(w.folder.path("m"));
  for (nn::Parameter& p : loaded.model->module().named_parameters())
    if (p.name == "norm.weight") p.value.copy_from(Tensor::full(p.value.shape(), NAN));
  hub::save_model(*loaded.model, w.folder.path("m"));
  refused(w.generate({"--ids", "1"}), "equigrad: m: sample: the logit of token 0 is NaN");
}

TEST_CASE("a preprocessor that does not fit is refused, and named") {
  const Viewer v;
  REQUIRE_MESSAGE(v.infer().code == 0, v.infer().err);
  for (const json& step : {json{{"image_mean", {1e300, .5, .5}}}, json{{"rescale_factor", 1e300}},
                           json{{"image_std", 1e-300}}, json{{"image_std", 1e-39}, {"resample", 2}}}) {
    json all = step;
    all["size"] = 8;
    v.steps(all);
    CAPTURE(step.dump());
    refused(v.infer(), "m/preprocessor_config.json: " + step.begin().key() + ": ");
  }
  v.steps({{"size", 8}, {"image_mean", {.5, .5}}});
  refused(v.infer(), "m/preprocessor_config.json: the mean has 2 numbers, and an image 3 channels");
  v.steps({{"size", 16}});
  refused(v.infer(), "m/preprocessor_config.json: makes images of 16x16 pixels, and the model takes 8x8: --image-size "
                     "16x16 makes it take them\n");
  CHECK(v.infer({"--image-size", "16x16"}).code == 0);
  v.steps({{"size", 15}}); // not whole patches
  refused(v.infer(), "m/preprocessor_config.json: makes images of 15x15 pixels, and the model takes 8x8\n");
  CHECK(v.infer({"--image-size", "15x15"}).code == 2);
  v.steps({{"size", 8}});
  const auto loaded = hub::load_model(v.folder.path("m"));
  for (nn::Parameter& p : loaded.model->module().named_parameters())
    if (p.name == "norm.weight") p.value.copy_from(Tensor::full(p.value.shape(), NAN));
  hub::save_model(*loaded.model, v.folder.path("m"));
  refused(v.infer(), "a.png: the model's logits hold NaN");
}

TEST_CASE("a folder whose vocabulary a key moves has no tokenizer to be taken for its own; undone, it is back") {
  const Writer w;
  fs::create_directory(w.folder.path("m/1_Pooling"));
  test::write_text(w.folder.path("m/1_Pooling/config.json"), "{\"pooling_mode_mean_tokens\": true}");
  test::write_text(w.folder.path("m/modules.json"), "[]");
  fs::create_directory(w.folder.path("m/2_Dense"));
  test::write_text(w.folder.path("m/2_Dense/config.json"), "{}");
  test::write_text(w.folder.path("m/2_Dense/model.safetensors"), "plain weights");
  const std::string tokenizer = test::read_text(w.folder.path("m/tokenizer.json"));
  const auto ok = [&](const std::vector<std::string>& args) {
    const Outcome outcome = w.run(args);
    CHECK_MESSAGE(outcome.code == 0, outcome.err);
    return outcome.out;
  };
  ok({"keygen", "--model", "m", "--out", "all.key"});
  const std::string said = ok({"permute", "--model", "m", "--key", "all.key", "--out", "p"});
  CHECK(said.find("2_Dense") != std::string::npos); // left out, it may hold plain weights
  CHECK(said.find("p/plain_tokenizer") != std::string::npos);
  CHECK(!fs::exists(w.folder.path("p/2_Dense")));
  for (const char* kept : {"1_Pooling/config.json", "modules.json"})
    CHECK(test::read_text(w.folder.path(std::string("p/") + kept)) ==
          test::read_text(w.folder.path(std::string("m/") + kept)));
  CHECK(!fs::exists(w.folder.path("p/tokenizer.json")));
  CHECK(test::read_text(w.folder.path("p/plain_tokenizer/tokenizer.json")) == tokenizer);
  refused(w.run({"generate", "--model", "p", "--prompt", "a"}), "p: its token ids are moved by key ");
  refused(w.run({"generate", "--model", "p", "--prompt", "a", "--tokenizer", "m"}),
          "p: its token ids are moved by key ");
  refused(w.run({"tokenize", "--tokenizer", "p", "a"}), "p: its token ids are moved by key ");
  ok({"generate", "--model", "p", "--ids", "1", "--max-new-tokens", "2"});
  ok({"permute", "--model", "p", "--key", "all.key", "--inverse", "--out", "back"});
  CHECK(test::read_text(w.folder.path("back/tokenizer.json")) == tokenizer);
  CHECK(!fs::exists(w.folder.path("back/plain_tokenizer")));
  // A key that leaves the vocabulary alone leaves the tokenizer where it is.
  ok({"keygen", "--model", "m", "--out", "inner.key", "--groups", "inner"});
  ok({"permute", "--model", "m", "--key", "inner.key", "--out", "q"});
  CHECK(test::read_text(w.folder.path("q/tokenizer.json")) == tokenizer);
  CHECK(ok({"generate", "--model", "q", "--prompt", "Th", "--max-new-tokens", "8", "--quiet"}) ==
        ok({"generate", "--model", "m", "--prompt", "Th", "--max-new-tokens", "8", "--quiet"}));
}

TEST_CASE("training that begins from a folder keeps its generation_config.json") {
  const Writer w;
  w.says({{"repetition_penalty", 1.25}, {"eos_token_id", 256}});
  test::write_text(w.folder.path("text.txt"), std::string(400, 'a'));
  const Outcome run = w.run({"train", "gpt2", "--from", "m", "--data", "text.txt", "--context", "8", "--batch", "1",
                             "--steps", "1", "--out", "r", "--quiet"});
  REQUIRE_MESSAGE(run.code == 0, run.err);
  CHECK(test::read_text(w.folder.path("r/model/generation_config.json")) ==
        test::read_text(w.folder.path("m/generation_config.json")));
}

TEST_CASE("a ViT trained with mean pooling leaves a folder of timm's, which infer, permute and inspect read") {
  const TemporaryFolder folder;
  const auto ok = [&](const std::vector<std::string>& args) {
    const Outcome outcome = run_program(args, folder.path());
    REQUIRE_MESSAGE(outcome.code == 0, outcome.err);
    return outcome;
  };
  const std::vector<std::string> train = {
      "train",   "vit", "--data",   "shapes", "--train-limit", "32",  "--test-limit", "16", "--size",  "16",
      "--dim",   "24",  "--layers", "2",      "--heads",       "2",   "--mlp",        "32", "--patch", "8",
      "--batch", "16",  "--steps",  "1",      "--pooling",     "mean"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), train.begin(), train.end());
    return more;
  };
  CHECK(ok(with({"--out", "r"})).err.find("no model folder") == std::string::npos);
  const json config = read_json(folder.path("r/model/config.json"));
  CHECK(config["model_args"]["global_pool"] == "avg");
  CHECK(config["model_args"]["class_token"] == false);
  CHECK(config["model_args"]["fc_norm"] == false);
  nn::VitConfig c;
  c.image = 16;
  c.patch = 8;
  c.layers = 2;
  c.encoder.dim = 24;
  c.encoder.heads = 2;
  c.encoder.mlp = 32;
  c.pooling = nn::Pooling::mean;
  c.classes = config["num_classes"].get<std::int64_t>();
  nn::Vit vit(c, {});
  nn::StateDict state = vit.state_dict();
  const data::TensorFile weights = data::load_safetensors(folder.path("r/model.safetensors"));
  for (auto& [name, slot] : state) slot.copy_from(*weights.find(name));
  vit.eval();
  const Tensor x = random_normal({2, 3, 16, 16}, {5, 0});
  data::save_safetensors(folder.path("x"), {{"pixel_values", x}});
  ok({"infer", "--model", "r", "--inputs", "x", "--outputs", "y"});
  const auto logits = [&](const char* file) { return *data::load_safetensors(folder.path(file)).find("logits"); };
  CHECK(same_bits(logits("y"), vit(x)));
  // The class names, and the pixels by pretrained_cfg as by the preprocessor beside it.
  data::Image image{.height = 20, .width = 31, .channels = 3, .pixels = {}};
  for (int i = 0; i < 1860; ++i) image.pixels.push_back(static_cast<std::uint8_t>(i * 37));
  write_file(folder.path("a.png"), data::encode_png(image));
  ok({"infer", "--model", "r", "--image", "a.png", "--outputs", "by_file"});
  fs::remove(folder.path("r/model/preprocessor_config.json"));
  const Outcome seen = ok({"infer", "--model", "r", "--image", "a.png", "--outputs", "by_config"});
  CHECK(seen.out.find(config["label_names"][0].get<std::string>()) != std::string::npos);
  CHECK(relative_error(logits("by_config"), logits("by_file")) < 1e-5);
  CHECK(ok({"inspect", "r/model"}).out.find("pretrained_cfg  timm, resized to 16x16 (bilinear)") != std::string::npos);
  // Its positions are not resampled, and --image-size is no advice.
  write_json(folder.path("r/model/preprocessor_config.json"), json{{"size", 24}});
  refused(run_program({"infer", "--model", "r", "--image", "a.png"}, folder.path()), "and the model takes 16x16\n");
  fs::remove(folder.path("r/model/preprocessor_config.json"));

  ok({"keygen", "--model", "r", "--out", "k"});
  ok({"permute", "--model", "r", "--key", "k", "--out", "p"});
  ok({"permute", "--model", "r", "--key", "k", "--tensors", "x", "--tensors-out", "px"});
  ok({"infer", "--model", "p", "--inputs", "px", "--outputs", "py"});
  ok({"permute", "--model", "r", "--key", "k", "--inverse", "--tensors", "py", "--tensors-out", "back"});
  CHECK(relative_error(logits("back"), logits("y")) < 1e-5);
  // Where there is no such format, the run says so when it begins.
  CHECK(ok(with({"--position", "none", "--out", "s"})).err.find("will leave no model folder") != std::string::npos);
  CHECK(!fs::exists(folder.path("s/model")));
}
