// Experiments of the papers, small: what must be equal is, what must fail does, and plans that are wrong are refused.

#include "apps/attacks/jigsaw.h"
#include "apps/reproduce/experiment.h"
#include "apps/reproduce/learnt_key.h"
#include "apps/reproduce/page.h"
#include "apps/reproduce/vision.h"
#include "drawn_faces.h"
#include "support/message.h"
#include "support/temporary_folder.h"

#include "core/base/bytes.h"

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <filesystem>
#include <limits>
#include <set>
#include <utility>

using namespace eg;
using namespace eg::reproduce;
using namespace eg::test;

namespace {

/// Files of texts that live as long as the tests.
std::string text_file(const char* name, const std::string& text) {
  static const TemporaryFolder folder;
  const std::string path = folder.path(name);
  if (!file_exists(path)) write_file(path, std::string_view(text));
  return path;
}

std::string reviews_file() {
  std::string text = "label,text\n";
  for (int i = 0; i < 60; ++i)
    text += fmt::format("{},number {} was {} indeed\n", i % 2, i * i, i % 2 == 0 ? "dull" : "lovely");
  return text_file("reviews.csv", text);
}

std::string story_file() {
  std::string text;
  for (int i = 0; i < 60; ++i) text += fmt::format("{} sheep went to the fair.\n", i * i);
  return text_file("story.txt", text);
}

std::string table_file() {
  std::string text = "label,size,color,shape\n";
  for (int i = 0; i < 80; ++i) text += fmt::format("{},{},c{},s{}\n", i % 2, i * 7 % 11, i % 3, i % 5);
  return text_file("table.csv", text);
}

/// Seconds on generated images: 4 x 4 patches, two heads, two steps and more.
/// `celeba`: folder that holds celeba/; empty: without its columns.
Plan small_plan(const std::string& id, const std::string& celeba = "") {
  nlohmann::json train = {{"data", "shapes"}, {"size", 16}, {"train_limit", 96}, {"test_limit", 40},
                          {"patch", 4},       {"dim", 8},   {"layers", 1},       {"heads", 2},
                          {"mlp", 12},        {"steps", 6}, {"batch", 16},       {"optimizer", "adam"},
                          {"drift_every", 0}, {"lr", 1e-2}, {"dtype", "f64"},    {"checkpoint_every", 3},
                          {"eps", 1e-6}};
  const nlohmann::json numbers = {{"first_classes", 5},
                                  {"fine_tuning_images", 40},
                                  {"fine_tuning_steps", 4},
                                  {"fine_tuning_evaluate_every", 2},
                                  {"learn_steps", 3},
                                  {"learn_rate", 0.05},
                                  {"learn_temperature", 0.5},
                                  {"exact_steps", 2},
                                  {"exact_batch", 3},
                                  {"image", 16},
                                  {"classes", 3},
                                  {"passes", 6},
                                  {"least_accuracy", 0},
                                  {"rounds", 2},
                                  {"measured_steps", 2},
                                  {"smallest_patch", 4},
                                  {"jigsaw_images", 3},
                                  {"reviews_before", 30},
                                  {"reviews_after", 12},
                                  {"reviews_test", 0},
                                  {"attack_steps", 3},
                                  {"attack_batch", 4},
                                  {"attack_hidden", 8},
                                  {"attack_layers", 1},
                                  {"attack_pretraining", 2},
                                  {"targets", 4},
                                  {"judge_steps", 2},
                                  {"noise", 1.0},
                                  {"low_pass", 2},
                                  {"kept", 0.5},
                                  {"cutoffs", 2},
                                  {"cutoff_step", 2},
                                  {"blur_side", 4},
                                  {"adversary", 0.5},
                                  {"white_steps", 3},
                                  {"training_pairs", 12},
                                  {"dp_noise", 1.0},
                                  {"dp_clip", 1.0},
                                  {"dp_batch", 4},
                                  {"dp_steps", 2}};
  for (const char* attacked : {"cvpr-T6", "cvpr-F7", "s1-T4", "s1-T5", "s1-T6"})
    if (id == attacked) train.update({{"pooling", "mean"}, {"position", "none"}});
  const nlohmann::json common = {{"context", 12}, {"dim", 8},       {"layers", 1}, {"heads", 2}, {"mlp", 12},
                                 {"steps", 6},    {"dropout", 0.0}, {"batch", 4},  {"lr", 1e-2}, {"dtype", "f64"}};
  nlohmann::json bert = common, gpt2 = common;
  bert["data"] = reviews_file();
  gpt2["data"] = story_file();
  const nlohmann::json difm = {{"data", table_file()}, {"dim", 4},   {"hidden", "8"},
                               {"steps", 6},           {"batch", 8}, {"dtype", "f64"}};
  nlohmann::json texts = {{"bert", bert}, {"gpt2", gpt2}};
  if (id == "s1-C4") texts = {{"difm", difm}};
  if (id == "cvpr-T7") {
    for (const char* model : {"bert", "gpt2"}) texts[model].update({{"steps", 4}, {"evaluate_every", 2}});
    texts.update({{"bert_before", {{"steps", 8}}}, {"gpt2_before", {{"steps", 8}}}});
  }
  nlohmann::json tiny = {
      {"seeds", 2}, {"train", train}, {"numbers", numbers}, {"words", {{"reviews", reviews_file()}}}, {"texts", texts}};
  if (!celeba.empty()) tiny["celeba"] = {{"data_dir", celeba}, {"size", 16}};
  return parse_plan(nlohmann::json{{"id", id}, {"scales", {{"tiny", tiny}}}}.dump(), "tiny.json", "tiny", 5);
}

Outcome outcome_of(const std::string& id, const std::string& folder, const std::atomic<bool>* stop = nullptr) {
  return reproduce::reproduce(experiment_named(id), small_plan(id),
                              {.data_dir = "", .folder = folder, .stop = stop, .on_progress = {}});
}

const Line& line_of(const Outcome& o, const std::string& what) {
  const auto found = std::find_if(o.lines.begin(), o.lines.end(), [&](const Line& l) { return l.what == what; });
  REQUIRE_MESSAGE(found != o.lines.end(), what);
  return *found;
}

} // namespace

