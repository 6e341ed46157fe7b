#include "training/metrics.h"

#include "core/base/bytes.h"
#include "core/base/error.h"

namespace eg::training {

using Json = nlohmann::ordered_json; // fields keep their order

void each_metrics_line(const std::string& path, std::int64_t last,
                       FunctionRef<void(std::string_view, const Json&)> visit) {
  if (last < 0 || !file_exists(path)) return;
  const Bytes bytes = read_file(path);
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

void each_metric(const Json& record, std::string_view between,
                 FunctionRef<void(const std::string&, const Json&)> visit) {
  for (const auto& [key, value] : record.items()) {
    if (value.is_object())
      each_metric(value, between, [&, outer = key + std::string(between)](const std::string& name, const Json& inner) {
        visit(outer + name, inner);
      });
    else
      visit(key, value);
  }
}

std::string MetricsFile::keep(const std::string& path, const KeptMetrics& kept) {
  std::string lines;
  each_metrics_line(path, kept.through, [&](std::string_view line, const Json& record) {
    const bool test = is_test_record(record);
    const auto step = record["step"].get<std::int64_t>();
    if (!kept.keeps(step, test)) return;
    if (test && step == kept.at) kept_test_ = record;
    if (record.contains("seconds") && record["seconds"].is_number()) kept_seconds_ = record["seconds"].get<double>();
    lines += line;
  });
  write_file(path, std::string_view(lines));
  return path;
}

MetricsFile::MetricsFile(const std::string& path, const KeptMetrics& kept) : file_(keep(path, kept)) {}

void MetricsFile::write(const Json& record) { file_.append(record.dump() + "\n"); }

} // namespace eg::training
