// Runs that begin from a model: what is read, what stands still, what is refused by name.

#include "core/base/bytes.h"
#include "core/base/json.h"
#include "core/ops.h"
#include "data/safetensors.h"
#include "nn/bert.h"
#include "nn/hub/folder.h"
#include "support/message.h"
#include "support/temporary_folder.h"
#include "support/training_run.h"
#include "training/language/classify.h"
#include "training/language/language.h"

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <filesystem>
#include <string>

using namespace eg;
using namespace eg::training;
using namespace eg::test;

namespace {

/// Words that follow each other by a rule.
std::string story(int lines) {
  std::string text;
  for (int i = 0; i < lines; ++i)
    text += fmt::format("the {} cat and the {} dog went to the {} fair .\n", i % 3 == 0 ? "old" : "young",
                        i % 3 == 0 ? "old" : "young", i % 3 == 0 ? "winter" : "summer");
  return text;
}

std::string reviews(int classes) {
  constexpr const char* words[] = {"old", "young", "winter"};
  std::string text = "label,text\n";
  for (int i = 0; i < 60; ++i)
    text += fmt::format("class{},the {} fair and the dog\n", i % classes, words[i % classes]);
  return text;
}

ClassifyOptions small(const std::string& data) {
  ClassifyOptions o;
  o.data = data;
  o.context = 16;
  o.dim = 12;
  o.heads = 2;
  o.layers = 2;
  o.mlp = 16;
  o.batch = 6;
  o.warmup = 2;
  o.lr = 3e-3;
  o.dropout = 0.0;
  o.steps = 8;
  o.seed = 4;
  return o;
}

/// Trains and returns the folder of the model.
std::string trained(const ClassifyOptions& o) {
  bert_trainer(o)->run();
  return o.out + "/model";
}

hub::Tensors state_of(const std::string& folder) { return hub::load_model(folder).model->state(); }

bool same(const hub::Tensors& a, const hub::Tensors& b, const std::string& name) {
  const Tensor x = hub::find(a, name), y = hub::find(b, name);
  REQUIRE_MESSAGE((x.defined() && y.defined()), name);
  return x.to_vector<float>() == y.to_vector<float>();
}

struct Fixture {
  TemporaryFolder folder;
  std::string masked; ///< a BertForMaskedLM

  Fixture() {
    write_file(folder.path("story.txt"), std::string_view(story(200)));
    for (const int classes : {2, 3})
      write_file(folder.path(fmt::format("reviews{}.csv", classes)), std::string_view(reviews(classes)));
    ClassifyOptions o = small(folder.path("story.txt"));
    o.task = BertTask::mlm;
    o.out = folder.path("masked");
    masked = trained(o);
  }
  ClassifyOptions tuned(int classes, const std::string& from, const std::string& run) const {
    ClassifyOptions o = small(folder.path(fmt::format("reviews{}.csv", classes)));
    o.start.from = from;
    o.dim = 999; // the model's own size counts
    o.out = folder.path(run);
    return o;
  }
};

} // namespace

TEST_CASE_FIXTURE(Fixture, "fine-tuning: a run begins from another one, with a fresh head and its tokenizer") {
  const ClassifyOptions o = tuned(3, folder.path("masked"), "tuned");
  const std::string result = trained(o);
  const hub::LoadedModel loaded = hub::load_model(result);
  CHECK(loaded.model->architecture() == "BertForSequenceClassification");
  CHECK(loaded.model->config()["id2label"]["2"] == "class2");
  CHECK(read_json(o.out + "/config.json")["dim"] == 12);
  CHECK(bytes_of(result + "/tokenizer.json") == bytes_of(masked + "/tokenizer.json"));
  // Two steps in the same direction: with lr 0 nothing of the body would have moved.
  CHECK_FALSE(same(state_of(masked), state_of(result), "bert.encoder.layer.1.output.dense.weight"));

  ClassifyOptions further = tuned(3, result, "further"); // the head of the same classes is kept
  further.lr = 1e-30;
  CHECK(same(state_of(result), state_of(trained(further)), "classifier.weight"));
  // As many classes with other names: nothing says which of the old ones they are.
  const auto renamed = [&](const char* from, const char* to, const std::string& run) {
    std::string rows = reviews(3);
    for (std::size_t at = rows.find(from); at != std::string::npos; at = rows.find(from, at))
      rows.replace(at, std::string_view(from).size(), to);
    write_file(folder.path(run + ".csv"), std::string_view(rows));
    ClassifyOptions o3 = tuned(3, result, run);
    o3.data = folder.path(run + ".csv");
    o3.lr = 1e-30;
    return state_of(trained(o3));
  };
  CHECK(same(state_of(result), renamed("class", "", "numbered"), "classifier.weight")); // 0, 1, 2
  const hub::Tensors apart = renamed("class0,", "other,", "renamed");
  CHECK_FALSE(same(state_of(result), apart, "classifier.weight"));
  CHECK(same(state_of(result), apart, "bert.pooler.dense.weight"));
  further = tuned(2, result, "other");
  further.lr = 1e-30;
  const hub::Tensors other = state_of(trained(further));
  CHECK(hub::find(other, "classifier.weight").shape() == Shape{2, 12});
  CHECK(same(state_of(result), other, "bert.pooler.dense.weight"));
}

