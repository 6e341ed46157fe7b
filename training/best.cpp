#include "training/best.h"

#include "core/error.h"
#include "data/bytes.h"
#include "data/json.h"
#include "data/text.h"
#include "training/checkpoint.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>

namespace eg::training {

BestCheckpoint::BestCheckpoint(const RunOptions& options, std::int64_t through)
    : path_(data::join_path(options.out, "checkpoints/best.json")), by_(options.best) {
  if (through < 0 || by_ == BestBy::off || options.out.empty() || !data::file_exists(path_)) return;
  try {
    const nlohmann::json mark = nlohmann::json::parse(data::read_text(path_));
    const auto step = mark.at("step").get<std::int64_t>();
    if (mark.at("by").get<std::string>() != name_of(by_) || step > through) return;
    const std::vector<std::int64_t> there = checkpoint_steps(options.out);
    if (!std::binary_search(there.begin(), there.end(), step)) return;
    value_ = mark.at(std::string(name_of(by_))).get<double>();
    step_ = step;
  } catch (const nlohmann::json::exception&) {
    throw FileError(path_ + ": does not say which checkpoint is the best one; without the file the run goes on, and "
                            "forgets the best test so far");
  }
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
