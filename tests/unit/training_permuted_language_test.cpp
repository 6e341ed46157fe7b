// GPT-2 and Llama trained with permuted columns: twins, resumed runs, keys, and what the run folder says.

#include "support/message.h"
#include "support/temporary_folder.h"
#include "support/training_run.h"

#include "core/base/bytes.h"
#include "core/base/error.h"
#include "data/safetensors.h"
#include "nn/decoder.h"
#include "nn/hub/folder.h"
#include "permute/key.h"
#include "training/blocks_mark.h"
#include "training/checkpoint.h"
#include "training/language/language.h"
#include "training/metrics.h"

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <limits>

using namespace eg;
using namespace eg::test;
using namespace eg::training;
using permute::KeyForm;
using permute::PermuteMode;

namespace {

constexpr LanguageModel both_models[] = {LanguageModel::gpt2, LanguageModel::llama};

LanguageOptions small(const TemporaryFolder& folder, LanguageModel model) {
  if (!file_exists(folder.path("story.txt"))) {
    std::string text;
    for (int i = 0; i < 200; ++i) text += fmt::format("{} sheep, {} goats.\n", i * i, i);
    write_file(folder.path("story.txt"), std::string_view(text));
  }
  LanguageOptions o = language_defaults(model);
  o.data = folder.path("story.txt");
  o.context = 16;
  o.dim = 16;
  o.layers = 2;
  o.heads = 4;
  if (model == LanguageModel::llama) o.kv_heads = 2;
  o.batch = 4;
  o.warmup = 2;
  o.steps = 12;
  o.drift_every = 5;
  o.eps = 1e-6;
  o.dtype = DType::f64;
  o.permute = PermuteMode::columns;
  return o;
}

} // namespace

TEST_CASE("permuted language models: a twin trains as the plain model does, behind another function's weights") {
  const TemporaryFolder folder;
  for (const LanguageModel model : both_models)
    for (const KeyForm form : {KeyForm::decoupled, KeyForm::residual}) {
      CAPTURE(name_of(model));
      CAPTURE(name_of(form));
      LanguageOptions o = small(folder, model);
      o.key_form = form;
      o.twin = true;
      const auto trainer = language_trainer(o);
      const double before = trainer->test().loss;
      const Result result = trainer->run();
      REQUIRE(result.test.variants.size() == 2);
      CHECK(result.test.variants[0].mode == PermuteMode::none);
      CHECK(result.test.loss < before);
      CHECK(result.test.drift < 1e-10);
      CHECK(result.test.drift > 0.0);
      CHECK(result.test.loss == doctest::Approx(result.test.variants[0].loss).epsilon(1e-11));
      // The weights themselves are moved, and the plain twin is the model of a run without permutations.
      CHECK(weight_difference(trainer->module(1).state_dict(), trainer->module(0).state_dict()) > 1e-2);
      o.twin = false;
      o.permute = PermuteMode::none;
      const auto plain = language_trainer(o);
      plain->run();
      CHECK(weight_difference(plain->module().state_dict(), trainer->module(0).state_dict()) == 0.0);
    }
}

TEST_CASE("permuted language models: metrics hold both models and the drift") {
  const TemporaryFolder folder;
  LanguageOptions o = small(folder, LanguageModel::gpt2);
  o.twin = true;
  o.out = folder.path("run");
  language_trainer(o)->run();
  std::size_t drifts = 0, lines = 0;
  each_metrics_line(o.out + "/metrics.jsonl", std::numeric_limits<std::int64_t>::max(), [&](auto, const auto& line) {
    ++lines;
    CHECK(line.at("variants").size() == 2);
    CHECK(line.at("variants").at("none").contains("loss"));
    if (line.contains("drift")) ++drifts;
  });
  CHECK(lines == 13);
  CHECK(drifts == 4); // steps 5, 10 and 12, and the test
}

TEST_CASE("permuted language models: a run that is cut and resumed has the same bits; another key is refused") {
  const TemporaryFolder folder;
  for (const char* name : {"a.key", "b.key"}) permute::SecretKey::generate().save(folder.path(name));
  for (const LanguageModel model : both_models) {
    CAPTURE(name_of(model));
    LanguageOptions o = small(folder, model);
    o.twin = true;
    o.checkpoint_every = 5;
    o.key = folder.path("a.key");
    const std::string name(name_of(model));
    o.out = folder.path(name + "-whole");
    language_trainer(o)->run();
    o.out = folder.path(name + "-cut");
    run_until(language_trainer(o), 7);
    LanguageOptions again = language_options_of_run(o.out, model);
    CHECK(again.permute == PermuteMode::columns);
    CHECK(again.twin);
    again.key = folder.path("b.key");
    CHECK(message_of<ValueError>([&] { language_trainer(again); }).find("another secret key") != std::string::npos);
    again.key = folder.path("a.key");
    language_trainer(again)->run();
    for (const char* file : {"/model/model.safetensors", "/model-none/model.safetensors"})
      CHECK(bytes_of(folder.path(name + "-whole") + file) == bytes_of(folder.path(name + "-cut") + file));
    CHECK(weights_of(folder.path(name + "-whole")) !=
          bytes_of(folder.path(name + "-whole") + "/model-none/model.safetensors"));
  }
}

