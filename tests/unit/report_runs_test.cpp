// Runs on one page: folders read, curves, what models say, attention rollout.

#include "apps/report/pages/runs_report.h"

#include "apps/report/pages/attention_maps.h"
#include "apps/report/pages/curves.h"
#include "apps/report/pages/predictions.h"
#include "apps/report/pages/scores.h"
#include "core/base/bytes.h"
#include "core/ops.h"
#include "drawn_faces.h"
#include "nn/metrics.h"
#include "support/markup.h"
#include "support/message.h"
#include "support/temporary_folder.h"
#include "training/language/classify.h"
#include "training/language/difm_task.h"
#include "training_small_run.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <thread>

using namespace eg;
using namespace eg::pages;
using namespace eg::test;

namespace {

void write(const TemporaryFolder& folder, const std::string& name, const std::string& text) {
  write_file(folder.path(name, true), std::string_view(text));
}

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

const std::string three_lines = R"({"split":"train","step":1,"loss":3.0,"seconds":0.5}
{"split":"train","step":2,"loss":null,"skipped":"the loss is nan","seconds":1.0}
{"split":"test","step":2,"loss":2.5,"accuracy":0.5,"variants":{"rows":{"loss":2.5}},"seconds":1.5}
)";

} // namespace

TEST_CASE("runs: a folder's options and metrics") {
  const TemporaryFolder folder;
  write(folder, "a/run/config.json", R"({"model": "gpt2", "lr": 0.5})");
  write(folder, "a/run/metrics.jsonl", three_lines + "{\"torn");
  const RunFolder run = read_run(folder.path("a/run"));
  CHECK(run.name == "run");
  CHECK(run.model == "gpt2");
  CHECK(run.step == 2);
  CHECK(run.skipped == 1);
  CHECK(run.seconds == 1.5);
  CHECK(run.curve(data::Split::train, "loss").value == std::vector<double>{3.0});
  CHECK(run.curve(data::Split::test, "variants.rows.loss").seconds == std::vector<double>{1.5});
  CHECK(run.curve(data::Split::test, "nothing").value.empty());

  write(folder, "b/run/config.json", R"({"lr": 0.5})");
  write(folder, "b/run/metrics.jsonl", "");
  const auto both = read_runs({folder.path("a/run/"), folder.path("b/run")});
  CHECK(both[0].name == "a/run"); // told apart
  CHECK(both[1].name == "b/run");
  CHECK(both[1].model == "vit");
}

TEST_CASE("runs: what is no run is refused by name") {
  const TemporaryFolder folder;
  const auto refused = [&](const std::string& path) { return message_of<FileError>([&] { read_run(path); }); };
  CHECK(refused(folder.path("none")) == folder.path("none") + ": no such folder");
  CHECK(refused(folder.path()) == folder.path() + ": holds no run: there is no metrics.jsonl");
  write(folder, "run/metrics.jsonl", three_lines);
  CHECK(refused(folder.path("run")) == folder.path("run") + ": holds no run: there is no config.json");
  write(folder, "run/config.json", "[]");
  CHECK(refused(folder.path("run")) == folder.path("run/config.json") + ": holds no options");
  write(folder, "run/config.json", "{}");
  write(folder, "run/metrics.jsonl", three_lines + "not a record\n" + three_lines);
  CHECK(refused(folder.path("run")) == folder.path("run/metrics.jsonl") + ": line 4 is no record of training");
  write(folder, "run/metrics.jsonl", three_lines);
  std::filesystem::create_symlink(folder.path("run"), folder.path("link"));
  CHECK(message_of<ValueError>([&] {
          read_runs({folder.path("run"), folder.path("link")});
        }) == folder.path("link") + ": is given twice");
}

