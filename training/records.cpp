#include "training/records.h"

#include "core/base/error.h"
#include "training/metrics.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <initializer_list>
#include <string_view>
#include <utility>

namespace eg::training {
namespace {

using Json = nlohmann::ordered_json; // the variants keep their order

/// JSON has no NaN and no infinity: the loss of a step that was skipped may be null.
double loss_in(const Json& json) { return json.at("loss").is_null() ? not_measured : json.at("loss").get<double>(); }

VariantRecord values_in(const Json& json, permute::PermuteMode mode) {
  return {.mode = mode,
          .loss = loss_in(json),
          .accuracy = json.value("accuracy", not_measured),
          .auc = json.value("auc", not_measured),
          .drift = json.value("drift", not_measured),
          .ema_loss = json.value("ema_loss", not_measured),
          .ema_accuracy = json.value("ema_accuracy", not_measured)};
}

Record record_in(const Json& json, permute::PermuteMode main, const std::string& rate) {
  Record record;
  static_cast<VariantRecord&>(record) = values_in(json, main);
  record.split = is_test_record(json) ? data::Split::test : data::Split::train;
  record.step = json.at("step").get<std::int64_t>();
  record.epoch = json.at("epoch").get<std::int64_t>();
  record.lr = json.at("lr").get<double>();
  record.per_s = json.at(rate).get<double>();
  if (!json.contains("variants")) record.variants.push_back(record);
  if (json.contains("variants"))
    for (const auto& [mode, values] : json.at("variants").items())
      record.variants.push_back(values_in(values, permute::permute_mode_named(mode)));
  return record;
}

/// Adds those values that were measured.
void add_measured(Json& line, std::initializer_list<std::pair<const char*, double>> values) {
  for (const auto& [key, value] : values)
    if (!std::isnan(value)) line[key] = value;
}

} // namespace

nlohmann::ordered_json record_json(const Record& r, const std::string& unit) {
  Json line{{"split", data::name_of(r.split)}, {"step", r.step}, {"epoch", r.epoch}, {"loss", r.loss}};
  add_measured(line, {{"accuracy", r.accuracy}, {"auc", r.auc}});
  add_measured(line, {{"ema_loss", r.ema_loss}, {"ema_accuracy", r.ema_accuracy}});
  line["lr"] = r.lr;
  line[unit + "_per_s"] = r.per_s;
  add_measured(line, {{"drift", r.drift}});
  if (r.variants.size() < 2) return line;
  for (const VariantRecord& v : r.variants) {
    Json& one = line["variants"][std::string(name_of(v.mode))];
    one["loss"] = v.loss;
    add_measured(
        one,
        {{"accuracy", v.accuracy}, {"drift", v.drift}, {"ema_loss", v.ema_loss}, {"ema_accuracy", v.ema_accuracy}});
  }
  return line;
}

std::vector<Record> read_records(const std::string& path, std::int64_t through, permute::PermuteMode main,
                                 const std::string& unit) {
  std::vector<Record> records;
  const std::string rate = unit + "_per_s";
  try {
    each_metrics_line(path, through,
                      [&](std::string_view, const Json& json) { records.push_back(record_in(json, main, rate)); });
  } catch (const nlohmann::json::exception& e) {
    throw FileError(fmt::format("{}: a line is no record of training: {}", path, e.what()));
  } catch (const ValueError& e) {
    throw FileError(fmt::format("{}: a line is no record of training: {}", path, e.what()));
  }
  return records;
}

} // namespace eg::training