TEST_CASE("reproduce: every experiment has a plan with both scales, and ends with its claims measured") {
  std::set<std::string> planned;
  for (const std::string& id : plan_ids()) planned.insert(id);
  for (const Experiment& experiment : experiments()) {
    CAPTURE(experiment.id);
    CHECK(planned.erase(experiment.id) == 1);
    for (const char* scale : {"small", "full"})
      CHECK(parse_plan(plan_text(experiment.id), experiment.id, scale, 1).seeds.size() >= 1);
    const TemporaryFolder folder;
    const Outcome o = outcome_of(experiment.id, folder.path("runs"));
    CHECK(!o.lines.empty());
    for (const Line& line : o.lines) {
      CHECK(!line.ours.empty());
      for (const double value : line.ours) CHECK(std::isfinite(value));
    }
    // What is exact holds whatever was trained; the other claims are of models that have learnt something.
    for (const Claim& claim : o.claims)
      if (claim.sense == Claim::Sense::at_most) CHECK_MESSAGE(claim.holds(), claim.what, ": ", claim.value);
    CHECK(to_json(o)["lines"].size() == o.lines.size());
    CHECK(page_of({o}).html().find(experiment.id) != std::string::npos);
    CHECK(markdown_of(o).find(text_of(o.lines[0])) != std::string::npos);
  }
  CHECK_MESSAGE(planned.empty(), fmt::format("plans without an experiment: {}", fmt::join(planned, ", ")));
}

TEST_CASE("reproduce: lines that are exact equal the plain one for every seed") {
  const TemporaryFolder folder;
  const Outcome o = outcome_of("cvpr-T3", folder.path("runs"));
  for (const char* what : {"tokens permuted", "features permuted, coupled start", "both, coupled start"})
    CHECK(line_of(o, what).ours == line_of(o, "trained plain").ours);
}

TEST_CASE("reproduce: a BERT learns the same from tokens that pass its blocks in any order") {
  const TemporaryFolder folder;
  const Outcome o = outcome_of("s1-C3", folder.path("runs"));
  CHECK(line_of(o, "BERT, tokens shuffled: accuracy").ours ==
        line_of(o, "BERT, trained and tested plain: accuracy").ours);
  // They were shuffled: exactly summed weights agree to the bit, rounded ones do not.
  REQUIRE(o.claims.size() == 4);
  CHECK(o.claims[2].value > 0.0);
  CHECK(o.claims[3].value == 0.0);
}