TEST_CASE("runs: a mark of the best checkpoint counts when it is sound, and is passed over with a note otherwise") {
  const TemporaryFolder folder;
  write(folder, "run/config.json", "{}");
  write(folder, "run/metrics.jsonl", three_lines);
  for (const char* name : {"step-00000001", "step-00000002"})
    write(folder, fmt::format("run/checkpoints/{}/state.json", name), "{}");
  const auto read = [&](const std::string& mark) {
    write(folder, "run/checkpoints/best.json", mark);
    return read_run(folder.path("run"));
  };
  const std::string sound = R"({"by":"loss","checkpoint":"step-00000002","step":2,"loss":2.5,"accuracy":0.5})";
  CHECK(read(sound).best_step == 2);
  CHECK(read(sound).note.empty());
  CHECK(read(R"({"by":"accuracy","checkpoint":"step-00000002","step":2,"accuracy":0.5})").best_step == 2);
  for (const char* damaged :
       {"{", "", "[]", R"({"step":2})", R"({"by":"loss","checkpoint":"step-00000002","step":2,"loss":2.25})",
        R"({"by":"loss","checkpoint":"step-00000002","step":1,"loss":2.5})",
        R"({"by":"loss","checkpoint":"step-00000003","step":3,"loss":2.5})",
        R"({"by":"auc","checkpoint":"step-00000002","step":2,"auc":0.5})"}) {
    CAPTURE(damaged);
    const RunFolder run = read(damaged);
    CHECK(run.best_step == 0);
    CHECK(run.note.starts_with(folder.path("run/checkpoints/best.json") + ": damaged, or its checkpoint is gone; "));
    CHECK(runs_report({run}, {}).notes.front() == run.note);
  }
}

TEST_CASE("runs: one that goes on can be read at any time") {
  const TemporaryFolder folder;
  write(folder, "run/config.json", "{}");
  write(folder, "run/metrics.jsonl", three_lines);
  std::atomic<bool> done = false;
  std::thread writer([&] {
    std::ofstream file(folder.path("run/metrics.jsonl"), std::ios::app);
    for (int step = 4; step < 2000; ++step)
      for (const std::string& half :
           {fmt::format(R"({{"split":"train","step":{},)", step), std::string("\"loss\":1.5,\"seconds\":2.0}\n")})
        file << half << std::flush;
    done = true;
  });
  std::int64_t last = 0;
  CHECK_NOTHROW(while (!done) {
    const std::int64_t step = read_run(folder.path("run")).step;
    CHECK(step >= last);
    last = step;
  });
  writer.join();
  CHECK(read_run(folder.path("run")).step == 1999);
}

TEST_CASE("runs: a smoothed curve is means of neighbours") {
  Curve curve;
  for (int i = 1; i <= 7; ++i) {
    curve.step.push_back(i);
    curve.seconds.push_back(10.0 * i);
    curve.value.push_back(i * i);
  }
  const Curve smooth = smoothed(curve, 3);
  CHECK(smooth.value == std::vector<double>{(1 + 4 + 9) / 3.0, (16 + 25 + 36) / 3.0, 49.0});
  CHECK(smooth.step == std::vector<double>{3, 6, 7});
  CHECK(smooth.seconds == std::vector<double>{30, 60, 70});
  CHECK(smoothed(curve, 100).value == curve.value);
  CHECK(smoothed({}, 5).value.empty());
}

TEST_CASE("runs: attention rollout of layers that are known") {
  const auto layer = [](std::vector<double> values) { return Tensor::from(values, {1, 1, 2, 2}); };
  // One layer: (A + I) / 2.
  const Tensor one = attention_rollout({layer({1, 0, 0.5, 0.5})});
  CHECK(one.to_vector<double>() == std::vector<double>{1, 0, 0.25, 0.75});
  // Two: the later one on the left.
  const Tensor two = attention_rollout({layer({1, 0, 0.5, 0.5}), layer({0, 1, 0, 1})});
  CHECK(two.to_vector<double>() == std::vector<double>{0.5 * 1 + 0.5 * 0.25, 0.5 * 0.75, 0.25, 0.75});
  // Heads are averaged.
  const Tensor heads = attention_rollout({Tensor::from<double>({1, 0, 0, 1, 0, 1, 1, 0}, {1, 2, 2, 2})});
  CHECK(heads.to_vector<double>() == std::vector<double>{0.75, 0.25, 0.25, 0.75});
  const Tensor many = attention_rollout(std::vector<Tensor>(5, softmax(random_normal({3, 4, 6, 6}, {1, 2}))));
  for (const double row : sum(many, {2}).to_vector<double>()) CHECK(row == doctest::Approx(1.0));
  CHECK(message_of<ShapeError>([] { attention_rollout({}); }) == "attention_rollout: there is no layer");
  CHECK_THROWS_AS(attention_rollout({layer({1, 0, 0, 1}), Tensor::ones({1, 1, 3, 3})}), ShapeError);
}

