// BERTs trained plain and permuted: the same model, with its key and without.

#include "support/message.h"
#include "support/temporary_folder.h"
#include "support/training_run.h"
#include "training/language/classify.h"

#include "core/base/bytes.h"
#include "core/base/error.h"
#include "data/safetensors.h"
#include "permute/key.h"

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

using namespace eg;
using namespace eg::permute;
using namespace eg::test;
using namespace eg::training;
using training::ClassifyOptions;

namespace {

std::string reviews(const TemporaryFolder& folder) {
  std::string rows = "label\ttext\n";
  for (int i = 0; i < 80; ++i)
    rows += fmt::format("{}\tthe {} number {} of them {}\n", i % 2 == 0 ? "bad" : "good",
                        i % 2 == 0 ? "dull" : "lovely", i, std::string(static_cast<std::size_t>(i % 5), 'x'));
  write_file(folder.path("reviews.tsv"), std::string_view(rows));
  return folder.path("reviews.tsv");
}

ClassifyOptions small(const std::string& data) {
  ClassifyOptions o;
  o.data = data;
  o.vocabulary = 60;
  o.context = 12;
  o.dim = 12;
  o.layers = 2;
  o.heads = 3;
  o.mlp = 20;
  o.batch = 8;
  o.steps = 12;
  o.warmup = 2;
  o.lr = 3e-3;
  o.eps = 1e-6;
  o.dropout = 0.0;
  o.dtype = DType::f64;
  return o;
}

nn::StateDict weights(const training::Trainer& trainer) { return trainer.module().state_dict(); }

} // namespace

TEST_CASE("permuted BERT: rows leave every weight, columns its test, whatever is learnt") {
  const TemporaryFolder folder;
  for (const auto task : {training::BertTask::classify, training::BertTask::mlm}) {
    CAPTURE(training::name_of(task));
    ClassifyOptions o = small(reviews(folder));
    o.task = task;
    auto plain = training::bert_trainer(o);
    const double before = plain->test().loss;
    while (plain->step() < plain->total_steps()) plain->train_step();
    const double after = plain->test().loss;
    CHECK(after < before);
    for (const PermuteMode how : {PermuteMode::rows, PermuteMode::columns, PermuteMode::both}) {
      CAPTURE(name_of(how));
      o.permute = how;
      const auto other = training::bert_trainer(o);
      while (other->step() < other->total_steps()) other->train_step();
      CHECK(std::abs(other->test().loss / after - 1.0) < 1e-9);
      const double apart = training::weight_difference(weights(*other), weights(*plain));
      if (how == PermuteMode::rows)
        CHECK(apart < 1e-9);
      else
        CHECK(apart > 1e-2); // moved: the plain weights are not there to be read
      training::restore_blocks(other->model().module(), o);
      CHECK(training::weight_difference(weights(*other), weights(*plain)) < 1e-9);
    }
  }
}

TEST_CASE("permuted BERT: a run that is cut and resumed ends with the same bits; with another key it is refused") {
  const TemporaryFolder folder;
  ClassifyOptions o = small(reviews(folder));
  o.dropout = 0.2;
  o.checkpoint_every = 5;
  o.permute = PermuteMode::both;
  for (const char* name : {"a.key", "b.key"}) SecretKey::generate().save(folder.path(name));
  o.key = folder.path("a.key");
  o.out = folder.path("whole");
  training::bert_trainer(o)->run();
  o.out = folder.path("cut");
  run_until(training::bert_trainer(o), 7);
  ClassifyOptions again = training::classify_options_of_run(o.out);
  CHECK(again.permute == PermuteMode::both);
  again.key = folder.path("b.key");
  CHECK(message_of<ValueError>([&] { training::bert_trainer(again); }).find("another secret key") != std::string::npos);
  again.key = folder.path("a.key");
  training::bert_trainer(again)->run();
  const std::string file = "/model/model.safetensors";
  CHECK(read_file(folder.path("whole") + file) == read_file(folder.path("cut") + file));
}

TEST_CASE("permuted BERT: words that are none, and a key without a permutation") {
  const TemporaryFolder folder;
  ClassifyOptions o = small(reviews(folder));
  const auto refused = [&](const char* key, const char* word) {
    return message_of<ValueError>([&] { apply_options(o, nlohmann::json{{key, word}}, "config.json"); });
  };
  CHECK(refused("permute", "colums").find("colums") != std::string::npos);
  CHECK(refused("key_form", "loose").find("loose") != std::string::npos);
  o.key = "some.key";
  CHECK(message_of<ValueError>([&] { training::bert_trainer(o); }) == "train: key is given, but nothing is permuted");
}