TEST_CASE_FIXTURE(Fixture, "fine-tuning: what is frozen keeps its bits, by either kind of name; resuming is exact") {
  for (const char* freeze : {"blocks.0.*, *embedding*", "bert.encoder.layer.0.*,bert.embeddings.*"}) {
    CAPTURE(freeze);
    ClassifyOptions o = tuned(2, folder.path("masked"), std::string("frozen") + freeze[1]);
    o.start.freeze = freeze;
    const hub::Tensors before = state_of(masked), after = state_of(trained(o));
    for (const char* name : {"bert.embeddings.word_embeddings.weight", "bert.embeddings.LayerNorm.bias",
                             "bert.encoder.layer.0.attention.self.query.weight"})
      CHECK_MESSAGE(same(before, after, name), name);
    CHECK_FALSE(same(before, after, "bert.encoder.layer.1.attention.self.query.weight"));
    // Nothing is kept of what does not learn.
    const auto kept = data::load_safetensors(o.out + "/checkpoints/step-00000008/optimizer.safetensors");
    CHECK(std::none_of(kept.tensors.begin(), kept.tensors.end(),
                       [](const auto& t) { return t.first.starts_with("blocks.0.") || t.first.starts_with("word_"); }));
    const std::string whole = bytes_of(o.out + "/model/model.safetensors");
    o.out += "-cut";
    run_until(bert_trainer(o), 3);
    bert_trainer(classify_options_of_run(o.out))->run();
    CHECK(bytes_of(o.out + "/model/model.safetensors") == whole);
  }
}

TEST_CASE_FIXTURE(Fixture, "fine-tuning: parts may begin anew") {
  ClassifyOptions o = tuned(2, folder.path("masked"), "anew");
  o.start.fresh = "word_embedding.*";
  o.lr = 1e-30;
  const hub::Tensors before = state_of(masked), after = state_of(trained(o));
  CHECK_FALSE(same(before, after, "bert.embeddings.word_embeddings.weight"));
  CHECK(same(before, after, "bert.embeddings.position_embeddings.weight"));
}

TEST_CASE_FIXTURE(Fixture, "fine-tuning: what does not fit is refused by name") {
  const auto refused = [&](ClassifyOptions o) {
    o.out = folder.path("none");
    return message_of([&] { bert_trainer(o); });
  };
  ClassifyOptions inside = tuned(2, folder.path("masked"), "x");
  for (const char* part : {"masked", "masked/model", "masked/../masked/model"}) {
    inside.start.from = folder.path(part);
    inside.out = folder.path("masked");
    inside.overwrite = true; // would remove what it begins from
    CHECK(message_of([&] { bert_trainer(inside); }).find("from lies in the run folder") != std::string::npos);
  }
  ClassifyOptions o = tuned(2, folder.path("masked"), "x");
  o.start.freeze = "block.0.*";
  CHECK(refused(o).starts_with("train: freeze 'block.0.*' fits no parameter"));
  o.start.freeze = "bert.encoder.layer.0.attention.self.key.weight";
  CHECK(refused(o).find("fits only a part of blocks.0.attention.qkv.weight: not") != std::string::npos);
  o.start.freeze = "*";
  CHECK(refused(o) == "train: freeze '*' leaves nothing to learn");
  o.start.freeze = "";
  o.start.fresh = "nothing.*";
  CHECK(refused(o).find("no parameter fits 'nothing.*', which is to begin anew") != std::string::npos);
  o.start.fresh = "";
  o.context = 17;
  CHECK(refused(o) == "train: context 17 is longer than the 16 tokens that " + folder.path("masked") + " takes");
  o = tuned(2, folder.path("nowhere"), "x");
  CHECK(refused(o).ends_with("nowhere: no such model folder, run or llama2.c checkpoint (.bin)"));
  o = small(folder.path("reviews2.csv"));
  o.start.fresh = "classifier.*";
  CHECK(refused(o) == "train: fresh needs a model to begin from: give from");

  // A tokenizer with more ids than the model has rows.
  std::string words;
  for (int i = 0; i < 50; ++i) words += fmt::format("w{0} w{0}\n", i);
  write_file(folder.path("words.txt"), std::string_view(words + words));
  ClassifyOptions large = small(folder.path("words.txt"));
  large.task = BertTask::mlm;
  large.out = folder.path("large");
  trained(large);
  o = tuned(2, folder.path("masked"), "x");
  o.tokenizer = folder.path("large/model");
  CHECK(refused(o).find("train: the tokenizer has the id 5") != std::string::npos);

  LanguageOptions gpt = language_defaults(LanguageModel::gpt2);
  gpt.data = folder.path("story.txt");
  gpt.steps = 1;
  gpt.start.from = folder.path("masked");
  CHECK(message_of<ValueError>([&] { language_trainer(gpt); }) ==
        "train: " + masked + " holds a model of type 'bert'; `train gpt2` goes on from 'gpt2'");

  // Another family is said before anything about its tokenizer.
  gpt.start.from.clear();
  gpt.out = folder.path("gpt");
  language_trainer(gpt)->run();
  for (const BertTask task : {BertTask::classify, BertTask::mlm}) {
    ClassifyOptions bert = tuned(2, folder.path("gpt"), "x");
    bert.task = task;
    CHECK(refused(bert).find("holds a model of type 'gpt2'; `train bert` goes on from 'bert'") != std::string::npos);
  }
}

