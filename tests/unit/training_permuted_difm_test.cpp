// DIFM in training: exact resume, threads, permuted fields that change nothing, what comes out, what is refused.

#include "core/base/bytes.h"
#include "core/base/json.h"
#include "core/ops.h"
#include "core/threads/parallel.h"
#include "data/safetensors.h"
#include "permute/blocks_key.h"
#include "permute/key.h"
#include "support/message.h"
#include "support/temporary_folder.h"
#include "support/training_run.h"
#include "training/language/difm_task.h"
#include "training/records.h"

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>

using namespace eg;
using namespace eg::permute;
using namespace eg::test;
using namespace eg::training;

namespace {

/// Rows whose label says whether two of three categories agree, which no field alone tells.
std::string pairs(int rows) {
  std::string text = "a,b,label,c,x,y\n";
  RandomStream random({3, 1});
  for (int i = 0; i < rows; ++i) {
    const auto a = random.below(3), b = random.below(3);
    text += fmt::format("a{},b{},{},c{},{:.3f},{}\n", a, b, a == b ? 1 : 0, random.below(4), random.normal(),
                        random.below(5) == 0 ? "" : fmt::format("{:.2f}", random.uniform(0.0, 90.0)));
  }
  return text;
}

DifmOptions small(const std::string& path) {
  DifmOptions o;
  o.data = path;
  o.dim = 4;
  o.heads = 2;
  o.head_dim = 3;
  o.hidden = "8,6";
  o.batch = 8;
  o.steps = 20;
  o.lr = 1e-2;
  o.seed = 2;
  o.table.held_out = 0.3;
  return o;
}

std::string table_weights_of(const std::string& run) { return bytes_of(run + "/model.safetensors"); }

/// Largest relative difference of any parameter.
double difference(const std::string& a, const std::string& b) {
  const data::NamedTensors first = data::load_safetensors(a + "/model.safetensors").tensors;
  const data::NamedTensors second = data::load_safetensors(b + "/model.safetensors").tensors;
  REQUIRE(first.size() == second.size());
  double worst = 0.0;
  for (std::size_t i = 0; i < first.size(); ++i)
    worst = std::max(worst, relative_error(first[i].second, second[i].second));
  return worst;
}

} // namespace

TEST_CASE("difm: runs that are cut and resumed end in the same bytes, whatever the threads") {
  const TemporaryFolder folder;
  write_file(folder.path("pairs.csv"), std::string_view(pairs(80)));
  for (const PermuteMode mode : {PermuteMode::none, PermuteMode::rows}) {
    DifmOptions o = small(folder.path("pairs.csv"));
    o.permute = mode;
    o.dropout = 0.1;
    o.accumulate = 2;
    o.label_smoothing = 0.1;
    o.out = folder.path(fmt::format("whole-{}", name_of(mode)));
    const training::Result whole = difm_trainer(o)->run();
    const std::string first = o.out;
    o.out = folder.path(fmt::format("cut-{}", name_of(mode)));
    int threads = 0;
    for (const std::int64_t cut : {3, 8, 15}) {
      parallel::set_threads(++threads);
      run_until(difm_trainer(cut == 3 ? o : difm_options_of_run(o.out)), cut);
    }
    parallel::set_threads(0);
    const training::Result rest = difm_trainer(difm_options_of_run(o.out))->run();
    CHECK(table_weights_of(o.out) == table_weights_of(first));
    CHECK(rest.test.auc == whole.test.auc);
  }
}

TEST_CASE("difm: fields that are permuted and come back change nothing but rounding") {
  const TemporaryFolder folder;
  write_file(folder.path("pairs.csv"), std::string_view(pairs(200)));
  for (const DType dtype : {DType::f64, DType::f32}) {
    DifmOptions o = small(folder.path("pairs.csv"));
    o.dtype = dtype;
    o.steps = 60;
    std::vector<double> aucs, losses;
    for (const PermuteMode mode : {PermuteMode::none, PermuteMode::rows}) {
      o.permute = mode;
      o.out = folder.path(fmt::format("{}-{}", name_of(dtype), name_of(mode)));
      const training::Result result = difm_trainer(o)->run();
      aucs.push_back(result.test.auc);
      losses.push_back(result.test.loss);
    }
    const double apart = difference(folder.path(fmt::format("{}-none", name_of(dtype))), o.out);
    CHECK(apart > 0.0); // the sums of the attention were taken in other orders
    CHECK(apart < (dtype == DType::f64 ? 1e-10 : 1e-2));
    CHECK(losses[0] == doctest::Approx(losses[1]).epsilon(dtype == DType::f64 ? 1e-11 : 1e-3));
    if (dtype == DType::f64) CHECK(aucs[0] == aucs[1]);
  }
}

