#include "training/metrics.h"

#include "core/error.h"
#include "data/bytes.h"

#include <nlohmann/json.hpp>

namespace eg::training {

using Json = nlohmann::ordered_json; // fields keep their order

void each_metrics_line(const std::string& path, std::int64_t last,
                       FunctionRef<void(std::string_view, const Json&)> visit) {
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

bool is_test_record(const Json& record) { return record.contains("split") && record["split"] == "test"; }

MetricsFile::MetricsFile(const std::string& path, std::int64_t keep_through, bool test_again) : path_(path) {
  std::string kept;
  each_metrics_line(path, keep_through, [&](std::string_view line, const Json& json) {
    const bool test_there = is_test_record(json) && json["step"].get<std::int64_t>() == keep_through;
    if (test_there && test_again) return;
    kept_test_ = kept_test_ || test_there;
    kept += line;
  });
  data::write_file(path, std::string_view(kept));
  file_.open(path, std::ios::app);
  if (!file_) throw FileError(path + ": cannot be written");
}

void MetricsFile::write(const Json& record) {
  file_ << record.dump() << '\n' << std::flush;
  if (!file_) throw FileError(path_ + ": cannot be written");
}

} // namespace eg::training