TEST_CASE_FIXTURE(Fixture, "fine-tuning: a checkpoint of another model is refused") {
  ClassifyOptions o = tuned(2, folder.path("masked"), "run");
  run_until(bert_trainer(o), 3);
  nlohmann::json config = read_json(masked + "/config.json");
  config["layer_norm_eps"] = 1e-3;
  write_json(masked + "/config.json", config);
  CHECK(message_of<ValueError>([&] {
          bert_trainer(classify_options_of_run(o.out));
        }).ends_with("was made with another model: layer_norm_eps differ"));
}

TEST_CASE_FIXTURE(Fixture, "fine-tuning: the model and the tokenizer of a run may move before it goes on, not change") {
  std::filesystem::copy(masked, folder.path("words")); // a tokenizer of its own
  const auto with_tokenizer = [&](const std::string& run) {
    ClassifyOptions o = tuned(2, folder.path("masked"), run);
    o.tokenizer = folder.path("words");
    return o;
  };
  const std::string whole = bytes_of(trained(with_tokenizer("whole")) + "/model.safetensors");
  const ClassifyOptions cut = with_tokenizer("cut");
  run_until(bert_trainer(cut), 3);
  for (const char* name : {"masked", "words"})
    std::filesystem::rename(folder.path(name), folder.path(std::string("moved-") + name));
  ClassifyOptions again = classify_options_of_run(cut.out);
  again.start.from = folder.path("moved-masked");
  again.tokenizer = folder.path("moved-words");

  const std::string config = folder.path("moved-words/tokenizer_config.json"), kept = bytes_of(config);
  write_file(config, std::string_view("{}")); // the same ids
  CHECK(message_of<ValueError>([&] { bert_trainer(again); }).find("was made with another tokenizer: 2 files, crc32 ") !=
        std::string::npos);
  write_file(config, std::string_view(kept));
  ClassifyOptions without = again;
  without.tokenizer.clear();
  CHECK(message_of<ValueError>([&] { bert_trainer(without); }).find("was made with other options: tokenizer") !=
        std::string::npos);

  bert_trainer(again)->run();
  CHECK(bytes_of(cut.out + "/model/model.safetensors") == whole);
}

TEST_CASE("fine-tuning: a GPT-2 and a Llama go on from a run on another text") {
  const TemporaryFolder folder;
  write_file(folder.path("story.txt"), std::string_view(story(60)));
  write_file(folder.path("other.txt"), std::string_view(story(30) + "what?\n"));
  for (const LanguageModel model : {LanguageModel::gpt2, LanguageModel::llama}) {
    LanguageOptions o = language_defaults(model);
    o.data = folder.path("story.txt");
    o.context = 16;
    o.dim = 8;
    o.heads = 2;
    o.layers = 1;
    o.batch = 4;
    o.steps = 30;
    o.lr = 1e-2;
    o.out = folder.path(fmt::format("{}-1", name_of(model)));
    const double first = language_trainer(o)->run().test.loss;
    LanguageOptions next = language_defaults(model);
    next.data = folder.path("other.txt");
    next.context = 12;
    next.batch = 4;
    next.steps = 3;
    next.lr = 1e-4;
    next.start.from = o.out;
    next.start.freeze = "token_embedding.*";
    next.out = folder.path(fmt::format("{}-2", name_of(model)));
    const Result result = language_trainer(next)->run();
    CHECK(result.test.loss < first + 0.7); // a fresh model begins at log 256
    CHECK(read_json(next.out + "/config.json")["layers"] == 1);
  }
}
