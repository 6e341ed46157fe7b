// Text classifiers in training: exact resume, threads, what comes out, what is refused.

#include "core/base/bytes.h"
#include "core/base/json.h"
#include "core/threads/parallel.h"
#include "data/text/tokenizer.h"
#include "nn/hub/folder.h"
#include "support/message.h"
#include "support/temporary_folder.h"
#include "support/training_run.h"
#include "training/language/classify.h"

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <atomic>
#include <string>
#include <vector>

using namespace eg;
using namespace eg::training;
using namespace eg::test;

namespace {

/// 44 rows of two classes that one word tells apart, of several lengths.
std::string reviews(bool pairs) {
  std::string text = pairs ? "label,premise,hypothesis\n" : "label,text\n";
  for (int i = 0; i < 44; ++i) {
    const std::string filler(static_cast<std::size_t>(i % 5), 'x');
    text +=
        fmt::format("{},{} it was {} {}{}\n", i % 2 == 0 ? "dull" : "fine", filler, i % 2 == 0 ? "boring" : "lovely",
                    i % 3 == 0 ? "indeed and so on and so on" : "today", pairs ? ",so they said" : "");
  }
  return text;
}

ClassifyOptions small(const std::string& path) {
  ClassifyOptions o;
  o.data = path;
  o.context = 10;
  o.dim = 8;
  o.heads = 2;
  o.layers = 1;
  o.mlp = 12;
  o.batch = 5;
  o.warmup = 2;
  o.lr = 1e-2;
  o.steps = 12; // an epoch has 8
  o.seed = 3;
  return o;
}

} // namespace

TEST_CASE("classifiers: runs that are cut and resumed end in the same bytes, whatever the threads") {
  const TemporaryFolder folder;
  for (const bool pairs : {false, true}) {
    const std::string path = folder.path(fmt::format("reviews{}.csv", pairs ? 2 : 1));
    write_file(path, std::string_view(reviews(pairs)));
    ClassifyOptions o = small(path);
    o.attention_dropout = pairs ? 0.1 : 0.0;
    o.accumulate = 2;
    o.out = path + ".whole";
    classify_trainer(o)->run();
    o.out = path + ".cut";
    int threads = 0;
    for (const std::int64_t cut : {3, 7, 9}) {
      parallel::set_threads(++threads);
      run_until(classify_trainer(cut == 3 ? o : classify_options_of_run(o.out)), cut);
    }
    parallel::set_threads(0);
    classify_trainer(classify_options_of_run(o.out))->run();
    CHECK(weights_of(o.out) == weights_of(path + ".whole"));
  }
}

TEST_CASE("classifiers: they learn, and the folder that comes out gives the accuracy that was told") {
  const TemporaryFolder folder;
  const std::string path = folder.path("reviews.csv");
  write_file(path, std::string_view(reviews(false)));
  ClassifyOptions o = small(path);
  o.dim = 16;
  o.dropout = 0.0;
  o.steps = 120;
  o.held_out = 0.25;
  o.out = folder.path("run");
  const Result result = classify_trainer(o)->run();
  CHECK(result.test.accuracy == 1.0);
  CHECK(result.train.accuracy > 0.5);
  const hub::LoadedModel loaded = hub::load_model(folder.path("run/model"));
  CHECK(loaded.model->architecture() == "BertForSequenceClassification");
  CHECK(loaded.model->config().at("id2label").at("1") == "fine");
  const data::Tokenizer tokenizer = data::Tokenizer::open(folder.path("run/model"));
  CHECK(tokenizer.role("pad") == 0);
  for (const auto& [text, fine] : {std::pair{"It was lovely today", true}, {"it was BORING indeed", false}}) {
    const data::Encoding e = tokenizer.encode(text);
    const Tensor ids = Tensor::from(e.ids, {1, static_cast<std::int64_t>(e.ids.size())});
    const std::vector<double> logits =
        hub::find(loaded.model->forward({{"input_ids", ids}}), "logits").to(DType::f64).to_vector<double>();
    CHECK((logits[1] > logits[0]) == fine);
  }
}

TEST_CASE("classifiers: options and data that are wrong are named") {
  const TemporaryFolder folder;
  const std::string path = folder.path("reviews.csv");
  write_file(path, std::string_view(reviews(false)));
  ClassifyOptions o = small(path);
  o.batch = 64;
  CHECK(message_of<ValueError>([&] { classify_trainer(o); }) ==
        "train: " + path + " has 40 training texts, fewer than a batch of 64");
  o = small(path);
  o.vocabulary = 3;
  CHECK(message_of<ValueError>([&] { classify_trainer(o); }) == "train: vocabulary must be from 6 to 16777216, not 3");
  ClassifyOptions back;
  apply_options(back, nlohmann::json::parse(options_json(small(path)).dump()), "file");
  CHECK(options_json(back) == options_json(small(path)));
  CHECK(message_of([&] {
          apply_options(back, {{"vocabluary", 8}}, "run.json");
        }) == "run.json: unknown option 'vocabluary'; did you mean vocabulary?");

  o = small(path);
  o.out = folder.path("run");
  classify_trainer(o)->run();
  ClassifyOptions moved = classify_options_of_run(o.out);
  moved.data = folder.path("moved.csv");
  moved.steps = 13;
  write_file(moved.data, std::string_view(reviews(false)));
  CHECK(classify_trainer(moved)->step() == 12);
  write_file(path, std::string_view(reviews(false) + "fine,more\n"));
  ClassifyOptions more = classify_options_of_run(o.out);
  more.steps = 13;
  CHECK(message_of<ValueError>([&] { classify_trainer(more); }).find("was made from other data") != std::string::npos);
}
