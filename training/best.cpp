#include "training/best.h"

#include "core/base/bytes.h"
#include "core/base/error.h"
#include "core/base/json.h"
#include "training/checkpoint.h"
#include "training/metrics.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <string_view>

namespace eg::training {

namespace {

std::string mark_path(const std::string& run_folder) { return join_path(run_folder, "checkpoints/best.json"); }

/// NaN where the test did not measure it.
double value_of(const nlohmann::ordered_json& record, BestBy by) {
  const auto found = record.find(std::string(name_of(by)));
  return found != record.end() && found->is_number() ? found->get<double>() : std::nan("");
}

/// Nothing where it is malformed.
std::optional<BestMark> parsed(ByteView bytes) {
  try {
    const auto* text = reinterpret_cast<const char*>(bytes.data());
    const auto json = nlohmann::json::parse(text, text + bytes.size());
    const auto step = json.at("step").get<std::int64_t>();
    if (json.at("checkpoint") != checkpoint_name(step)) return std::nullopt;
    const auto measure = json.at("by").get<std::string>();
    for (const BestBy by : {BestBy::loss, BestBy::accuracy})
      if (measure == name_of(by)) return BestMark{.by = by, .step = step, .value = json.at(measure).get<double>()};
  } catch (const nlohmann::json::exception&) { // of another form
  }
  return std::nullopt;
}

/// Whether its checkpoint is one of those that are there, and the metrics have no other value for its step.
bool agrees(const BestMark& mark, const std::string& run_folder, const std::vector<std::int64_t>& there,
            std::int64_t through) {
  bool same = true;
  each_metrics_line(join_path(run_folder, "metrics.jsonl"), through,
                    [&](std::string_view, const nlohmann::ordered_json& record) {
                      if (is_test_record(record) && record["step"] == mark.step)
                        same = value_of(record, mark.by) == mark.value;
                    });
  return same && std::binary_search(there.begin(), there.end(), mark.step);
}

} // namespace

std::optional<BestMark> read_best_mark(const std::string& run_folder, std::string& note) {
  const std::string path = mark_path(run_folder);
  std::optional<Bytes> before;
  while (file_exists(path)) {
    const Bytes bytes = read_file(path);
    const std::optional<BestMark> mark = parsed(bytes);
    if (mark && agrees(*mark, run_folder, checkpoint_steps(run_folder), mark->step)) return mark;
    if (before == bytes) {
      note =
          path + ": damaged, or its checkpoint is gone; which one is the best is found again when the run is resumed";
      break;
    }
    before = bytes; // a run that is still training moves the mark, then removes the checkpoint that had it: look again
  }
  return std::nullopt;
}

BestCheckpoint::BestCheckpoint(const RunOptions& options, std::int64_t through)
    : path_(mark_path(options.out)), out_(options.out), by_(options.best) {
  if (through < 0 || by_ == BestBy::off || options.out.empty() || !file_exists(path_)) return;
  there_ = checkpoint_steps(options.out);
  if (!read(through)) make_again(through);
}

/// Whether the mark is sound; it may be of another branch of the run, or by another measure.
bool BestCheckpoint::read(std::int64_t through) {
  const std::optional<BestMark> mark = parsed(read_file(path_));
  if (!mark || mark->by != by_ || mark->step > through) return mark.has_value();
  step_ = mark->step;
  value_ = mark->value;
  return agrees(*mark, out_, there_, through);
}

void BestCheckpoint::make_again(std::int64_t through) {
  step_.reset();
  nlohmann::ordered_json best;
  each_metrics_line(join_path(out_, "metrics.jsonl"), through,
                    [&](std::string_view, const nlohmann::ordered_json& record) {
                      const auto step = record["step"].get<std::int64_t>();
                      if (!is_test_record(record) || !std::binary_search(there_.begin(), there_.end(), step)) return;
                      if (!improves(record)) return;
                      step_ = step;
                      value_ = value_in(record);
                      best = record;
                    });
  note_ = path_ + ": damaged; ";
  if (step_) mark(best);
  note_ += step_ ? fmt::format("by metrics.jsonl the best checkpoint is that of step {}", *step_)
                 : "no test of a checkpoint that is there is known, so that the best one is found anew";
}

double BestCheckpoint::value_in(const nlohmann::ordered_json& record) const {
  const std::string name(name_of(by_));
  if (!record.contains(name))
    throw ValueError(fmt::format("train: best {}: tests of this model do not measure it", name));
  return value_of(record, by_);
}

bool BestCheckpoint::improves(const nlohmann::ordered_json& record) const {
  if (by_ == BestBy::off) return false;
  const double value = value_in(record);
  if (!std::isfinite(value)) return false;
  if (!step_) return true;
  return by_ == BestBy::loss ? value < value_ : value > value_;
}

void BestCheckpoint::mark(const nlohmann::ordered_json& record) {
  nlohmann::ordered_json mark{{"by", name_of(by_)}, {"checkpoint", checkpoint_name(record.at("step"))}};
  for (const char* field : {"step", "epoch", "loss", "accuracy"})
    if (record.contains(field)) mark[field] = record[field];
  write_json(path_, mark);
  step_ = record.at("step").get<std::int64_t>();
  value_ = value_in(record);
}

} // namespace eg::training
