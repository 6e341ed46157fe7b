#include "training/vit_metrics.h"

#include "core/base/error.h"
#include "training/metrics.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <string_view>

namespace eg::permute {
namespace {

using Json = nlohmann::ordered_json; // the variants keep their order

/// JSON has no NaN and no infinity: the loss of a step that was skipped may be null.
double loss_in(const Json& json) { return json.at("loss").is_null() ? not_measured : json.at("loss").get<double>(); }

VariantValues values_of(const Json& json, TrainMode mode) {
  return {.mode = mode,
          .loss = loss_in(json),
          .accuracy = json.at("accuracy").get<double>(),
          .drift = json.value("drift", not_measured),
          .ema_loss = json.value("ema_loss", not_measured),
          .ema_accuracy = json.value("ema_accuracy", not_measured)};
}

TrainRecord record_of(const Json& json, TrainMode main) {
  TrainRecord record{.split = training::is_test_record(json) ? data::Split::test : data::Split::train,
                     .step = json.at("step").get<std::int64_t>(),
                     .epoch = json.at("epoch").get<std::int64_t>(),
                     .lr = json.at("lr").get<double>(),
                     .images_per_s = json.at("images_per_s").get<double>(),
                     .variants = {}};
  if (!json.contains("variants")) record.variants.push_back(values_of(json, main));
  if (json.contains("variants"))
    for (const auto& [mode, values] : json.at("variants").items())
      record.variants.push_back(values_of(values, train_mode_named(mode)));
  return record;
}

/// What not every record has.
void add_measured(Json& out, const VariantValues& v) {
  for (const auto& [key, value] :
       {std::pair{"drift", v.drift}, {"ema_loss", v.ema_loss}, {"ema_accuracy", v.ema_accuracy}})
    if (!std::isnan(value)) out[key] = value;
}

} // namespace

nlohmann::ordered_json record_json(const TrainRecord& record) {
  const VariantValues& main = record.variants.back();
  nlohmann::ordered_json out{{"split", data::name_of(record.split)},
                             {"step", record.step},
                             {"epoch", record.epoch},
                             {"loss", main.loss},
                             {"accuracy", main.accuracy},
                             {"lr", record.lr},
                             {"images_per_s", record.images_per_s}};
  add_measured(out, main);
  if (record.variants.size() < 2) return out;
  for (const VariantValues& v : record.variants) {
    nlohmann::ordered_json& one = out["variants"][std::string(name_of(v.mode))];
    one["loss"] = v.loss;
    one["accuracy"] = v.accuracy;
    add_measured(one, v);
  }
  return out;
}

std::vector<TrainRecord> read_metrics(const std::string& path, std::int64_t through, TrainMode main) {
  std::vector<TrainRecord> records;
  try {
    training::each_metrics_line(path, through,
                                [&](std::string_view, const Json& json) { records.push_back(record_of(json, main)); });
  } catch (const nlohmann::json::exception& e) {
    throw FileError(fmt::format("{}: a line is no record of training: {}", path, e.what()));
  } catch (const ValueError& e) {
    throw FileError(fmt::format("{}: a line is no record of training: {}", path, e.what()));
  }
  return records;
}

} // namespace eg::permute