TEST_CASE("difm: permuting without coming back is not the same") {
  const nn::Difm model({.vocabularies = {4, 4, 4}, .numeric = 1, .dim = 4, .heads = 2, .head_dim = 4, .hidden = {5}},
                       {7, 0});
  const data::TabularRows::Batch batch{.numbers = Tensor::from<float>({0.5f, -1.0f}, {2, 1}),
                                       .ids = Tensor::from<std::int64_t>({0, 1, 2, 3, 3, 1}, {2, 3}),
                                       .labels = {}};
  const Tensor plain = model(batch.ids, batch.numbers);
  const Tensor rows = row_permutations(2, 4, {8, 0});
  CHECK(relative_error(permuted_logits(model, batch, rows), plain) < 1e-5);
  const Tensor e = model.embed(batch.ids, batch.numbers);
  const Tensor stays = model.machine(batch.ids, batch.numbers, e,
                                     model.factors(model.vector_wise(permute_rows(e, rows)), model.bit_wise(e)));
  CHECK(relative_error(stays, plain) > 1e-4);
}

TEST_CASE("difm: it learns what no field alone tells, from numbers and hashed categories too") {
  const TemporaryFolder folder;
  write_file(folder.path("pairs.csv"), std::string_view(pairs(600)));
  for (const std::int64_t buckets : {0, 64}) {
    DifmOptions o = small(folder.path("pairs.csv"));
    o.steps = 300;
    o.batch = 32;
    o.table.buckets = buckets;
    o.out = folder.path(fmt::format("run{}", buckets));
    const training::Result result = difm_trainer(o)->run();
    CHECK(result.test.auc > 0.97);
    CHECK(result.test.accuracy > 0.9);
    const nlohmann::json table = read_json(o.out + "/table.json");
    CHECK(table["dense"][0]["column"] == "x");
    CHECK(table["categorical"][0]["values"].size() == (buckets == 0 ? 3 : 0));
    CHECK(read_json(o.out + "/config.json")["categorical"] == "a,b,c"); // what was guessed
  }
}

TEST_CASE("difm: options, keys and data that are wrong are named") {
  const TemporaryFolder folder;
  const std::string path = folder.path("pairs.csv");
  write_file(path, std::string_view(pairs(80)));
  DifmOptions o = small(path);
  const auto refused = [&](const DifmOptions& wrong) { return message_of<ValueError>([&] { difm_trainer(wrong); }); };
  o.permute = PermuteMode::columns;
  CHECK(refused(o) == "train: permute must be none or rows, not columns: the fields are the rows");
  o = small(path);
  o.hidden = "8,x";
  CHECK(refused(o) == "train: hidden must be widths separated by commas, not '8,x'");
  o = small(path);
  o.batch = 100;
  CHECK(refused(o).find("training rows, fewer than a batch of 100") != std::string::npos);
  o = small(path);
  o.key = folder.path("key");
  CHECK(refused(o) == "train: key is given, but nothing is permuted");
  DifmOptions back;
  apply_options(back, nlohmann::json::parse(options_json(small(path)).dump()), "file");
  CHECK(options_json(back) == options_json(small(path)));
  CHECK(message_of([&] {
          apply_options(back, {{"catgorical", "a"}}, "run.json");
        }) == "run.json: unknown option 'catgorical'; did you mean categorical?");

  SecretKey::generate().save(folder.path("key"));
  SecretKey::generate().save(folder.path("other"));
  o = small(path);
  o.permute = PermuteMode::rows;
  o.key = folder.path("key");
  o.out = folder.path("run");
  difm_trainer(o)->run();
  DifmOptions more = difm_options_of_run(o.out);
  more.steps = 22;
  more.key = folder.path("other");
  CHECK(refused(more).find("was made with another secret key") != std::string::npos);
  more.key = o.key;
  write_file(path, std::string_view(pairs(90)));
  CHECK(refused(more).find("was made from other data") != std::string::npos);
  CHECK(message_of<ValueError>([&] { options_of_run(o.out); }).find("is a run of `train difm`, not of `train vit`") !=
        std::string::npos);
}

