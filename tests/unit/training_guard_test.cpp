// Which steps a run skips, which checkpoints it keeps, and that going on changes neither.

#include "core/base/bytes.h"
#include "core/base/json.h"
#include "support/message.h"
#include "support/temporary_folder.h"
#include "support/training_run.h"
#include "training/best.h"
#include "training/checkpoint.h"
#include "training/checkpoint_state.h"
#include "training/guard.h"
#include "training/language/language.h"
#include "training/metrics.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cmath>
#include <filesystem>
#include <limits>
#include <set>

using namespace eg;
using namespace eg::training;
using namespace eg::test;
using Json = nlohmann::ordered_json;

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
const double not_a_number = std::nan("");

std::vector<Tensor> gradients(double value = 1.0) { return {Tensor::full({2}, value)}; }

/// Asks a guard about a whole step.
bool takes(StepGuard& guard, double loss, const std::vector<Tensor>& g) {
  return guard.check_loss(loss) && guard.check_gradients(optim::gradient_norm(g), loss);
}

/// What a guard of the losses 1, 2, ..., 20 of steps that were taken.
StepGuard trained(const RunOptions& o, int losses = 20) {
  StepGuard guard(o);
  for (int i = 1; i <= losses; ++i) {
    guard.begin(i);
    auto g = gradients();
    CHECK(takes(guard, static_cast<double>(i), g));
  }
  return guard;
}

LanguageOptions small(const TemporaryFolder& folder) {
  if (!file_exists(folder.path("story.txt"))) {
    std::string text;
    for (int i = 0; i < 60; ++i) text += fmt::format("{} sheep, {} goats.\n", i * i, i);
    write_file(folder.path("story.txt"), std::string_view(text));
  }
  LanguageOptions o = language_defaults(LanguageModel::gpt2);
  o.data = folder.path("story.txt");
  o.context = 12;
  o.dim = 8;
  o.layers = 1;
  o.heads = 2;
  o.batch = 1; // losses that jump from step to step
  o.warmup = 0;
  o.steps = 120;
  o.out = folder.path("run");
  return o;
}

/// The learning rate rises to `lr`, far above what can be learnt with.
void gets_worse(LanguageOptions& o, double lr) {
  o.lr = lr;
  o.warmup = lr > 1.0 ? 40 : 120;
  o.schedule = optim::Schedule::Kind::constant;
}

/// Steps that metrics.jsonl says were skipped.
std::set<std::int64_t> skipped_steps(const std::string& run) {
  std::set<std::int64_t> steps;
  each_metrics_line(run + "/metrics.jsonl", std::numeric_limits<std::int64_t>::max(),
                    [&](std::string_view, const Json& record) {
                      if (record.contains("skipped")) steps.insert(record["step"].get<std::int64_t>());
                    });
  return steps;
}

} // namespace

TEST_CASE("guard: what is no number stops a run, or is skipped and counted") {
  RunOptions o;
  StepGuard stops(o);
  stops.begin(7);
  CHECK(stops.check_part(1.0));
  CHECK(message_of<ValueError>([&] { stops.check_part(not_a_number, " (variant rows)"); }) ==
        "train: the loss is nan at step 7 (variant rows); use a smaller lr or clip");
  auto broken = gradients(infinity);
  CHECK(message_of<ValueError>([&] { takes(stops, 1.0, broken); }) ==
        "train: the gradients' norm is inf at step 7; use a smaller lr or clip");

  CHECK(message_of<ValueError>([&] { stops.check_part(-std::nan("")); }).find("the loss is nan") != std::string::npos);

  o.on_divergence = OnDivergence::skip;
  o.skip_limit = 3;
  StepGuard skips(o);
  for (int round = 0; round < 2; ++round) { // a step that is taken in between begins the count anew
    skips.begin(1);
    CHECK_FALSE(skips.check_part(-infinity));
    CHECK(skips.skip_reason() == "the loss is -inf");
    skips.begin(2);
    auto none = gradients(not_a_number);
    CHECK_FALSE(takes(skips, 1.0, none));
    CHECK(skips.skip_reason() == "the gradients' norm is nan");
    skips.begin(3);
    auto good = gradients();
    CHECK(takes(skips, 1.0, good));
    CHECK(skips.skip_reason().empty());
  }
  CHECK(skips.skipped() == 4);
  skips.begin(4);
  skips.check_part(not_a_number);
  skips.begin(5);
  skips.check_part(not_a_number);
  skips.begin(6);
  CHECK(message_of<ValueError>([&] { skips.check_part(not_a_number); }) ==
        "train: 3 steps in a row were skipped; the last because the loss is nan at step 6; use a smaller lr or clip");
}

