// Language models in training: what is read, exact resume, threads, what is refused, the folder that comes out.

#include "core/base/bytes.h"
#include "core/base/json.h"
#include "core/threads/parallel.h"
#include "data/text/text.h"
#include "data/text/tokenizer_building.h"
#include "nn/hub/folder.h"
#include "support/message.h"
#include "support/temporary_folder.h"
#include "support/training_run.h"
#include "training/language/language.h"
#include "training/language/text_files.h"

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <filesystem>
#include <string>

using namespace eg;
using namespace eg::training;
using namespace eg::test;

namespace {

constexpr std::string_view verse =
    "Though yet of Hamlet our dear brother's death\nThe memory be green, and that it us\n";

/// 600 characters and more, with some of several bytes.
std::string story() {
  std::string text;
  for (int i = 0; i < 8; ++i) text += fmt::format("{}. {}\u201cNaïve\u201d \u2014 said she.\n", i, verse);
  return text;
}

LanguageOptions small(LanguageModel model, const std::string& text_path) {
  LanguageOptions o = language_defaults(model);
  o.data = text_path;
  o.context = 12;
  o.dim = 8;
  o.layers = 1;
  o.heads = 2;
  o.batch = 3;
  o.warmup = 2;
  o.steps = 10;
  o.seed = 7;
  if (model == LanguageModel::gpt2) o.dropout = 0.1;
  return o;
}

} // namespace

TEST_CASE("language models: the tokenizer that a run keeps is the one that it read, whatever lies beside it") {
  const TemporaryFolder folder;
  const std::string small = data::character_tokenizer("abc"),
                    large = data::character_tokenizer("\u00e9\u00e8 and more");
  write_file(folder.path("tokenizer.json"), std::string_view(small));
  write_file(folder.path("tokenizer_config.json"), std::string_view("{}"));
  write_file(folder.path("mine.json"), std::string_view(large));
  write_file(folder.path("vocab.txt"), std::string_view("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\none\n"));
  for (const char* name : {"mine.json", "tokenizer.json", "vocab.txt"}) {
    CAPTURE(name);
    const KeptTokenizer kept = KeptTokenizer::open(folder.path(name));
    const std::string copy = folder.path(std::string("copy of ") + name);
    std::filesystem::create_directory(copy);
    kept.save(copy);
    CHECK(data::Tokenizer::open(copy).size() == data::Tokenizer::open(folder.path(name)).size());
    CHECK(file_exists(copy + "/tokenizer_config.json"));
  }
  REQUIRE(data::Tokenizer::open(folder.path("mine.json")).size() != data::Tokenizer::open(folder.path()).size());
}

TEST_CASE("text: the tokens are characters, and every text has some") {
  const std::string text = story();
  const data::Tokenizer tokenizer = data::Tokenizer::parse_json(data::character_tokenizer(text), "made");
  const std::vector<std::int32_t> ids = data::token_ids(tokenizer, text);
  std::size_t characters = 0;
  for (std::size_t at = 0; at < text.size(); next_utf8(text, at)) ++characters;
  CHECK(ids.size() == characters);
  CHECK(ids[0] == '0');
  CHECK(tokenizer.size() == 256 + 5); // ï, two quotes and the dash, which begin alike: their two first bytes
  CHECK(tokenizer.decode(std::vector<std::int64_t>(ids.begin(), ids.end())) == text);
  // An unknown character is its bytes.
  CHECK(data::token_ids(tokenizer, "\u20ac").size() == 3);
  CHECK(tokenizer.decode(tokenizer.encode("5 \u20ac").ids) == "5 \u20ac");
}