TEST_CASE("reproduce: columns on CelebA are run where it is there, and named where it is not") {
  const TemporaryFolder folder;
  write_faces(folder.path(), 120);
  const auto outcome = [&](const std::string& id, const std::string& data, const std::string& runs) {
    return reproduce::reproduce(
        experiment_named(id), small_plan(id, data),
        {.data_dir = folder.path("none"), .folder = folder.path(runs), .stop = nullptr, .on_progress = {}});
  };
  for (const char* id : {"s1-T1", "s1-T2", "s1-T3", "s1-C1", "s1-C2"}) {
    CAPTURE(id);
    const Outcome both = outcome(id, folder.path(), fmt::format("{}-both", id));
    const Outcome one = outcome(id, folder.path("elsewhere"), fmt::format("{}-one", id));
    REQUIRE(both.lines.size() == 2 * one.lines.size());
    for (std::size_t i = 0; i < one.lines.size(); ++i) {
      CHECK(both.lines[i].ours == one.lines[i].ours);
      const Line& faces = both.lines[one.lines.size() + i];
      CHECK(faces.what == "CelebA: " + one.lines[i].what);
      CHECK(faces.ours.size() == 2);
    }
    for (const Claim& claim : both.claims)
      if (claim.sense == Claim::Sense::at_most) CHECK_MESSAGE(claim.holds(), claim.what, ": ", claim.value);
    CHECK(both.setting.find("; celeba") != std::string::npos);
    CHECK(both.setting.find("90 training and 15 test images") != std::string::npos);
    CHECK(one.remarks.back().starts_with("CelebA's columns are left out: the data folder has no celeba/"));
    CHECK(both.remarks.size() + 1 == one.remarks.size());
  }
  std::filesystem::remove(folder.path("celeba/img_align_celeba/000001.jpg"));
  CHECK_THROWS_AS(outcome("s1-T1", folder.path(), "damaged"), FileError); // there, and not whole
}

TEST_CASE("reproduce: the accuracy of who does not look") {
  const data::ImageDataset faces =
      data::ImageDataset::with_attributes("x", 1, 1, 1, {"a", "b"}, Bytes(4), Bytes{1, 0, 1, 0, 1, 0, 0, 1});
  CHECK(blind_accuracy(faces) == 75.0); // "a" is true of three in four, "b" of one
  CHECK(blind_accuracy(data::ImageDataset("y", 1, 1, 1, {"a", "b", "c", "d"}, Bytes(1), {0})) == 25.0);
}

TEST_CASE("reproduce: jigsaws of a smooth picture are solved, those of noise are not") {
  constexpr std::int64_t side = 32;
  Bytes smooth, noise;
  RandomStream random({1, 2});
  for (std::int64_t y = 0; y < side; ++y)
    for (std::int64_t x = 0; x < side; ++x) {
      const double bump = std::sin(0.21 * static_cast<double>(x) + 0.5) + std::cos(0.17 * static_cast<double>(y));
      smooth.push_back(static_cast<std::uint8_t>(120 + 50 * bump + static_cast<double>(x)));
      noise.push_back(static_cast<std::uint8_t>(random.below(256)));
    }
  const auto solved = [&](const Bytes& pixels, std::int64_t patch) {
    return attacks::jigsaw_accuracy({"x", 1, side, side, {"a"}, pixels, {0}}, patch, 1, {3, 4}, nullptr);
  };
  CHECK(solved(smooth, 16) == 100.0);
  CHECK(solved(smooth, 8) == 100.0);
  CHECK(solved(noise, 4) < 25.0);
  const std::atomic<bool> stop = true;
  const data::ImageDataset one("x", 1, side, side, {"a"}, smooth, {0});
  CHECK_THROWS_AS(attacks::jigsaw_accuracy(one, 8, 1, {}, &stop), Interrupted);
  CHECK(message_of<ValueError>([&] { attacks::border_costs(smooth, 1, side, 5); }) ==
        "border_costs: patches of 5 x 5 do not tile 32 x 32 pixels");
}

TEST_CASE("reproduce: biases that are left behind change what the model says") {
  const TemporaryFolder folder;
  const Outcome o = outcome_of("s1-C1", folder.path("runs"));
  REQUIRE(o.claims.size() == 2);
  CHECK(o.claims[0].value == 0.0);
  CHECK(o.claims[1].value > 0.0);
}

TEST_CASE("reproduce: an experiment that is stopped goes on from its runs") {
  const TemporaryFolder folder;
  const Outcome whole = outcome_of("s1-T1", folder.path("whole"));
  std::atomic<bool> stop = false;
  const Plan plan = small_plan("s1-T1");
  int reports = 0;
  const RunContext cut{.data_dir = "",
                       .folder = folder.path("cut"),
                       .stop = &stop,
                       .on_progress = [&](double, const std::string&) { stop = ++reports == 8; }};
  CHECK_THROWS_AS(reproduce::reproduce(experiment_named("s1-T1"), plan, cut), Interrupted);
  stop = false;
  const Outcome rest = reproduce::reproduce(experiment_named("s1-T1"), plan, cut);
  CHECK(reports < 16); // 12 steps in all, of which 8 were taken before
  for (std::size_t i = 0; i < whole.lines.size(); ++i) CHECK(rest.lines[i].ours == whole.lines[i].ours);
}

