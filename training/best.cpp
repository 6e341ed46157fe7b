#include "training/best.h"

#include "core/error.h"
#include "data/bytes.h"
#include "data/json.h"
#include "training/checkpoint.h"
#include "training/metrics.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <string_view>

namespace eg::training {

namespace {

bool is_measure(std::string_view name) { return name == name_of(BestBy::loss) || name == name_of(BestBy::accuracy); }

} // namespace

BestCheckpoint::BestCheckpoint(const RunOptions& options, std::int64_t through)
    : path_(data::join_path(options.out, "checkpoints/best.json")), out_(options.out), by_(options.best) {
  if (through < 0 || by_ == BestBy::off || options.out.empty() || !data::file_exists(path_)) return;
  there_ = checkpoint_steps(options.out);
  if (!read(through)) make_again(through);
}

/// Whether the mark is sound; it may be of another branch of the run, or by another measure.
bool BestCheckpoint::read(std::int64_t through) {
  try {
    const data::Bytes bytes = data::read_file(path_);
    const auto mark = nlohmann::json::parse(reinterpret_cast<const char*>(bytes.data()),
                                            reinterpret_cast<const char*>(bytes.data() + bytes.size()));
    const auto step = mark.at("step").get<std::int64_t>();
    const auto by = mark.at("by").get<std::string>();
    const auto value = mark.at(by).get<double>();
    if (!is_measure(by) || mark.at("checkpoint") != checkpoint_name(step)) return false;
    if (by != name_of(by_) || step > through) return true;
    step_ = step;
    value_ = value;
    return std::binary_search(there_.begin(), there_.end(), step) && !contradicted(through);
  } catch (const nlohmann::json::exception&) {
    return false;
  }
}

/// Whether the metrics have another value for the step of the mark.
bool BestCheckpoint::contradicted(std::int64_t through) const {
  bool differs = false;
  each_metrics_line(data::join_path(out_, "metrics.jsonl"), through,
                    [&](std::string_view, const nlohmann::ordered_json& record) {
                      if (is_test_record(record) && record["step"] == *step_) differs = value_in(record) != value_;
                    });
  return differs;
}

void BestCheckpoint::make_again(std::int64_t through) {
  step_.reset();
  nlohmann::ordered_json best;
  each_metrics_line(data::join_path(out_, "metrics.jsonl"), through,
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
  return record[name].is_number() ? record[name].get<double>() : std::nan("");
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
  data::write_json(path_, mark);
  step_ = record.at("step").get<std::int64_t>();
  value_ = value_in(record);
}

} // namespace eg::training