TEST_CASE("text: long texts become the same tokens in pieces as in one") {
  std::string text;
  while (text.size() < 600'000) text += verse;
  const data::Tokenizer tokenizer = data::Tokenizer::parse_json(data::character_tokenizer(text), "made");
  const std::vector<std::int32_t> ids = data::token_ids(tokenizer, text);
  REQUIRE(ids.size() == text.size());
  for (std::size_t i = 0; i < ids.size(); i += 997) CHECK(ids[i] == static_cast<unsigned char>(text[i]));
}

TEST_CASE("text: the end is held out, never half a character") {
  const auto [first, last] = data::held_out("abcdefgh\u20acj", 0.25);
  CHECK(first == "abcdefgh\u20ac");
  CHECK(last == "j");
  const TemporaryFolder folder;
  write_file(folder.path("latin1.txt"), std::string_view("na\xefve"));
  CHECK(message_of<FileError>([&] {
          data::read_text(folder.path("latin1.txt"));
        }).ends_with("latin1.txt: is not UTF-8 text: line 1, byte 2 of the file (0xef)"));
  write_file(folder.path("bom.txt"), std::string_view("\xef\xbb\xbf"
                                                      "abc"));
  CHECK(data::read_text(folder.path("bom.txt")) == "abc");
  CHECK(message_of<FileError>([&] { data::find_text(folder.path("none.txt"), ""); }).find("no such text") !=
        std::string::npos);
}

TEST_CASE("language models: runs that are cut and resumed end in the same bytes") {
  const TemporaryFolder folder;
  write_file(folder.path("story.txt"), std::string_view(story()));
  for (const LanguageModel model : {LanguageModel::gpt2, LanguageModel::llama}) {
    CAPTURE(name_of(model));
    const auto out = [&](const std::string& run) { return folder.path(fmt::format("{}-{}", name_of(model), run)); };
    LanguageOptions o = small(model, folder.path("story.txt"));
    o.evaluate_every = 4;
    o.accumulate = 2;
    o.out = out("whole");
    const Result whole = language_trainer(o)->run();
    CHECK(whole.steps == 10);
    for (const std::vector<std::int64_t>& cuts : {std::vector<std::int64_t>{1}, {4}, {3, 5, 9}, {2, 4, 6, 8}}) {
      const std::string run = out(fmt::format("cut{}", cuts.size() * 10 + static_cast<std::size_t>(cuts[0])));
      CAPTURE(run);
      o.out = run;
      for (const std::int64_t cut : cuts)
        run_until(language_trainer(cut == cuts[0] ? o : language_options_of_run(run, model)), cut);
      const Result rest = language_trainer(language_options_of_run(run, model))->run();
      CHECK(rest.test.loss == whole.test.loss);
      CHECK(weights_of(run) == weights_of(out("whole")));
      std::string lines = bytes_of(run + "/metrics.jsonl");
      CHECK(std::count(lines.begin(), lines.end(), '\n') == 13); // every step once, and the tests
    }
  }
}

TEST_CASE("language models: the same bits for 1, 2 and 3 threads") {
  const TemporaryFolder folder;
  write_file(folder.path("story.txt"), std::string_view(story()));
  LanguageOptions o = small(LanguageModel::gpt2, folder.path("story.txt"));
  for (const int threads : {1, 2, 3}) {
    parallel::set_threads(threads);
    o.out = folder.path(std::to_string(threads));
    language_trainer(o)->run();
  }
  parallel::set_threads(0);
  CHECK(weights_of(folder.path("1")) == weights_of(folder.path("2")));
  CHECK(weights_of(folder.path("1")) == weights_of(folder.path("3")));
}

TEST_CASE("language models: they learn, and the folder that comes out computes the loss that was told") {
  const TemporaryFolder folder;
  write_file(folder.path("story.txt"), std::string_view(story()));
  LanguageOptions o = small(LanguageModel::llama, folder.path("story.txt"));
  o.dtype = DType::f64;
  o.kv_heads = 1;
  o.steps = 60;
  o.lr = 1e-2;
  o.out = folder.path("run");
  std::vector<double> shares;
  Callbacks callbacks;
  callbacks.testing = [&](double share) { shares.push_back(share); };
  const Result result = language_trainer(o)->run(callbacks);
  CHECK_FALSE(shares.empty());
  CHECK(std::is_sorted(shares.begin(), shares.end()));
  CHECK(result.test.loss < 3.5); // from log 261 = 5.6
  CHECK(result.test.loss > 0.0);

  const hub::LoadedModel loaded = hub::load_model(folder.path("run/model"), {.dtype = DType::f64});
  CHECK(loaded.model->architecture() == "LlamaForCausalLM");
  const data::Tokenizer tokenizer = data::Tokenizer::open(folder.path("run/model"));
  const std::string text = story();
  const std::vector<std::int32_t> ids = data::token_ids(tokenizer, data::held_out(text, o.held_out).second);
  double loss = 0.0;
  const std::size_t context = 12;
  for (std::size_t begin = 0; begin + 1 < ids.size(); begin += context) {
    const std::size_t count = std::min(context, ids.size() - 1 - begin);
    const auto from = ids.begin() + static_cast<std::ptrdiff_t>(begin);
    const std::vector<std::int64_t> window(from, from + static_cast<std::ptrdiff_t>(count) + 1);
    const Tensor all = Tensor::from(window, {1, static_cast<std::int64_t>(count) + 1});
    const auto size = static_cast<std::int64_t>(count);
    const Tensor logits = hub::find(loaded.model->forward({{"input_ids", all.slice(1, 0, size).clone()}}), "logits");
    loss += cross_entropy(logits, all.slice(1, 1, size + 1).clone(), 0.0, -100, "sum").item();
  }
  CHECK(loss / static_cast<double>(ids.size() - 1) == doctest::Approx(result.test.loss).epsilon(1e-6));
}

TEST_CASE("language models: options go through JSON, and what is wrong is named") {
  LanguageOptions o = language_defaults(LanguageModel::llama);
  o.steps = 3;
  o.context = 77;
  LanguageOptions back = language_defaults(LanguageModel::llama);
  apply_options(back, nlohmann::json::parse(options_json(o).dump()), "file");
  CHECK(options_json(back) == options_json(o));
  CHECK(options_json(o).at("model") == "llama");

  const auto refused = [](const char* text) {
    LanguageOptions options = language_defaults(LanguageModel::gpt2);
    return message_of([&] { apply_options(options, nlohmann::json::parse(text), "run.json"); });
  };
  CHECK(refused(R"({"contxt": 8})") == "run.json: unknown option 'contxt'; did you mean context?");
  CHECK(refused(R"({"model": "llama"})") == "run.json: the options are for a model of kind 'llama', not 'gpt2'");
  CHECK(refused(R"({"patch": 4})").starts_with("run.json: unknown option 'patch'"));

  const auto wrong = [](auto change) {
    LanguageOptions options = language_defaults(LanguageModel::llama);
    options.steps = 1;
    change(options);
    return message_of<ValueError>([&] { check(options); });
  };
  CHECK(wrong([](LanguageOptions& t) { t.held_out = 1.0; }) == "train: held_out must be in (0, 1), not 1");
  CHECK(wrong([](LanguageOptions& t) { t.context = 0; }) == "train: context must be positive, not 0");
  CHECK(wrong([](LanguageOptions& t) { t.heads = 3; }) == "train: dim 128 is not a multiple of heads 3");
  CHECK(wrong([](LanguageOptions& t) { t.kv_heads = 3; }) == "train: heads 4 is not a multiple of kv_heads 3");
  CHECK(wrong([](LanguageOptions& t) { t.heads = 128; }).find("pairs of features") != std::string::npos);
}

TEST_CASE("language models: texts that are too short, and other ones than before, are refused") {
  const TemporaryFolder folder;
  const std::string path = folder.path("story.txt");
  write_file(path, std::string_view(""));
  LanguageOptions o = small(LanguageModel::gpt2, path);
  CHECK(message_of<ValueError>([&] { language_trainer(o); }) == "train: " + path + " is empty");
  write_file(path, std::string_view("a short text"));
  CHECK(message_of<ValueError>([&] { language_trainer(o); }) ==
        "train: " + path +
            " has 11 training tokens; a window of context 12 and the token after it are 13: use a smaller context or "
            "more text");
  write_file(path, std::string_view(story()));
  o.out = folder.path("run");
  run_until(language_trainer(o), 2);
  write_file(path, std::string_view(story() + "and more"));
  CHECK(message_of<ValueError>([&] {
          language_trainer(language_options_of_run(o.out, o.model));
        }).find("was made from other data") != std::string::npos);
  CHECK(message_of<ValueError>([&] { language_options_of_run(o.out, LanguageModel::llama); }) ==
        "train: " + o.out + " is a run of `train gpt2`, not of `train llama`");
  LanguageOptions other = language_options_of_run(o.out, o.model);
  other.dim = 16;
  CHECK(message_of<ValueError>([&] { language_trainer(other); }).find("dim 8 (now 16)") != std::string::npos);
}

TEST_CASE("language models: a run is not overwritten unasked, and overwriting removes its model") {
  const TemporaryFolder folder;
  write_file(folder.path("story.txt"), std::string_view(story()));
  LanguageOptions o = small(LanguageModel::gpt2, folder.path("story.txt"));
  o.steps = 2;
  o.out = folder.path("run");
  language_trainer(o)->run();
  write_file(folder.path("run/model/notes.txt"), std::string_view("mine"));
  CHECK(message_of<ValueError>([&] { language_trainer(o); }).find("already holds a run (step 2)") != std::string::npos);
  o.overwrite = true;
  o.steps = 5;
  run_until(language_trainer(o), 3);
  CHECK_FALSE(file_exists(folder.path("run/model/config.json")));
  CHECK_FALSE(file_exists(folder.path("run/model/model.safetensors")));
  CHECK(file_exists(folder.path("run/model/notes.txt")));
}

TEST_CASE("language models: a loss that is no number ends the run") {
  const TemporaryFolder folder;
  write_file(folder.path("story.txt"), std::string_view(story()));
  LanguageOptions o = small(LanguageModel::gpt2, folder.path("story.txt"));
  o.optimizer = "sgd";
  o.clip = 0.0;
  o.lr = 1e30;
  CHECK(message_of<ValueError>([&] { language_trainer(o)->run(); }).find("use a smaller lr or clip") !=
        std::string::npos);
}
