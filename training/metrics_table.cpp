#include "training/metrics_table.h"

#include "core/base/bytes.h"
#include "training/metrics.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

namespace eg::training {
namespace {

using Json = nlohmann::ordered_json; // columns in the order of the fields

std::string quoted(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string out = "\"";
  for (const char c : text) out += c == '"' ? std::string("\"\"") : std::string(1, c);
  return out + "\"";
}

std::string cell(const Json& value) {
  if (value.is_null()) return {};
  return quoted(value.is_string() ? value.get<std::string>() : value.dump());
}

/// Adds the metrics of `record` that `columns` lacks; whether there were any.
bool add_columns(const Json& record, std::vector<std::string>& columns) {
  const std::size_t before = columns.size();
  each_metric(record, ".", [&](const std::string& name, const Json&) {
    if (std::find(columns.begin(), columns.end(), name) == columns.end()) columns.push_back(name);
  });
  return columns.size() > before;
}

std::string line(std::vector<std::string> cells) { return fmt::format("{}\n", fmt::join(cells, ",")); }

std::string row(const Json& record, const std::vector<std::string>& columns) {
  std::vector<std::string> cells(columns.size());
  each_metric(record, ".", [&](const std::string& name, const Json& value) {
    const auto at = std::find(columns.begin(), columns.end(), name);
    cells[static_cast<std::size_t>(at - columns.begin())] = cell(value);
  });
  return line(std::move(cells));
}

std::string header(const std::vector<std::string>& columns) {
  std::vector<std::string> cells;
  for (const std::string& name : columns) cells.push_back(quoted(name));
  return line(std::move(cells));
}

} // namespace

MetricsTable::MetricsTable(std::string path, std::string lines) : path_(std::move(path)), lines_(std::move(lines)) {
  rebuild();
}

void MetricsTable::rebuild() {
  constexpr auto all = std::numeric_limits<std::int64_t>::max();
  each_metrics_line(lines_, all, [&](std::string_view, const Json& record) { add_columns(record, columns_); });
  std::string text = columns_.empty() ? std::string() : header(columns_);
  each_metrics_line(lines_, all, [&](std::string_view, const Json& record) { text += row(record, columns_); });
  file_.reset();
  write_file(path_, std::string_view(text));
  file_.emplace(path_);
}

void MetricsTable::write(const Json& record) {
  if (add_columns(record, columns_))
    rebuild(); // the record is among the lines
  else
    file_->append(row(record, columns_));
}

} // namespace eg::training