TEST_CASE("runs: the patches that the class token looks at") {
  nn::VitConfig config;
  config.image = 8;
  config.patch = 4;
  std::vector<double> attention(25);
  for (std::size_t i = 0; i < 25; ++i) attention[i] = static_cast<double>(i);
  const Tensor matrix = Tensor::from(attention, {5, 5});
  CHECK(patch_map(matrix, config).to_vector<double>() == std::vector<double>{1, 2, 3, 4});
  config.pooling = nn::Pooling::mean;
  CHECK(message_of<ShapeError>([&] { patch_map(matrix, config); }) ==
        "patch_map: attention must be [4, 4], it is [5, 5]");
  config.image_width = 4; // two patches above each other
  CHECK(patch_map(Tensor::from<double>({0, 1, 1, 0.5}, {2, 2}), config).to_vector<double>() ==
        std::vector<double>{0.5, 0.75});
}

TEST_CASE("runs: what was said, and the surest mistakes") {
  Predictions p{.classes = {"a", "b", "c"}};
  p.add(Tensor::from<double>({5, 0, 0, 0, 1, 0, 0, 9, 0, 0, 2, 0}, {4, 3}),
        Tensor::from<std::int64_t>({0, 2, 0, 1}, {4}));
  CHECK(p.size() == 4);
  CHECK(p.correct() == 2);
  CHECK(p.surest_mistakes(5) == std::vector<std::size_t>{2, 1});
  CHECK(p.surest_mistakes(1) == std::vector<std::size_t>{2});
  CHECK(p.spread(2) == std::vector<std::size_t>{0, 2});
  CHECK(p.caption(0) == "\u2713 a (99\u00a0%)");
  CHECK(p.caption(1) == "\u2717 b (58\u00a0%), is c");
  report::Page page("t");
  add_confusion(page, p);
  add_classes(page, p);
  const std::string html = page.html();
  CHECK(html.find("<th>a</th><td class=\"hit\" style=\"--part:50.0%\">1</td><td style=\"--part:50.0%\">1</td>") !=
        std::string::npos);
  CHECK(html.find("<td>b</td><td>1</td><td class=\"bar\" style=\"--part:100.0%\">100.0 %</td>"
                  "<td class=\"bar\" style=\"--part:33.3%\">33.3 %</td><td></td>") != std::string::npos);
  CHECK(html.find("<td>b (1)</td>") != std::string::npos); // what a and c were taken for
}

TEST_CASE("runs: the page of two ViTs has every part, is well formed and needs nothing else") {
  const TemporaryFolder folder;
  training::VitOptions o = small();
  o.evaluate_every = 4;
  o.out = folder.path("plain");
  training::VitTrainer(o).run();
  o.permute = permute::PermuteMode::both;
  o.lr = 1e-3;
  o.out = folder.path("shuffled");
  training::VitTrainer(o).run();
  std::vector<std::string> reports;
  const auto runs = read_runs({folder.path("plain"), folder.path("shuffled")});
  const RunsReport made =
      runs_report(runs, {.samples = 12, .on_progress = [&](const std::string& what) { reports.push_back(what); }});
  CHECK(made.notes.empty());
  CHECK(reports.size() >= 4);
  const std::string html = made.page.html();
  CHECK(fault_of_markup(html) == "");
  for (const char* part :
       {"Numbers", "Curves", "Options", "What the model does: plain", "What the model does: shuffled",
        "on 12 of 20 test images", "rollout", "block 2, head 3", "Position embeddings", "by seconds"})
    CHECK_MESSAGE(html.find(part) != std::string::npos, part);
  CHECK(html.find("<td>lr</td><td>0.003</td><td>0.001</td>") != std::string::npos);
  CHECK(count(html, "class=\"confusion\"") == 2);
  CHECK(html.find("<script") == std::string::npos);
  CHECK(html.find("http") == std::string::npos);
}

