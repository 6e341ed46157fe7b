#include "apps/cli/inspect.h"

#include "apps/cli/shell/interrupt.h"
#include "apps/cli/shell/output.h"
#include "apps/cli/shell/progress.h"

#include "core/base/error.h"
#include "core/base/words.h"
#include "data/tensor_stats.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

namespace eg::cli {
namespace {

using data::TensorInfo;
using data::TensorReader;
using data::TensorStats;
using nlohmann::json;

/// Characters of a UTF-8 text.
std::size_t width(const std::string& text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

/// Columns as wide as their widest cell, numbers to the right. A cell of more than `most` characters pushes the rest of
/// its row aside, not those of all others: a name can have a million.
class Columns {
public:
  explicit Columns(std::size_t left) : left_(left) {}

  void fit(const std::vector<std::string>& row) {
    widths_.resize(std::max(widths_.size(), row.size()));
    for (std::size_t c = 0; c < row.size(); ++c) widths_[c] = std::max(widths_[c], std::min(most, width(row[c])));
  }
  std::string line(const std::vector<std::string>& row) const {
    std::string line;
    for (std::size_t c = 0; c < row.size(); ++c) {
      const std::size_t taken = width(row[c]);
      const std::string pad(widths_[c] - std::min(widths_[c], taken), ' ');
      line += (c > 0 ? "  " : "") + (c < left_ ? row[c] + pad : pad + row[c]);
    }
    return line.substr(0, line.find_last_not_of(' ') + 1) + '\n';
  }

private:
  static constexpr std::size_t most = 80;
  std::size_t left_; ///< columns that begin at the left
  std::vector<std::size_t> widths_;
};

std::string shape_text(const std::vector<std::int64_t>& dims) { return fmt::format("[{}]", fmt::join(dims, ", ")); }

json stats_json(const TensorStats& s) {
  return {{"min", s.min}, {"max", s.max}, {"mean", s.mean}, {"std", s.deviation}, {"nan", s.nan}, {"inf", s.infinite}};
}

std::array<std::string, 6> stats_cells(const TensorStats& s) {
  const auto number = [&](double value) { return s.finite == 0 ? std::string("-") : fmt::format("{:.4g}", value); };
  return {number(s.min),
          number(s.max),
          number(s.mean),
          number(s.deviation),
          grouped(static_cast<std::uint64_t>(s.nan)),
          grouped(static_cast<std::uint64_t>(s.infinite))};
}

json info_json(const TensorReader& reader, const TensorInfo& info) {
  json entry = {{"name", info.name}, {"dtype", name_of(info.type)}, {"shape", info.dims}, {"bytes", info.bytes}};
  if (reader.files().size() > 1) entry["file"] = reader.files()[info.file];
  return entry;
}

std::uint64_t parameters_of(const TensorReader& reader) {
  std::uint64_t sum = 0;
  for (const TensorInfo& info : reader.tensors()) sum += info.numel();
  return sum;
}

} // namespace

std::string grouped(std::uint64_t number) {
  std::string text = std::to_string(number);
  for (auto at = static_cast<std::ptrdiff_t>(text.size()) - 3; at > 0; at -= 3)
    text.insert(static_cast<std::size_t>(at), ",");
  return text;
}

std::string bytes_text(std::uint64_t bytes) {
  constexpr std::array units{"bytes", "kB", "MB", "GB", "TB", "PB", "EB"};
  auto value = static_cast<double>(bytes);
  std::size_t unit = 0;
  for (; value >= 1000 && unit + 1 < units.size(); ++unit) value /= 1000;
  return unit == 0 ? fmt::format("{} {}", bytes, units[0]) : fmt::format("{:.1f} {}", value, units[unit]);
}

Statistics read_statistics(const TensorReader& reader, bool progress) {
  Statistics all;
  double read = 0;
  const auto whole = static_cast<double>(reader.bytes()); // a sum over all tensors
  Progress bar(progress);
  for (std::size_t i = 0; i < reader.tensors().size(); ++i) {
    const TensorInfo& info = reader.tensors()[i];
    throw_if_stopped();
    bar.show(read, whole, {{printable(info.name), 3}});
    all.push_back(data::tensor_type(info.type, true) ? std::optional(data::statistics(reader.read(i, {.widen = true})))
                                                     : std::nullopt);
    read += static_cast<double>(info.bytes);
  }
  return all;
}

namespace {

/// A tensor's row of the table.
std::vector<std::string> cells_of(const TensorReader& reader, const Statistics& stats, std::size_t i) {
  const TensorInfo& info = reader.tensors()[i];
  std::vector<std::string> row{printable(info.name), std::string(name_of(info.type)), shape_text(info.dims),
                               grouped(info.bytes)};
  if (!stats.empty()) {
    const auto cells = stats[i] ? stats_cells(*stats[i]) : std::array<std::string, 6>{"-", "-", "-", "-", "-", "-"};
    row.insert(row.end(), cells.begin(), cells.end());
  }
  return row;
}

} // namespace

void print_tensors(const TensorReader& reader, const Statistics& stats) {
  std::vector<std::string> head{"name", "dtype", "shape", "bytes"};
  if (!stats.empty()) head.insert(head.end(), {"min", "max", "mean", "std", "NaN", "Inf"});
  Columns columns(3);
  columns.fit(head);
  const std::size_t count = reader.tensors().size();
  for (std::size_t i = 0; i < count; ++i) {
    throw_if_stopped();
    columns.fit(cells_of(reader, stats, i));
  }
  LongOutput out;
  out.add(columns.line(head));
  for (std::size_t i = 0; i < count; ++i) out.add(columns.line(cells_of(reader, stats, i)));
  for (const auto& [key, text] : reader.metadata())
    out.add(fmt::format("metadata {} = {}\n", printable(key), printable(text)));
  out.add(fmt::format("{} tensors, {} parameters, {}{}\n", grouped(count), grouped(parameters_of(reader)),
                      bytes_text(reader.bytes()),
                      reader.files().size() > 1 ? fmt::format(" in {} files", reader.files().size()) : ""));
  out.finish();
}

json tensors_json(const TensorReader& reader, const Statistics& stats) {
  json list = json::array();
  for (std::size_t i = 0; i < reader.tensors().size(); ++i) {
    json entry = info_json(reader, reader.tensors()[i]);
    if (!stats.empty()) entry["stats"] = stats[i] ? stats_json(*stats[i]) : json(nullptr);
    list.push_back(std::move(entry));
  }
  return {{"format", reader.format()},
          {"files", reader.files()},
          {"tensors", std::move(list)},
          {"metadata", reader.metadata()},
          {"totals",
           {{"tensors", reader.tensors().size()}, {"parameters", parameters_of(reader)}, {"bytes", reader.bytes()}}}};
}

void inspect_tensor(const TensorReader& reader, const std::string& name, std::string& lines, json& json_out) {
  const TensorInfo* info = reader.find(name);
  if (info == nullptr) {
    std::vector<std::string> names;
    for (const TensorInfo& known : reader.tensors()) names.push_back(known.name);
    throw ValueError(fmt::format("{}: there is no tensor '{}'{}", reader.path(), name, did_you_mean(name, names)));
  }
  const Tensor values = reader.read(name, {.widen = true});
  const TensorStats stats = data::statistics(values);
  const auto cells = stats_cells(stats);
  lines += fmt::format("{} {} {}\n{}\nmin {}, max {}, mean {}, std {}, NaN {}, Inf {}\n", printable(name),
                       name_of(info->type), shape_text(info->dims), values.str(), cells[0], cells[1], cells[2],
                       cells[3], cells[4], cells[5]);
  json entry = info_json(reader, *info);
  entry["stats"] = stats_json(stats);
  // Values that JSON can hold; a larger tensor is better read from the file.
  constexpr std::int64_t most = 10000;
  if (values.numel() <= most) {
    json flat = json::array();
    if (values.dtype() == DType::i64)
      for (const std::int64_t value : values.to_vector<std::int64_t>()) flat.push_back(value);
    else
      for (const double value : values.to(DType::f64).to_vector<double>()) flat.push_back(value);
    entry["values"] = std::move(flat);
  }
  json_out["tensor"] = std::move(entry);
}

} // namespace eg::cli