TEST_CASE("guard: a loss far above the median is skipped, and does not raise the median") {
  RunOptions o;
  o.spike_guard = 2.0;
  auto g = gradients();
  StepGuard early = trained(o, 15);
  CHECK(takes(early, 1e6, g)); // too few losses to know what is usual
  StepGuard guard = trained(o);
  guard.begin(20); // the median of 1 ... 20 is 11 (the upper one)
  CHECK_FALSE(takes(guard, 22.1, g));
  CHECK(guard.skip_reason() == "the loss is 22.1, above 2 times the usual 11");
  CHECK(takes(guard, 22.0, g));
  for (int i = 0; i < 5; ++i) CHECK_FALSE(takes(guard, 100.0, g));
  CHECK(takes(guard, 21.0, g));
  CHECK(guard.skipped() == 6);
}

TEST_CASE("guard: its state goes through JSON, and what is none is damage") {
  RunOptions o;
  o.spike_guard = 2.0;
  StepGuard guard = trained(o, 40);
  auto g = gradients();
  CHECK_FALSE(takes(guard, 1e9 / 3.0, g));
  Json state;
  guard.add_state(state);
  StepGuard read(o);
  read.read_state(nlohmann::json::parse(state.dump()), "state.json");
  Json again;
  read.add_state(again);
  CHECK(state == again);
  CHECK(read.skipped() == 1);
  read.read_state(nlohmann::json::object(), "state.json"); // an older checkpoint
  CHECK(read.skipped() == 0);
  for (const char* wrong : {R"({"guard": 3})", R"({"guard": {"refused": 1, "in_a_row": 2, "losses": []}})",
                            R"({"guard": {"refused": 1, "in_a_row": 0, "losses": ["a"]}})",
                            R"({"guard": {"refused": -1, "in_a_row": -1, "losses": []}})"})
    CHECK(message_of<DamagedCheckpoint>([&] { read.read_state(nlohmann::json::parse(wrong), "state.json"); }) ==
          "state.json: 'guard' does not say which steps were refused");
}

TEST_CASE("guard: a run that skips steps goes on bit for bit, wherever it is cut") {
  const TemporaryFolder folder;
  LanguageOptions o = small(folder);
  gets_worse(o, 1.0);
  o.spike_guard = 1.1;
  o.skip_limit = 100;
  o.out = folder.path("whole");
  const Result whole = language_trainer(o)->run();
  const std::set<std::int64_t> skipped = skipped_steps(o.out);
  REQUIRE(skipped.size() > 3);
  CHECK(whole.skipped == static_cast<std::int64_t>(skipped.size()));
  const std::int64_t first = *skipped.begin(), last = *skipped.rbegin();
  REQUIRE(last > 40);
  for (const std::int64_t cut : {first, last - 1, last}) {
    CAPTURE(cut);
    o.out = folder.path(fmt::format("cut-{}", cut));
    o.resume.clear();
    run_until(language_trainer(o), cut);
    o.resume = o.out;
    CHECK(language_trainer(o)->run().skipped == whole.skipped);
    CHECK(skipped_steps(o.out) == skipped);
    CHECK(weights_of(o.out) == weights_of(folder.path("whole")));
  }
  // Without the guard other weights come out.
  o.resume.clear();
  o.out = folder.path("without");
  o.spike_guard = 0.0;
  CHECK(language_trainer(o)->run().skipped == 0);
  CHECK(weights_of(o.out) != weights_of(folder.path("whole")));
}

TEST_CASE("guard: a run that diverges skips what it may, then stops") {
  const TemporaryFolder folder;
  LanguageOptions o = small(folder);
  o.optimizer = "sgd";
  o.clip = 0.0;
  o.lr = 1e12;
  o.on_divergence = OnDivergence::skip;
  std::vector<std::string> reports;
  Callbacks callbacks;
  callbacks.skipped = [&](const std::string& why) { reports.push_back(why); };
  const std::string error = message_of<ValueError>([&] { language_trainer(o)->run(callbacks); });
  CHECK_MESSAGE(error.find("10 steps in a row were skipped") != std::string::npos, error);
  CHECK(reports.size() >= 9);
  CHECK(skipped_steps(o.out).size() == reports.size());
}

TEST_CASE("checkpoints: so many stay as are asked for, and the best one besides") {
  const TemporaryFolder folder;
  LanguageOptions o = small(folder);
  gets_worse(o, 8.0);
  o.steps = 40;
  o.checkpoint_every = 4;
  o.evaluate_every = 2;
  o.keep = 3;
  std::int64_t best = 0;
  double least = infinity;
  Callbacks callbacks;
  callbacks.test = [&](const Record& r) {
    if (r.loss < least) best = r.step, least = r.loss;
  };
  const Result result = language_trainer(o)->run(callbacks);
  REQUIRE(best < 28);
  REQUIRE(best > 0);
  CHECK(result.best == best);
  CHECK(checkpoint_steps(o.out) == std::vector<std::int64_t>{best, 32, 36, 40});
  const nlohmann::json mark = read_json(o.out + "/checkpoints/best.json");
  CHECK(mark["step"] == best);
  CHECK(mark["checkpoint"] == checkpoint_name(best));
  CHECK(mark["loss"] == least);

  // Its weights are the best ones: a run that goes on from it for no further step tests them.
  LanguageOptions again = language_options_of_run(o.out + "/checkpoints/" + checkpoint_name(best), LanguageModel::gpt2);
  again.steps = best;
  again.out = folder.path("best");
  CHECK(language_trainer(again)->run().test.loss == least);

  o.best = BestBy::off;
  o.keep = 1;
  o.out = folder.path("none");
  language_trainer(o)->run();
  CHECK(checkpoint_steps(o.out) == std::vector<std::int64_t>{40});
  CHECK_FALSE(file_exists(o.out + "/checkpoints/best.json"));
}