TEST_CASE("runs: the ROC curve of scores with ties, and the area below it") {
  const std::vector<double> scores = {0.9, 0.8, 0.8, 0.4, 0.3, 0.3};
  const std::vector<std::uint8_t> labels = {1, 1, 0, 1, 0, 0};
  const RocCurve curve = roc_curve(scores, labels);
  CHECK(curve.false_positive == std::vector<double>{0, 0, 1 / 3.0, 1 / 3.0, 1});
  CHECK(curve.true_positive == std::vector<double>{0, 1 / 3.0, 2 / 3.0, 1, 1});
  double area = 0.0;
  for (std::size_t i = 1; i < curve.true_positive.size(); ++i)
    area += (curve.false_positive[i] - curve.false_positive[i - 1]) *
            (curve.true_positive[i] + curve.true_positive[i - 1]) / 2;
  CHECK(area ==
        doctest::Approx(nn::auc(Tensor::from(scores, {6}), Tensor::from<std::int64_t>({1, 1, 0, 1, 0, 0}, {6}))));
  CHECK(message_of<ValueError>([&] { roc_curve({0.5}, {1}); }) == "roc_curve: both labels must be there");
  CHECK(message_of<ValueError>([&] {
          roc_curve({0.5}, {1, 0});
        }) == "roc_curve: there must be a label for every score");
}

TEST_CASE("runs: calibration groups what was said with what was so") {
  const Calibration c = calibration({0.75, 0.25, 0.25, 0.25, 1.0}, {1, 0, 1, 0, 1}, 2);
  REQUIRE(c.bins.size() == 2); // the three of 0.25 share the first one
  CHECK(c.bins[0].samples == 3);
  CHECK(c.bins[0].said == 0.25);
  CHECK(c.bins[0].true_share == doctest::Approx(1 / 3.0));
  CHECK(c.bins[1].said == 0.875);
  CHECK(c.bins[1].true_share == 1.0);
  CHECK(c.brier == doctest::Approx((0.0625 * 3 + 0.5625) / 5));
  CHECK(c.expected_error == doctest::Approx((3 * (1 / 3.0 - 0.25) + 2 * 0.125) / 5));
  CHECK(message_of<ValueError>([] { calibration({}, {}, 2); }) == "calibration: there must be samples and bins");
}

TEST_CASE("runs: the page of a factorization machine has its ROC curve and calibration") {
  const TemporaryFolder folder;
  std::string table = "bought,size,color\n";
  for (int i = 0; i < 200; ++i) table += fmt::format("{},{},c{}\n", i % 3 == 0 ? "yes" : "no", i * 7 % 11, i % 3);
  write(folder, "table.csv", table);
  training::DifmOptions o;
  o.data = folder.path("table.csv");
  o.table.label = "bought";
  o.table.held_out = 0.3;
  o.dim = 4;
  o.hidden = "8";
  o.steps = 60;
  o.batch = 20;
  o.lr = 1e-2;
  o.permute = permute::PermuteMode::rows;
  o.out = folder.path("run");
  const training::Record test = training::difm_trainer(o)->run().test;
  const RunsReport made = runs_report(read_runs({o.out}), {.samples = 0});
  CHECK(made.notes.empty());
  const std::string html = made.page.html();
  CHECK(fault_of_markup(html) == "");
  const std::vector<std::string> parts = {"ROC curve", "Calibration", "<th>bought yes</th>",
                                          fmt::format("the model, AUC {:.4f}", test.auc),
                                          fmt::format("{:.2f} % right", 100 * test.accuracy)};
  for (const std::string& part : parts) CHECK_MESSAGE(html.find(part) != std::string::npos, part);
  std::filesystem::remove(folder.path("run/model.safetensors"));
  CHECK(runs_report(read_runs({o.out}), {}).notes[0].find("has no final model yet") != std::string::npos);
}

TEST_CASE("runs: the page of a masked language model has words and what it guesses") {
  const TemporaryFolder folder;
  std::string story;
  for (int i = 0; i < 300; ++i) story += i % 2 == 0 ? "the sheep went <home> .\n" : "a wolf saw them there .\n";
  write(folder, "story.txt", story);
  training::ClassifyOptions o;
  o.task = training::BertTask::mlm;
  o.data = folder.path("story.txt");
  o.context = 20;
  o.dim = 16;
  o.layers = 1;
  o.heads = 2;
  o.steps = 20;
  o.batch = 8;
  o.warmup = 5;
  o.dropout = 0.0;
  o.out = folder.path("run");
  training::bert_trainer(o)->run();
  const RunsReport made = runs_report(read_runs({o.out}), {.samples = 0});
  CHECK(made.notes.empty());
  const std::string html = made.page.html();
  CHECK(fault_of_markup(html) == "");
  for (const char* part : {"words of the held-out part", "the model read", "among its first 5", "[MASK]<sup>1</sup>",
                           "<td>the word itself</td>", "&lt;"})
    CHECK_MESSAGE(html.find(part) != std::string::npos, part);
  CHECK(html.find("<home>") == std::string::npos);
  CHECK(count(html, "class=\"window\"") == 3);
  // The text to test on may be empty by now.
  write(folder, "held.txt", story);
  o.validation = folder.path("held.txt");
  o.out = folder.path("other");
  training::bert_trainer(o)->run();
  write(folder, "held.txt", "");
  const RunsReport empty = runs_report(read_runs({o.out}), {.samples = 0});
  REQUIRE(empty.notes.size() == 1);
  CHECK(empty.notes[0].find("held.txt: its held-out part is empty") != std::string::npos);
}

