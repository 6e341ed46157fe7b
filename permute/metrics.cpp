#include "permute/metrics.h"

#include "core/error.h"
#include "core/function_ref.h"
#include "data/bytes.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <string_view>

namespace eg::permute {
namespace {

using Json = nlohmann::ordered_json; // the variants keep their order

/// Calls visit(line with its end, record) for the lines of `path` that are whole records of steps up to `last`, ending
/// at the first line that is no record.
void each_line(const std::string& path, std::int64_t last, FunctionRef<void(std::string_view, const Json&)> visit) {
  if (last < 0 || !data::file_exists(path)) return;
  const data::Bytes bytes = data::read_file(path);
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = text.find('\n', begin);
    if (end == std::string_view::npos) return;
    const std::string_view line = text.substr(begin, end + 1 - begin);
    const Json record = Json::parse(line, nullptr, false);
    if (!record.is_object() || !record.contains("step") || !record["step"].is_number_integer()) return;
    if (record["step"].get<std::int64_t>() <= last) visit(line, record);
    begin = end + 1;
  }
}

bool is_test(const Json& record) { return record.contains("split") && record["split"] == "test"; }

VariantValues values_of(const Json& json, TrainMode mode) {
  return {.mode = mode,
          .loss = json.at("loss").get<double>(),
          .accuracy = json.at("accuracy").get<double>(),
          .drift = json.value("drift", not_measured)};
}

TrainRecord record_of(const Json& json, TrainMode main) {
  TrainRecord record{.split = is_test(json) ? data::Split::test : data::Split::train,
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
  if (!std::isnan(main.drift)) out["drift"] = main.drift;
  if (record.variants.size() < 2) return out;
  for (const VariantValues& v : record.variants) {
    nlohmann::ordered_json& one = out["variants"][std::string(name_of(v.mode))];
    one["loss"] = v.loss;
    one["accuracy"] = v.accuracy;
    if (!std::isnan(v.drift)) one["drift"] = v.drift;
  }
  return out;
}

std::vector<TrainRecord> read_metrics(const std::string& path, std::int64_t through, TrainMode main) {
  std::vector<TrainRecord> records;
  try {
    each_line(path, through, [&](std::string_view, const Json& json) { records.push_back(record_of(json, main)); });
  } catch (const nlohmann::json::exception& e) {
    throw FileError(fmt::format("{}: a line is no record of training: {}", path, e.what()));
  } catch (const ValueError& e) {
    throw FileError(fmt::format("{}: a line is no record of training: {}", path, e.what()));
  }
  return records;
}

MetricsFile::MetricsFile(const std::string& path, std::int64_t keep_through, bool test_again) : path_(path) {
  std::string kept;
  each_line(path, keep_through, [&](std::string_view line, const Json& json) {
    if (!test_again || !is_test(json) || json["step"].get<std::int64_t>() != keep_through) kept += line;
  });
  data::write_file(path, std::string_view(kept));
  file_.open(path, std::ios::app);
  if (!file_) throw FileError(path + ": cannot be written");
}

void MetricsFile::write(const TrainRecord& record) {
  file_ << record_json(record).dump() << '\n' << std::flush;
  if (!file_) throw FileError(path_ + ": cannot be written");
}

} // namespace eg::permute