TEST_CASE("checkpoints: a run that is cut keeps the same best one") {
  const TemporaryFolder folder;
  LanguageOptions o = small(folder);
  gets_worse(o, 8.0);
  o.steps = 24;
  o.evaluate_every = 2;
  o.out = folder.path("whole");
  const Result whole = language_trainer(o)->run();
  for (const std::int64_t cut : {*whole.best - 1, *whole.best, *whole.best + 3}) {
    CAPTURE(cut);
    o.out = folder.path(fmt::format("cut-{}", cut));
    o.resume.clear();
    run_until(language_trainer(o), cut);
    // A process that died between the test and its mark.
    if (cut == *whole.best) std::filesystem::remove(o.out + "/checkpoints/best.json");
    o.resume = o.out;
    CHECK(language_trainer(o)->run().best == whole.best);
    CHECK(bytes_of(o.out + "/checkpoints/best.json") == bytes_of(folder.path("whole/checkpoints/best.json")));
  }
}

TEST_CASE("checkpoints: a damaged mark of the best one is made again from the metrics, with a warning") {
  const TemporaryFolder folder;
  LanguageOptions o = small(folder);
  gets_worse(o, 8.0);
  o.steps = 12;
  o.evaluate_every = 2;
  o.keep = 8;
  o.out = folder.path("run");
  const Result whole = language_trainer(o)->run();
  REQUIRE(whole.best);
  o.resume = o.out;
  const std::string path = o.out + "/checkpoints/best.json", sound = bytes_of(path);
  const auto resumed = [&](const std::string& damaged) {
    write_file(path, std::string_view(damaged));
    const auto trainer = language_trainer(o);
    CHECK(trainer->run().best == whole.best);
    return trainer->notes();
  };
  for (const auto& damage :
       {std::string("{}"), std::string("["), std::string(), std::string("\xff\xfe"), std::string("null")}) {
    const std::vector<std::string> notes = resumed(damage);
    REQUIRE(notes.size() >= 1);
    CHECK(notes.back().starts_with(path + ": damaged; by metrics.jsonl the best checkpoint is that of step "));
    CHECK(bytes_of(path) == sound);
  }
  // A byte in every place: what is left may say the same, but never another best one.
  for (std::size_t i = 0; i < sound.size(); ++i) {
    CAPTURE(i);
    std::string flipped = sound;
    flipped[i] = static_cast<char>(flipped[i] ^ 1);
    write_file(path, std::string_view(flipped));
    CHECK(BestCheckpoint(o, o.steps).step() == whole.best);
  }
  // Without the metrics nobody knows.
  std::filesystem::remove(o.out + "/metrics.jsonl");
  write_file(path, std::string_view("{}"));
  CHECK(language_trainer(o)->notes().back().find("the best one is found anew") != std::string::npos);
}

TEST_CASE("checkpoints: options about steps that are skipped and checkpoints that stay are checked") {
  const TemporaryFolder folder;
  const auto refused = [&](auto&& change) {
    LanguageOptions o = small(folder);
    change(o);
    return message_of<ValueError>([&] { check(o); });
  };
  CHECK(refused([](auto& o) { o.keep = 0; }) == "train: keep must be positive, not 0");
  CHECK(refused([](auto& o) { o.spike_guard = 0.5; }) == "train: spike_guard must be above 1, or 0 for none, not 0.5");
  CHECK(refused([](auto& o) { o.skip_limit = 0; }) == "train: skip_limit must be positive, not 0");
  CHECK(refused([](auto& o) { o.best = BestBy::accuracy; }).starts_with("train: best must be loss or off"));
  CHECK(refused([](auto& o) {
          o.detect_anomaly = true;
          o.on_divergence = OnDivergence::skip;
        }).starts_with("train: detect_anomaly stops at the first"));
  LanguageOptions o;
  CHECK(message_of<ValueError>([&] {
          apply_options(o, {{"on_divergence", "go"}}, "c.json");
        }) == "c.json: on_divergence: 'go' is not one of stop, skip");
  CHECK(message_of<ValueError>([&] {
          apply_options(o, {{"best", "x"}}, "c.json");
        }) == "c.json: best: 'x' is not one of off, loss, accuracy");
}
