#include "apps/reproduce/defended.h"

#include "apps/reproduce/arm_attacks.h"
#include "apps/reproduce/split_arm.h"

#include "core/base/bytes.h"
#include "core/base/json.h"
#include "training/checkpoint.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

namespace eg::reproduce {
namespace {

using Json = nlohmann::json;

/// What a cell depends on: another one is computed again.
std::string fingerprint(const Plan& plan, const Arm& arm, const Looks& looks, const Images& images) {
  Json json = training::options_json(plan.train);
  for (const char* place : {"data_dir", "out", "seed"}) json.erase(place);
  return Json{
      {"train", json},
      {"numbers", plan.numbers},
      {"arm",
       {attacks::name_of(arm.protection), arm.rows, arm.columns, arm.adversary, arm.private_training, arm.fixed_edge}},
      {"looks", {looks.black_box, looks.white_box, looks.training}},
      {"images", {images.first.fingerprint(), images.second.fingerprint()}}}
      .dump();
}

void save_cell(const std::string& folder, const std::string& made_from, const Cell& cell) {
  training::make_folder(folder);
  for (const auto& [attack, strip] : cell.pictures) {
    const Bytes png = data::encode_png(strip);
    write_file(join_path(folder, attack + ".png"), ByteView(png));
  }
  write_json(join_path(folder, "cell.json"),
             Json{{"made_from", made_from}, {"numbers", cell.numbers}, {"answers", cell.answers}});
}

/// The cell of that folder, if it exists and was made from the same.
std::optional<Cell> saved_cell(const std::string& folder, const std::string& made_from) {
  const std::string path = join_path(folder, "cell.json");
  if (!file_exists(path)) return {};
  const Bytes bytes = read_file(path);
  const Json json = parse_json(std::string(bytes.begin(), bytes.end()), path);
  Cell cell;
  try {
    if (json.value("made_from", "") != made_from) return {};
    cell.numbers = json.at("numbers").get<std::map<std::string, double>>();
    cell.answers = json.at("answers").get<std::vector<std::int64_t>>();
  } catch (const Json::exception&) {
    throw FileError(path + ": is no cell of a table");
  }
  for (const char* attack : {"black", "white", "printed", "training"})
    if (const std::string png = join_path(folder, std::string(attack) + ".png"); file_exists(png))
      cell.pictures.emplace(attack, data::read_image(png, 3));
  return cell;
}

struct Number {
  const char *name, *what, *unit;
  int decimals;
};
constexpr Number numbers[] = {{"accuracy", "accuracy", "%", 2},
                              {"black.ssim", "black box, SSIM", "", 3},
                              {"black.psnr", "black box, PSNR (peak 1)", "dB", 2},
                              {"black.fsim", "black box, F-SIM", "", 3},
                              {"white.ssim", "white box, SSIM", "", 3},
                              {"white.psnr", "white box, PSNR (peak 1)", "dB", 2},
                              {"white.fsim", "white box, F-SIM", "", 3},
                              {"printed.ssim", "white box as printed, SSIM", "", 3},
                              {"printed.psnr", "white box as printed, PSNR (peak 1)", "dB", 2},
                              {"printed.fsim", "white box as printed, F-SIM", "", 3},
                              {"training.ssim", "several rounds, SSIM", "", 3},
                              {"training.psnr", "several rounds, PSNR (peak 1)", "dB", 2},
                              {"training.fsim", "several rounds, F-SIM", "", 3},
                              {"epsilon", "epsilon", "", 2}};

bool permuted(const Arm& arm) { return arm.rows || arm.columns; }

/// Whether theory says that both give the same answers. (An adversary sees what leaves, so that it learns otherwise;
/// the noise of DP-SGD is not moved by P_C.)
bool are_twins(const Arm& plain, const Arm& other) {
  return !permuted(plain) && permuted(other) && plain.protection == other.protection && plain.adversary == 0.0 &&
         other.adversary == 0.0 && !(other.private_training && other.columns) &&
         plain.private_training == other.private_training && plain.fixed_edge == other.fixed_edge;
}

/// One cell from its beginning to its end.
Cell made(const Plan& plan, const Arm& arm, const Looks& looks, const Images& images, std::uint64_t seed,
          const std::function<const attacks::PerceptualMetric&()>& metric,
          const std::function<void(double, const char*)>& on_progress) {
  SplitArm split(plan, arm, images, seed);
  const auto rounds = looks.training ? plan.count("rounds") : std::int64_t{0};
  split.train(rounds, [&](double share) { on_progress(0.5 * share, "training"); });
  const Answers answers = split.answers([&](double) { on_progress(0.5, "testing"); });
  Cell cell{.numbers = {{"accuracy", answers.accuracy}}, .answers = answers.classes, .pictures = {}};
  if (arm.private_training) cell.numbers["epsilon"] = split.epsilon();
  const ArmAttacker attacker(plan, split, images, seed, metric,
                             [&](double share) { on_progress(0.5 + 0.5 * share, "attacking"); });
  attacker.linear(cell);
  if (looks.black_box) attacker.black_box(cell);
  if (looks.white_box) attacker.white_box(cell);
  if (looks.training && !arm.private_training) attacker.training(cell, static_cast<std::size_t>(rounds));
  return cell;
}

Images images_of(const Plan& plan, const RunContext& work) {
  const auto open = [&](data::Split split, std::int64_t limit) {
    return data::open_dataset(plan.train.data, work.data_dir, split,
                              {.limit = limit, .size = plan.train.size, .stop = work.stop});
  };
  return {open(data::Split::train, plan.train.train_limit), open(data::Split::test, plan.train.test_limit)};
}

void check(const Plan& plan) {
  if (plan.train.steps < 1) throw FileError(fmt::format("{}: 'train' needs steps", plan.source));
  if (plan.train.model.pooling != nn::Pooling::mean)
    throw FileError(fmt::format("{}: 'pooling' must be mean: rows that leave the edge are patches", plan.source));
}

} // namespace

DefendedTable::DefendedTable(const Plan& plan, const RunContext& work, std::vector<DefendedRow> rows, Looks looks)
    : rows_(std::move(rows)), cells_(rows_.size()) {
  check(plan);
  const Images images = images_of(plan, work);
  originals_ = {strip_of(ArmAttacker::targets(plan, images.second)),
                strip_of(ArmAttacker::targets(plan, images.first))};
  Parts parts(work, rows_.size() * plan.seeds.size());
  const auto leave_if_stopped = [&] {
    if (work.stop != nullptr && work.stop->load()) throw Interrupted("reproduce: interrupted");
  };
  for (const std::uint64_t seed : plan.seeds) {
    std::unique_ptr<attacks::PerceptualMetric> trained_judge;
    const std::function<const attacks::PerceptualMetric&()> metric = [&]() -> const attacks::PerceptualMetric& {
      if (trained_judge) return *trained_judge;
      const PauseRecording pause;
      const RandomKey key{seed + 1000, 33};
      auto fresh = std::make_unique<attacks::PerceptualMetric>(images.first.channels(), images.first.classes(), key);
      attacks::train_perceptual_metric(
          *fresh, images.first,
          {.steps = plan.count("judge_steps"), .on_progress = [&](std::int64_t) { leave_if_stopped(); }}, key.fold(1));
      trained_judge = std::move(fresh);
      return *trained_judge;
    };
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      const Arm& arm = rows_[i].arm;
      const std::string folder = join_path(work.folder, fmt::format("{}-{}", i + 1, seed));
      const std::string from = fingerprint(plan, arm, looks, images);
      std::optional<Cell> cell = saved_cell(folder, from);
      if (!cell) {
        cell = made(plan, arm, looks, images, seed, metric, [&](double share, const char* what) {
          leave_if_stopped();
          parts.report(share, fmt::format("{}, seed {}, {}", arm.name, seed, what));
        });
        save_cell(folder, from, *cell);
      }
      cells_[i].push_back(std::move(*cell));
      parts.next();
    }
  }
  setting_ = fmt::format("{}; {} seed{}", SplitArm(plan, rows_.front().arm, images, plan.seeds.front()).about(),
                         plan.seeds.size(), plan.seeds.size() == 1 ? "" : "s");
}

