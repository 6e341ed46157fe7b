// Masked language modelling: exact resume, threads, how much is masked, learning, what is refused.

#include "core/base/bytes.h"
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

using namespace eg;
using namespace eg::training;
using namespace eg::test;

namespace {

/// A text whose every third word follows from the two before it.
std::string counting(int lines) {
  constexpr const char* digits[] = {"zero", "one", "two", "three", "four"};
  std::string text;
  for (int i = 0; i < lines; ++i) {
    const int a = i * 7 % 5, b = i * 3 % 4;
    text += fmt::format("{} plus {} is {} .\n", digits[a], digits[b], digits[(a + b) % 5]);
  }
  return text;
}

ClassifyOptions small(const std::string& path) {
  ClassifyOptions o;
  o.task = BertTask::mlm;
  o.data = path;
  o.context = 14;
  o.dim = 12;
  o.heads = 2;
  o.layers = 1;
  o.mlp = 16;
  o.batch = 6;
  o.warmup = 2;
  o.steps = 12;
  o.seed = 3;
  return o;
}

} // namespace

TEST_CASE("masked words: runs that are cut and resumed end in the same bytes, whatever the threads and parts") {
  const TemporaryFolder folder;
  write_file(folder.path("text.txt"), std::string_view(counting(120)));
  ClassifyOptions o = small(folder.path("text.txt"));
  o.accumulate = 2;
  o.out = folder.path("whole");
  const Result whole = bert_trainer(o)->run();
  o.out = folder.path("cut");
  int threads = 0;
  for (const std::int64_t cut : {2, 7, 11}) {
    parallel::set_threads(++threads);
    run_until(bert_trainer(cut == 2 ? o : classify_options_of_run(o.out)), cut);
  }
  parallel::set_threads(0);
  const Result rest = bert_trainer(classify_options_of_run(o.out))->run();
  CHECK(weights_of(o.out) == weights_of(folder.path("whole")));
  CHECK(rest.test.loss == whole.test.loss);
}

TEST_CASE("masked words: what is masked does not depend on the parts that a batch is cut into") {
  const TemporaryFolder folder;
  write_file(folder.path("text.txt"), std::string_view(counting(120)));
  std::vector<double> losses;
  for (const std::int64_t parts : {1, 3}) {
    ClassifyOptions o = small(folder.path("text.txt"));
    o.dropout = 0.0;
    o.dtype = DType::f64;
    o.accumulate = parts;
    losses.push_back(bert_trainer(o)->train_step().loss);
  }
  CHECK(losses[0] == doctest::Approx(losses[1]).epsilon(1e-12));
}

TEST_CASE("masked words: they are learnt, and the folder guesses them") {
  const TemporaryFolder folder;
  write_file(folder.path("text.txt"), std::string_view(counting(400)));
  ClassifyOptions o = small(folder.path("text.txt"));
  o.dim = 32;
  o.layers = 2;
  o.heads = 4;
  o.mlp = 64;
  o.batch = 16;
  o.lr = 3e-3;
  o.dropout = 0.0;
  o.steps = 500;
  o.out = folder.path("run");
  const Result result = bert_trainer(o)->run();
  CHECK(result.test.accuracy > 0.5); // the most frequent word alone: less than 0.2
  const hub::LoadedModel loaded = hub::load_model(folder.path("run/model"));
  CHECK(loaded.model->architecture() == "BertForMaskedLM");
  const data::Tokenizer tokenizer = data::Tokenizer::open(folder.path("run/model"));
  const data::Encoding e = tokenizer.encode("one plus one [MASK] two . two plus one is three .",
                                            {.special_in_text = data::SpecialInText::recognise});
  const Tensor ids = Tensor::from(e.ids, {1, static_cast<std::int64_t>(e.ids.size())});
  const Tensor logits = hub::find(loaded.model->forward({{"input_ids", ids}}), "logits");
  const std::vector<std::int64_t> best = argmax(logits.select(0, 0), -1).to_vector<std::int64_t>();
  CHECK(tokenizer.token(best[4]) == "is");
}

TEST_CASE("masked words: options that are wrong are named") {
  const TemporaryFolder folder;
  write_file(folder.path("text.txt"), std::string_view(counting(20)));
  ClassifyOptions o = small(folder.path("text.txt"));
  o.mask_share = 1.0;
  CHECK(message_of<ValueError>([&] { bert_trainer(o); }) == "train: mask_share must be in (0, 1), not 1");
  o = small(folder.path("text.txt"));
  o.context = 400;
  CHECK(message_of<ValueError>([&] { bert_trainer(o); }).find("use a smaller context or more text") !=
        std::string::npos);
  CHECK(message_of<ValueError>([&] {
          apply_options(o, {{"task", "guess"}}, "run.json");
        }) == "run.json: task: 'guess' is neither classify nor mlm");
}