TEST_CASE("permuted language models: the folder is marked, and the key restores the plain blocks") {
  const TemporaryFolder folder;
  permute::SecretKey::generate().save(folder.path("a.key"));
  const permute::SecretKey key = permute::SecretKey::load(folder.path("a.key"));
  for (const LanguageModel model : both_models) {
    CAPTURE(name_of(model));
    LanguageOptions o = small(folder, model);
    o.twin = true;
    o.key = folder.path("a.key");
    o.out = folder.path(std::string(name_of(model)));
    language_trainer(o)->run();
    CHECK_FALSE(training::read_blocks_mark(o.out + "/model-none"));
    const auto mark = training::read_blocks_mark(o.out + "/model");
    REQUIRE(mark);
    CHECK(mark->key == key.fingerprint());
    const hub::LoadModelOptions f64{.dtype = DType::f64};
    const auto plain = hub::load_model(o.out + "/model-none", f64).model;
    auto moved = hub::load_model(o.out + "/model", f64).model;
    CHECK(weight_difference(moved->module().state_dict(), plain->module().state_dict()) > 1e-2);
    const permute::SecretKey other = permute::SecretKey::generate();
    CHECK(message_of<ValueError>([&] { undo_blocks(*moved, *mark, other); }).find("this is key") != std::string::npos);
    undo_blocks(*moved, *mark, key);
    CHECK(weight_difference(moved->module().state_dict(), plain->module().state_dict()) < 1e-10);
  }
}

TEST_CASE("permuted language models: the plain twin's folder belongs to the run") {
  const TemporaryFolder folder;
  LanguageOptions o = small(folder, LanguageModel::gpt2);
  o.twin = true;
  o.out = folder.path("run");
  // Another model in the place of the twin's is not overwritten.
  make_folder(o.out + "/model-none");
  write_file(o.out + "/model-none/config.json", std::string_view("{}"));
  CHECK(message_of<ValueError>([&] { language_trainer(o); }).find("already holds a run") != std::string::npos);
  CHECK(bytes_of(o.out + "/model-none/config.json") == "{}");
  o.overwrite = true;
  language_trainer(o)->run();
  CHECK(folder_exists(o.out + "/model-none"));
  // A run without a twin in its place leaves none.
  o.twin = false;
  o.permute = PermuteMode::none;
  language_trainer(o)->run();
  CHECK(folder_exists(o.out + "/model"));
  CHECK_FALSE(folder_exists(o.out + "/model-none"));
}

TEST_CASE("marks: permuted weights never stand without one, whenever their writer ends") {
  const TemporaryFolder folder;
  const training::BlocksMark mark{.key = "0123456789abcdef", .form = KeyForm::residual};
  const std::string path = folder.path("model");
  const auto dies = [&] {
    CHECK(training::read_blocks_mark(path));
    throw FileError("no space left");
  };
  CHECK_THROWS_AS(training::write_marked(path, mark, dies), FileError);
  CHECK(training::read_blocks_mark(path)->key == mark.key);
  // Plain weights lose the mark when they are there.
  training::write_marked(path, std::nullopt, [&] { CHECK(training::read_blocks_mark(path)); });
  CHECK_FALSE(training::read_blocks_mark(path));
}

TEST_CASE("permuted language models: options that contradict each other are refused") {
  const TemporaryFolder folder;
  const auto refused = [&](auto&& change) {
    LanguageOptions o = small(folder, LanguageModel::llama);
    change(o);
    return message_of<ValueError>([&] { language_trainer(o); });
  };
  CHECK(refused([](auto& o) { o.permute = PermuteMode::rows; }) ==
        "train: permute must be none or columns: behind a causal mask tokens have no other order");
  CHECK(refused([](auto& o) { o.permute = PermuteMode::both; }).find("causal mask") != std::string::npos);
  CHECK(refused([](auto& o) { o.permute = PermuteMode::none, o.twin = true; }).find("twin needs") != std::string::npos);
  CHECK(refused([](auto& o) { o.permute = PermuteMode::none, o.key = "a.key"; }).find("nothing is permuted") !=
        std::string::npos);
  CHECK(refused([](auto& o) { o.key_form = KeyForm::tied; }).find("shared key heads") != std::string::npos);
  CHECK(refused([](auto& o) { o.twin = true, o.on_divergence = OnDivergence::skip; }).find("on_divergence") !=
        std::string::npos);
  CHECK(refused([](auto& o) { o.drift_every = -1; }).find("drift_every") != std::string::npos);
}