TEST_CASE("reproduce: runs that are complete are not trained again, also where columns are not named") {
  for (const char* id : {"s1-T1", "s1-C4"}) {
    const TemporaryFolder folder;
    const Plan plan = small_plan(id);
    int reports = 0;
    const RunContext work{.data_dir = "",
                          .folder = folder.path(),
                          .stop = nullptr,
                          .on_progress = [&](double, const std::string&) { ++reports; }};
    const Outcome first = reproduce::reproduce(experiment_named(id), plan, work);
    const int trained = std::exchange(reports, 0);
    const Outcome again = reproduce::reproduce(experiment_named(id), plan, work);
    CHECK(trained >= 12);
    CHECK(reports < trained - 6);
    for (std::size_t i = 0; i < first.lines.size(); ++i) CHECK(again.lines[i].ours == first.lines[i].ours);
  }
}

TEST_CASE("reproduce: attacked arms are not done again, and least squares see through a permutation") {
  const TemporaryFolder folder;
  nlohmann::json file = nlohmann::json::parse(plan_text("s1-T6"));
  nlohmann::json& small = file["scales"]["small"];
  small["seeds"] = 1;
  small["train"].update(
      {{"data", "faces"}, {"size", 16}, {"train_limit", 60}, {"test_limit", 20}, {"steps", 4}, {"batch", 8}});
  small["numbers"].update({{"attack_steps", 3},
                           {"attack_batch", 4},
                           {"targets", 4},
                           {"judge_steps", 2},
                           {"training_pairs", 12},
                           {"rounds", 2}});
  const Plan plan = parse_plan(file.dump(), "s1-T6", "small", 3);
  const auto run = [&] {
    return reproduce::reproduce(experiment_named("s1-T6"), plan,
                                {.data_dir = "", .folder = folder.path("runs"), .stop = nullptr, .on_progress = {}});
  };
  const Outcome first = run();
  const auto claim = std::find_if(first.claims.begin(), first.claims.end(),
                                  [](const Claim& c) { return c.what.starts_with("least squares"); });
  REQUIRE(claim != first.claims.end());
  CHECK(claim->holds());
  CHECK(first.pictures.size() == 8); // two rows of pictures, three arms under two attacks
  const auto cell = std::filesystem::path(folder.path("runs")) / "2-3" / "cell.json";
  const auto before = std::filesystem::last_write_time(cell);
  const Outcome again = run();
  CHECK(std::filesystem::last_write_time(cell) == before);
  for (std::size_t i = 0; i < first.lines.size(); ++i) CHECK(again.lines[i].ours == first.lines[i].ours);
  CHECK(again.pictures.size() == first.pictures.size());
  Plan other = plan;
  other.numbers["attack_steps"] = 4;
  reproduce::reproduce(experiment_named("s1-T6"), other,
                       {.data_dir = "", .folder = folder.path("runs"), .stop = nullptr, .on_progress = {}});
  CHECK(std::filesystem::last_write_time(cell) != before);
}

TEST_CASE("reproduce: the share of a key that was found") {
  const permute::Permutation truth = permute::Permutation::random_nonidentity(10, {1, 0});
  attacks::LearntColumns learnt;
  CHECK(learnt.found(truth) == 0.0);
  for (std::int64_t j = 0; j < 10; ++j) learnt.assignment.push_back(truth[j]);
  CHECK(learnt.found(truth) == 1.0);
  std::swap(learnt.assignment[2], learnt.assignment[7]);
  CHECK(learnt.found(truth) == doctest::Approx(0.8));
}

TEST_CASE("reproduce: the matrix that stands in for P_C is read in the direction of the key") {
  const permute::Permutation truth = permute::Permutation::random_nonidentity(10, {1, 0});
  const Tensor p = truth.apply(eye(10, -1, DType::f64), 1), z = random_normal({3, 10}, {2, 0}).to(DType::f64);
  REQUIRE(matmul(z, p).to_vector<double>() == truth.apply(z, 1).to_vector<double>());
  const Tensor m = 0.6 * p + 0.04; // rows and columns add up to one
  CHECK(attacks::LearntColumns{.matrix = {}, .assignment = attacks::nearest_assignment(m)}.found(truth) == 1.0);
  CHECK(attacks::LearntColumns{.matrix = {}, .assignment = attacks::nearest_assignment(m.transpose(0, 1))}.found(
            truth) < 1.0);
}

