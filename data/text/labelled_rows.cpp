// Labelled texts of one file: TSV, CSV, JSON lines.

#include "core/base/error.h"
#include "core/base/json.h"
#include "core/base/words.h"
#include "data/text/labelled_texts.h"
#include "data/text/table.h"
#include "data/text/text.h"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string_view>

namespace eg::data {
namespace {

/// What the columns of a text, and of a pair, may be called.
constexpr std::array<std::pair<const char*, const char*>, 5> text_names{
    {{"sentence1", "sentence2"}, {"premise", "hypothesis"}, {"text", "pair"}, {"text", ""}, {"sentence", ""}}};

void stop_if(StopFlag stop) {
  if (stop != nullptr && stop->load()) throw Interrupted("interrupted while texts were read");
}

std::string lower(std::string word) {
  std::transform(word.begin(), word.end(), word.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  return word;
}

/// Which fields of a row are what; pair: none for single texts.
struct Columns {
  std::size_t count = 0, label = 0, text = 1;
  std::optional<std::size_t> pair;
};

/// Of a header; none when the row is not a header.
std::optional<Columns> columns_of(const TableRow& row, const std::string& source) {
  std::vector<std::string> names;
  for (const std::string& field : row.fields) names.push_back(lower(field));
  const auto place = [&](const char* name) -> std::optional<std::size_t> {
    const auto found = std::find(names.begin(), names.end(), name);
    if (found == names.end()) return {};
    return static_cast<std::size_t>(found - names.begin());
  };
  const std::optional<std::size_t> label = place("label");
  if (!label) return {};
  for (const auto& [first, second] : text_names) {
    const bool paired = *second != '\0';
    if (!place(first) || (paired && !place(second))) continue;
    return Columns{names.size(), *label, *place(first), paired ? place(second) : std::nullopt};
  }
  throw FileError(fmt::format("{}: line {}: no column is called text or sentence, sentence1 and sentence2, or premise "
                              "and hypothesis; there are {}",
                              source, row.line, shown_list(names)));
}

/// A first row whose label no other row has, above labels that repeat, is a header with other names.
void refuse_unknown_header(const std::vector<LabelledRow>& rows, const std::string& source) {
  constexpr std::size_t enough = 8;
  if (rows.size() < enough) return;
  std::set<std::string_view> others;
  for (std::size_t i = 1; i < rows.size(); ++i) others.insert(rows[i].label);
  if (others.contains(rows.front().label) || others.size() > rows.size() / 4) return;
  throw FileError(fmt::format(
      "{}: line {} looks like a header, as no other row is labelled '{}', but no column of it is called label; name "
      "the columns label and text, or, if it is a row of data, put such a header above it",
      source, rows.front().line, shown(rows.front().label)));
}

/// Labels that hardly repeat, beside texts that do, are texts and labels.
void refuse_swapped_columns(const std::vector<LabelledRow>& rows, const std::string& source) {
  constexpr std::size_t enough = 8;
  if (rows.size() < enough) return;
  std::set<std::string_view> labels, texts;
  for (const LabelledRow& row : rows) {
    labels.insert(row.label);
    texts.insert(row.text);
  }
  if (labels.size() <= rows.size() / 2 || texts.size() > rows.size() / 4) return;
  throw FileError(
      fmt::format("{}: the first column holds {} different labels in {} rows, the second {} different texts; without a "
                  "header the label comes first: swap them, or put a header with label and text above",
                  source, labels.size(), rows.size(), texts.size()));
}

std::vector<LabelledRow> read_table(std::string_view text, TableReader::Kind kind, const std::string& source,
                                    StopFlag stop) {
  TableReader reader(text, kind, source);
  std::vector<LabelledRow> rows;
  std::optional<Columns> columns;
  bool header = false;
  for (TableRow row; reader.next(row);) {
    if (rows.size() % 1024 == 0) stop_if(stop);
    if (!columns) {
      columns = columns_of(row, source);
      header = columns.has_value();
      if (header) continue;
      if (row.fields.size() < 2 || row.fields.size() > 3)
        throw FileError(fmt::format("{}: line {} has {} and is no header with a column called label; without a "
                                    "header there are two (label, text) or three (label, text, pair){}",
                                    source, row.line, count_of(row.fields.size(), "column"),
                                    separator_hint(row, kind == TableReader::Kind::csv)));
      columns = Columns{.count = row.fields.size(), .pair = {}};
      if (row.fields.size() == 3) columns->pair = 2;
    }
    if (row.fields.size() != columns->count)
      throw FileError(fmt::format("{}: line {} has {}, the first line has {}", source, row.line,
                                  count_of(row.fields.size(), "column"), columns->count));
    if (row.fields[columns->label].empty())
      throw FileError(fmt::format("{}: line {}: the label is empty", source, row.line));
    rows.push_back({row.fields[columns->label], row.fields[columns->text],
                    columns->pair ? row.fields[*columns->pair] : "", row.line});
  }
  if (!header) {
    refuse_swapped_columns(rows, source);
    refuse_unknown_header(rows, source);
  }
  return rows;
}

std::string label_of(const nlohmann::json& value, const std::string& where) {
  if (value.is_string() && value.get_ref<const std::string&>().empty()) throw FileError(where + ": the label is empty");
  if (value.is_string()) return value.get<std::string>();
  if (value.is_number_integer() || value.is_boolean()) return value.dump();
  throw FileError(
      fmt::format("{}: 'label' must be a text, a whole number, true or false, not {}", where, value.dump()));
}

LabelledRow row_of(const nlohmann::json& object, const std::string& where) {
  if (!object.is_object() || !object.contains("label")) throw FileError(where + ": is no object with a 'label'");
  LabelledRow row{.label = label_of(object["label"], where), .text = {}, .pair = {}};
  const auto text = [&](const char* key, std::string& to) {
    if (!object[key].is_string())
      throw FileError(fmt::format("{}: '{}' must be a text, not {}", where, key, object[key].dump()));
    to = object[key].get<std::string>();
  };
  for (const auto& [first, second] : text_names) {
    const bool paired = *second != '\0';
    if (!object.contains(first) || (paired && !object.contains(second))) continue;
    text(first, row.text);
    if (paired) text(second, row.pair);
    return row;
  }
  throw FileError(where + ": has no 'text' or 'sentence', and no pair of texts");
}

std::vector<LabelledRow> read_json_lines(std::string_view text, const std::string& source, StopFlag stop) {
  std::vector<LabelledRow> rows;
  for (std::size_t number = 1; !text.empty(); ++number) {
    if (number % 1024 == 0) stop_if(stop);
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    const std::string where = fmt::format("{}: line {}", source, number);
    rows.push_back(row_of(parse_json(line, where), where));
    rows.back().line = number;
  }
  return rows;
}

} // namespace

std::vector<LabelledRow> read_labelled_texts(const std::string& path, StopFlag stop) {
  std::string kind = lower(path);
  for (const char* packed : {".gz", ".xz"})
    if (kind.ends_with(packed)) kind.resize(kind.size() - 3);
  const std::string text = read_text(path);
  if (kind.ends_with(".jsonl")) return read_json_lines(text, path, stop);
  if (kind.ends_with(".csv")) return read_table(text, TableReader::Kind::csv, path, stop);
  if (kind.ends_with(".tsv")) return read_table(text, TableReader::Kind::tsv, path, stop);
  throw FileError(path + ": is neither .tsv, .csv nor .jsonl (or those with .gz or .xz behind)");
}

} // namespace eg::data