TEST_CASE("difm: a run that begins from another one has its columns, its coding and its weights") {
  const TemporaryFolder folder;
  write_file(folder.path("old.csv"), std::string_view(pairs(200)));
  std::string more = pairs(120);
  more += "a9,b9,1,c9,0.5,2\n"; // categories that the first run has not seen
  write_file(folder.path("new.csv"), std::string_view(more));
  DifmOptions old = small(folder.path("old.csv"));
  old.out = folder.path("old");
  difm_trainer(old)->run();
  DifmOptions o;
  o.data = folder.path("new.csv");
  o.batch = 8;
  o.steps = 6;
  o.start = {.from = old.out, .fresh = "", .freeze = "embedding*"};
  o.out = folder.path("tuned");
  o.checkpoint_every = 3;
  difm_trainer(o)->run();
  CHECK(bytes_of(o.out + "/table.json") == bytes_of(old.out + "/table.json"));
  const data::NamedTensors before = data::load_safetensors(old.out + "/model.safetensors").tensors;
  const data::NamedTensors after = data::load_safetensors(o.out + "/model.safetensors").tensors;
  REQUIRE(before.size() == after.size());
  int frozen = 0, moved = 0;
  for (std::size_t i = 0; i < before.size(); ++i) {
    CAPTURE(before[i].first);
    const bool same = same_bits(before[i].second, after[i].second);
    if (before[i].first.starts_with("embedding")) CHECK(same);
    (same ? frozen : moved) += 1;
  }
  CHECK(frozen > 0);
  CHECK(moved > 0);
  // Cut and resumed it ends in the same bytes.
  DifmOptions cut = o;
  cut.out = folder.path("cut");
  run_until(difm_trainer(cut), 4);
  difm_trainer(difm_options_of_run(cut.out))->run();
  CHECK(table_weights_of(cut.out) == table_weights_of(o.out));
  // Everything fresh: the first loss is a new model's.
  DifmOptions fresh = o;
  fresh.out = "";
  fresh.checkpoint_every = 0;
  fresh.start.freeze = "";
  const double learnt = difm_trainer(fresh)->test().loss;
  fresh.start.fresh = "*";
  CHECK(difm_trainer(fresh)->test().loss > learnt);
}

TEST_CASE("difm: beginnings that are none are refused by name") {
  const TemporaryFolder folder;
  write_file(folder.path("t.csv"), std::string_view(pairs(100)));
  DifmOptions o = small(folder.path("t.csv"));
  o.out = folder.path("run");
  difm_trainer(o)->run();
  const auto refused = [&](const training::FineTuning& start, const std::string& data) {
    DifmOptions next;
    next.data = data;
    next.batch = 8;
    next.steps = 2;
    next.start = start;
    return message_of([&] { difm_trainer(next); });
  };
  CHECK(refused({.from = folder.path("none"), .fresh = "", .freeze = ""}, o.data).find("config.json") !=
        std::string::npos);
  CHECK(refused({.from = o.out, .fresh = "embeding*", .freeze = ""}, o.data).find("fits no parameter") !=
        std::string::npos);
  std::string other = pairs(100);
  other.replace(0, 1, "q"); // its first column has another name
  write_file(folder.path("other.csv"), std::string_view(other));
  CHECK(refused({.from = o.out, .fresh = "", .freeze = ""}, folder.path("other.csv")).find("'a'") != std::string::npos);
  write_file(o.out + "/table.json", std::string_view("{\"label\": 3}"));
  CHECK(refused({.from = o.out, .fresh = "", .freeze = ""}, o.data).find("table.json: is no description") !=
        std::string::npos);
}