TEST_CASE("reproduce: fine-tuning is drawn, with its key as without encryption") {
  const TemporaryFolder folder;
  const Outcome o = outcome_of("cvpr-T7", folder.path("work"));
  REQUIRE(o.graphs.size() == 3); // ViT, BERT, GPT-2
  for (const Graph& graph : o.graphs) {
    const report::Chart& chart = graph.chart;
    CAPTURE(chart.title);
    REQUIRE(chart.series.size() == 4);
    for (const report::Series& line : chart.series) CHECK(line.x == std::vector<double>{2, 4});
    const report::Series &normal = chart.series[0], &authorised = chart.series[1], &without = chart.series[2];
    for (std::size_t i = 0; i < 2; ++i) CHECK(authorised.y[i] == doctest::Approx(normal.y[i]).epsilon(1e-9));
    if (chart.y_label.ends_with("token")) CHECK(std::abs(without.y[0] / normal.y[0] - 1.0) > 1e-6);
  }
  CHECK(page_of({o}).html().find("GPT-2 while it is fine-tuned") != std::string::npos);
}

TEST_CASE("reproduce: the spread over seeds, and what a claim means") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  CHECK(worse(1.0, 2.0) == 2.0);
  CHECK(std::isnan(worse(nan, 2.0)));
  CHECK(std::isnan(worse(2.0, nan)));
  CHECK_FALSE(Claim{.value = worse(0.0, nan), .bound = 1.0}.holds());
  const Line line{.what = "x", .paper = "", .ours = {1.0, 2.0, 6.0}};
  CHECK(line.mean() == 3.0);
  CHECK(line.standard_deviation() == doctest::Approx(std::sqrt(7.0)));
  CHECK(text_of(line) == "3.00 +- 2.65 %");
  CHECK(text_of(Line{.what = "x", .paper = "", .ours = {}}) == "-");
  const Line bars{.what = "|f|", .paper = "", .ours = {1.0, 2.0, 6.0}};
  CHECK(markdown_table({{.id = "a", .lines = {line, bars}, .seconds = 7.0}}) ==
        "| id | what | paper | ours | kind | time |\n|---|---|---|---|---|---|\n"
        "| a | x |  | 3.00 +- 2.65 % | statistical | 7 s |\n|  | \\|f\\| |  | 3.00 +- 2.65 % | statistical |  |\n\n");
  Outcome o;
  o.claims = {{.what = "a", .value = 1.0, .bound = 1.0}};
  CHECK(o.holds());
  o.claims.push_back({.what = "b", .value = 1.0, .bound = 2.0, .sense = Claim::Sense::at_least});
  CHECK_FALSE(o.holds());
  o.claims.back().value = std::nan("");
  CHECK_FALSE(o.holds());
}

TEST_CASE("reproduce: plans that are wrong are refused by file and key") {
  const auto refused = [](const std::string& text, const std::string& scale = "small") {
    return message_of([&] { parse_plan(text, "p.json", scale, 1); });
  };
  CHECK(refused(R"({"id": "x"})") == "p.json: 'scales' is missing");
  CHECK(refused(R"({"id": "x", "scales": {"big": {"seeds": 1}}})") ==
        "p.json: there is no scale 'small'; there are big");
  CHECK(refused(R"({"id": "x", "scale": {}})") == "p.json: unknown key 'scale'; did you mean scales?");
  CHECK(refused(R"({"id": "x", "scales": {"small": {}}})") == "p.json: small: 'seeds' is missing");
  CHECK(refused(R"({"id": "x", "scales": {"small": {"seeds": 0}}})") == "p.json: small: seeds must be from 1 to 1000");
  CHECK(refused(R"({"id": "x", "scales": {"small": {"seeds": "two"}}})") ==
        "p.json: small: a value has the wrong type");
  CHECK(
      refused(R"({"id": "x", "scales": {"small": {"seeds": 1, "train": {"patsh": 4}}}})").find("did you mean patch?") !=
      std::string::npos);
  const Plan plan = small_plan("s1-T1");
  CHECK(message_of([&] { plan.number("speed"); }) == "tiny.json: tiny: the number 'speed' is missing");
  CHECK(message_of([&] { experiment_named("s1-T9"); }).find("s1-T") != std::string::npos);
  CHECK(message_of([&] { reproduce::reproduce(experiment_named("s1-T2"), plan, {}); }) ==
        "tiny.json: tiny: is for the experiment 's1-T1', not 's1-T2'");
}
