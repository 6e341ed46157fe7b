#include "permute/metrics.h"

#include "core/error.h"
#include "data/bytes.h"

#include <nlohmann/json.hpp>

#include <cmath>
#include <string_view>

namespace eg::permute {
namespace {

/// The lines of `path` that belong to steps up to `last`, ending where a line is not complete.
std::string lines_through(const std::string& path, std::int64_t last) {
  if (last < 0 || !data::file_exists(path)) return {};
  const data::Bytes bytes = data::read_file(path);
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  std::string kept;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = text.find('\n', begin);
    if (end == std::string_view::npos) break;
    const std::string_view line = text.substr(begin, end + 1 - begin);
    const nlohmann::json record = nlohmann::json::parse(line, nullptr, false);
    if (!record.is_object() || !record.contains("step") || !record["step"].is_number_integer()) break;
    if (record["step"].get<std::int64_t>() <= last) kept += line;
    begin = end + 1;
  }
  return kept;
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

MetricsFile::MetricsFile(const std::string& path, std::int64_t keep_through) : path_(path) {
  data::write_file(path, std::string_view(lines_through(path, keep_through)));
  file_.open(path, std::ios::app);
  if (!file_) throw FileError(path + ": cannot be written");
}

void MetricsFile::write(const TrainRecord& record) {
  file_ << record_json(record).dump() << '\n' << std::flush;
  if (!file_) throw FileError(path_ + ": cannot be written");
}

} // namespace eg::permute