double DefendedTable::mean(std::size_t row, const std::string& number) const {
  double sum = 0.0;
  for (const Cell& cell : cells_[row]) sum += cell.numbers.at(number);
  return sum / static_cast<double>(cells_[row].size());
}

void DefendedTable::add_claims(Outcome& o) const {
  double linear = -1.0;
  for (std::size_t other = 0; other < rows_.size(); ++other) {
    for (const Cell& cell : cells_[other])
      if (const auto at = cell.numbers.find("linear"); at != cell.numbers.end())
        linear = linear < 0.0 ? at->second : worse(linear, at->second);
    for (std::size_t plain = 0; plain < rows_.size(); ++plain) {
      if (!are_twins(rows_[plain].arm, rows_[other].arm)) continue;
      double count = 0.0;
      for (std::size_t s = 0; s < cells_[plain].size(); ++s) {
        const std::vector<std::int64_t>&a = cells_[plain][s].answers, &b = cells_[other][s].answers;
        for (std::size_t i = 0; i < a.size(); ++i) count += a[i] == b[i] ? 0.0 : 1.0;
      }
      o.claims.push_back(
          {.what = fmt::format("{} against {}: answers that differ", rows_[other].arm.name, rows_[plain].arm.name),
           .value = count,
           .because = "cor4.3, cor4.6: the defence draws the same in both"});
    }
  }
  if (linear >= 0.0)
    o.claims.push_back({.what = "least squares on own pictures: largest error of a pixel, whatever the permutation",
                        .value = linear,
                        .bound = 1e-6,
                        .because = "atk-linear; rows that are shuffled stay so"});
}

void DefendedTable::write(Outcome& o) const {
  o.setting = setting_;
  for (std::size_t i = 0; i < rows_.size(); ++i) {
    const bool twin =
        std::any_of(rows_.begin(), rows_.end(), [&](const DefendedRow& r) { return are_twins(r.arm, rows_[i].arm); });
    for (const Number& n : numbers) {
      if (!cells_[i].front().numbers.contains(n.name)) continue;
      const auto paper = rows_[i].paper.find(n.name);
      Line line{.what = fmt::format("{}: {}", rows_[i].arm.name, n.what),
                .paper = paper == rows_[i].paper.end() ? "" : paper->second,
                .ours = {},
                .unit = n.unit,
                .decimals = n.decimals,
                .kind = twin && n.name == std::string("accuracy") ? Kind::exact : Kind::statistical};
      for (const Cell& cell : cells_[i]) line.ours.push_back(cell.numbers.at(n.name));
      o.lines.push_back(std::move(line));
    }
  }
  add_claims(o);
  for (const auto& [attack, what] : {std::pair{"black", "black box"},
                                     {"white", "white box"},
                                     {"printed", "white box as printed"},
                                     {"training", "several rounds of training"}}) {
    bool first = true;
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      const auto strip = cells_[i].front().pictures.find(attack);
      if (strip == cells_[i].front().pictures.end()) continue;
      if (std::exchange(first, false))
        o.pictures.push_back(
            {originals_[attack == std::string("training") ? 1 : 0], fmt::format("{}: pictures", what)});
      o.pictures.push_back({strip->second, fmt::format("{}: {}", what, rows_[i].arm.name)});
    }
  }
}

} // namespace eg::reproduce