TEST_CASE("runs: the page of a model of attributes has a row for each") {
  const TemporaryFolder folder;
  write_faces(folder.path(), 120);
  training::VitOptions o = small();
  o.data = "celeba";
  o.data_dir = folder.path();
  o.steps = 60;
  o.lr = 1e-2;
  o.out = folder.path("run");
  const auto result = training::VitTrainer(o).run();
  const RunsReport made = runs_report(read_runs({o.out}), {.samples = 0});
  REQUIRE_MESSAGE(made.notes.empty(), made.notes[0]);
  const std::string html = made.page.html();
  CHECK(fault_of_markup(html) == "");
  const std::string said = fmt::format("{:.2f} % of the attributes right", 100 * result.test.variants[0].accuracy);
  CHECK_MESSAGE(html.find(said) != std::string::npos, said);
  for (const char* part : {"<td>Blond_Hair</td>", "<td>Eyeglasses</td>", "who does not look", "rollout"})
    CHECK_MESSAGE(html.find(part) != std::string::npos, part);
  CHECK(count(html, "class=\"confusion\"") == 0);
}

TEST_CASE("runs: the page of a DeiT says how it agrees with its teacher") {
  const TemporaryFolder folder;
  training::VitOptions teacher = small();
  teacher.model.encoder.head_dim = 0;
  teacher.out = folder.path("teacher");
  training::VitTrainer(teacher).run();
  training::VitOptions o = small();
  o.model.encoder.head_dim = 0;
  o.model.distillation = true;
  o.teacher = folder.path("teacher");
  o.out = folder.path("deit");
  training::VitTrainer(o).run();
  const RunsReport made = runs_report(read_runs({folder.path("deit")}), {});
  REQUIRE_MESSAGE(made.notes.empty(), made.notes[0]);
  const std::string html = made.page.html();
  CHECK(fault_of_markup(html) == "");
  for (const char* part : {"the distillation token's classifier", "<td>the teacher</td><td>100.00 %</td>", "rollout"})
    CHECK_MESSAGE(html.find(part) != std::string::npos, part);
}

TEST_CASE("runs: a permuted model is shown as it was trained") {
  // Columns are permuted by the run's key: without it the model would guess.
  const TemporaryFolder folder;
  training::VitOptions o = small();
  o.steps = 60;
  o.train_limit = 400;
  o.test_limit = 100;
  o.permute = permute::PermuteMode::both;
  o.out = folder.path("run");
  const auto result = training::VitTrainer(o).run();
  const RunsReport made = runs_report(read_runs({o.out}), {.samples = 0});
  const std::string said =
      fmt::format("on 100 of 100 test images of shapes: {:.2f} % right", 100 * result.test.variants[0].accuracy);
  CHECK_MESSAGE(made.page.html().find(said) != std::string::npos, said);
  CHECK(made.page.html().find("without the key") == std::string::npos);
}

TEST_CASE("runs: a model that cannot be shown leaves the curves, and a word") {
  const TemporaryFolder folder;
  write(folder, "run/config.json", R"({"model": "vit"})");
  write(folder, "run/metrics.jsonl", three_lines);
  const RunsReport made = runs_report(read_runs({folder.path("run")}), {});
  REQUIRE(made.notes.size() == 1);
  CHECK(made.notes[0].starts_with("no figures of the model of " + folder.path("run") + ": "));
  CHECK(made.page.html().find("Nothing can be shown: ") != std::string::npos);
  CHECK(made.page.html().find("<svg") != std::string::npos);
  write(folder, "run/config.json", R"({"model": "unknown"})");
  CHECK(runs_report(read_runs({folder.path("run")}), {})
            .notes[0]
            .find("there are no figures for models of kind 'unknown'") != std::string::npos);
}
