// Reading tables: which columns, which labels, statistics of the training rows, rows.

#include "data/text/tabular.h"

#include "core/base/bytes.h"
#include "core/base/error.h"
#include "core/base/function_ref.h"
#include "core/base/out_of_memory.h"
#include "core/base/words.h"
#include "data/text/table.h"
#include "data/text/text.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <unordered_map>

namespace eg::data {
namespace {

std::string trimmed(const std::string& field) {
  const std::size_t first = field.find_first_not_of(' ');
  return first == std::string::npos ? std::string() : field.substr(first, field.find_last_not_of(' ') - first + 1);
}

bool is_number(const std::string& text, double& value) {
  const char *begin = text.data(), *end = begin + text.size();
  if (text.starts_with('+')) ++begin;
  const auto [at, error] = std::from_chars(begin, end, value);
  return error == std::errc() && at == end && std::isfinite(value);
}

/// A table with the names of its columns.
class TableFile {
public:
  TableFile(const std::string& path, bool header, StopFlag stop)
      : path_(path), text_(read_text(path)), kind_(kind_of(path, text_)), header_(header), stop_(stop) {
    TableReader reader(text_, kind_, path);
    TableRow first;
    if (!reader.next(first)) throw FileError(path + ": has no rows");
    if (const std::string hint = separator_hint(first, kind_ == TableReader::Kind::csv); !hint.empty())
      throw FileError(fmt::format("{}: line {} has 1 column{}", path, first.line, hint));
    for (std::size_t i = 0; i < first.fields.size(); ++i)
      columns_.push_back(header ? trimmed(first.fields[i]) : std::to_string(i + 1));
    for (std::size_t i = 0; i < columns_.size(); ++i)
      if (std::find(columns_.begin(), columns_.begin() + static_cast<std::ptrdiff_t>(i), columns_[i]) !=
          columns_.begin() + static_cast<std::ptrdiff_t>(i))
        throw FileError(fmt::format("{}: line {}: two columns are called '{}'", path, first.line, shown(columns_[i])));
  }

  const std::string& path() const { return path_; }
  const std::vector<std::string>& columns() const { return columns_; }

  std::size_t place_of(const std::string& column, const char* role) const {
    const auto found = std::find(columns_.begin(), columns_.end(), column);
    if (found != columns_.end()) return static_cast<std::size_t>(found - columns_.begin());
    const std::string hint = did_you_mean(column, columns_);
    throw FileError(fmt::format(
        "{}: no column is called '{}', which {} names{}", path_, column, role,
        !hint.empty() ? hint : fmt::format("; there are {}{}", shown_list(columns_), header_ ? "" : " (no header)")));
  }

  /// Calls visit(row with blanks around its fields left out, its number from 0) for every row.
  void each(FunctionRef<void(const TableRow&, std::uint64_t)> visit) const {
    TableReader reader(text_, kind_, path_);
    TableRow row;
    if (header_) reader.next(row);
    for (std::uint64_t number = 0; reader.next(row); ++number) {
      if (number % 1024 == 0 && stop_ != nullptr && stop_->load())
        throw Interrupted("interrupted while a table was read");
      if (row.fields.size() != columns_.size())
        throw FileError(fmt::format("{}: line {} has {}, the {} has {}", path_, row.line,
                                    count_of(row.fields.size(), "column"), header_ ? "header" : "first line",
                                    columns_.size()));
      for (std::string& field : row.fields) field = trimmed(field);
      visit(row, number);
    }
  }

private:
  static TableReader::Kind kind_of(std::string path, std::string_view text) {
    for (const char* packed : {".gz", ".xz"})
      if (path.ends_with(packed)) path.resize(path.size() - 3);
    if (path.ends_with(".csv")) return TableReader::Kind::csv;
    const bool tabs = path.ends_with(".tsv") || text.substr(0, text.find('\n')).find('\t') != std::string_view::npos;
    return tabs ? TableReader::Kind::tsv : TableReader::Kind::csv;
  }

  std::string path_, text_;
  TableReader::Kind kind_;
  bool header_;
  StopFlag stop_;
  std::vector<std::string> columns_;
};

/// The columns that a list of names and ranges means, in its order.
std::vector<std::string> columns_named(const std::string& list, const TableFile& file, const char* role) {
  std::vector<std::string> named;
  for (const std::string& word : words_of_list(list)) {
    const std::size_t dots = word.find("..");
    const bool whole = std::find(file.columns().begin(), file.columns().end(), word) != file.columns().end();
    if (whole || dots == std::string::npos) {
      named.push_back(file.columns()[file.place_of(word, role)]);
      continue;
    }
    const std::size_t first = file.place_of(word.substr(0, dots), role);
    const std::size_t last = file.place_of(word.substr(dots + 2), role);
    if (last < first) throw ValueError(fmt::format("{}: {} stands behind {}", role, word, file.columns()[last]));
    for (std::size_t i = first; i <= last; ++i) named.push_back(file.columns()[i]);
  }
  return named;
}

void require_apart(const std::string& label, const std::vector<std::string>& dense,
                   const std::vector<std::string>& categorical) {
  std::set<std::string> seen = {label};
  for (const auto* list : {&dense, &categorical})
    for (const std::string& column : *list)
      if (!seen.insert(column).second)
        throw ValueError(fmt::format("columns: '{}' is named twice, among label, dense and categorical", column));
  if (seen.size() == 1) throw ValueError("columns: no column is left to learn from");
}

/// Which rows are learnt from and which are tested on: the first file's, and of the second one, if there is one.
class Parts {
public:
  Parts(const TabularOptions& o, const TableFile& file, const TableFile* validation) {
    std::vector<std::uint64_t> train, test;
    std::uint64_t rows = 0, other_rows = 0;
    file.each([&](const TableRow&, std::uint64_t number) {
      (validation == nullptr && row_is_held_out(number, o.held_out) ? test : train).push_back(number);
      ++rows;
    });
    if (train.empty()) throw FileError(file.path() + ": has no rows to learn from");
    if (validation != nullptr)
      validation->each([&](const TableRow&, std::uint64_t number) { test.push_back(number), ++other_rows; });
    trains_ = chosen(train, o.train_limit, rows);
    tests_ = chosen(test, o.test_limit, validation != nullptr ? other_rows : rows);
  }

  bool trains(std::uint64_t row) const { return trains_[row]; }
  bool tests(std::uint64_t row) const { return tests_[row]; }
  void each_training(const TableFile& file, FunctionRef<void(const TableRow&)> visit) const {
    file.each([&](const TableRow& row, std::uint64_t number) {
      if (trains(number)) visit(row);
    });
  }

private:
  /// By a file's rows: those of `part` that the limit leaves.
  static std::vector<bool> chosen(const std::vector<std::uint64_t>& part, std::int64_t limit, std::uint64_t rows) {
    const std::vector<bool> drawn = drawn_rows(part.size(), limit);
    std::vector<bool> list(rows, false);
    for (std::size_t i = 0; i < part.size(); ++i)
      if (drawn[i]) list[part[i]] = true;
    return list;
  }
  std::vector<bool> trains_, tests_;
};

/// Sets the two labels of `code`.
void find_labels(TabularCode& code, const TableFile& file, const Parts& parts, const std::string& positive) {
  const std::size_t at = file.place_of(code.label, "label");
  std::set<std::string> found;
  parts.each_training(file, [&](const TableRow& row) {
    if (row.fields[at].empty()) throw FileError(fmt::format("{}: line {}: the label is empty", file.path(), row.line));
    if (found.size() < 100 || row.fields[at] == positive) found.insert(row.fields[at]);
  });
  std::vector<std::string> labels(found.begin(), found.end());
  if (!positive.empty()) {
    if (!found.contains(positive))
      throw FileError(fmt::format("{}: no training row is labelled '{}'; there are {}", file.path(), shown(positive),
                                  shown_list(labels)));
    if (found.size() == 1)
      throw FileError(fmt::format("{}: all training rows are labelled '{}'", file.path(), shown(positive)));
    code.positive = positive;
    return;
  }
  if (labels.size() != 2)
    throw FileError(
        fmt::format("{}: the training rows have {}{} labels: {}{}; there must be two, or one that counts as 1 "
                    "must be named (positive)",
                    file.path(), labels.size(), labels.size() >= 100 ? " or more" : "",
                    shown_list({labels.begin(), labels.begin() + std::min<std::ptrdiff_t>(5, std::ssize(labels))}),
                    labels.size() > 5 ? ", ..." : ""));
  double a = 0.0, b = 0.0;
  if (is_number(labels[0], a) && is_number(labels[1], b) && a > b) std::swap(labels[0], labels[1]);
  code.negative = labels[0];
  code.positive = labels[1];
}

/// The columns whose training values are all numbers, and the others.
std::pair<std::vector<std::string>, std::vector<std::string>> guess_columns(const TableFile& file, const Parts& parts,
                                                                            const std::string& label) {
  std::vector<bool> numeric(file.columns().size(), true), seen(file.columns().size(), false);
  parts.each_training(file, [&](const TableRow& row) {
    double ignored = 0.0;
    for (std::size_t i = 0; i < row.fields.size(); ++i) {
      if (row.fields[i].empty()) continue;
      seen[i] = true;
      if (numeric[i] && !is_number(row.fields[i], ignored)) numeric[i] = false;
    }
  });
  std::pair<std::vector<std::string>, std::vector<std::string>> found;
  for (std::size_t i = 0; i < file.columns().size(); ++i)
    if (file.columns()[i] != label) (numeric[i] && seen[i] ? found.first : found.second).push_back(file.columns()[i]);
  return found;
}

/// Places of the fields of a code in the rows of one file.
struct Places {
  std::size_t label = 0;
  std::vector<std::size_t> dense, categorical;
};

Places places_in(const TableFile& file, const TabularCode& code) {
  Places at{.label = file.place_of(code.label, "label"), .dense = {}, .categorical = {}};
  for (const TabularCode::Numbers& field : code.dense) at.dense.push_back(file.place_of(field.column, "dense"));
  for (const TabularCode::Categories& field : code.categorical)
    at.categorical.push_back(file.place_of(field.column, "categorical"));
  return at;
}

double number_in(const TableFile& file, const TableRow& row, std::size_t place) {
  double value = 0.0;
  if (!is_number(row.fields[place], value))
    throw FileError(fmt::format("{}: line {}: column '{}' holds '{}', which is no number", file.path(), row.line,
                                shown(file.columns()[place]), shown(row.fields[place])));
  return value;
}

/// Mean and deviation of numbers that come one by one (Welford 1962).
struct Moments {
  double count = 0.0, mean = 0.0, squares = 0.0;
  void add(double x) {
    count += 1.0;
    const double before = x - mean;
    mean += before / count;
    squares += before * (x - mean);
  }
  double deviation() const { return count > 0.0 && squares > 0.0 ? std::sqrt(squares / count) : 1.0; }
};

/// Completes `code`, whose columns are known, from the training rows.
void learn(TabularCode& code, const TableFile& file, const Parts& parts, std::int64_t min_count) {
  const Places at = places_in(file, code);
  std::vector<Moments> moments(at.dense.size());
  std::vector<std::unordered_map<std::string, std::int64_t>> counts(at.categorical.size());
  parts.each_training(file, [&](const TableRow& row) {
    for (std::size_t i = 0; i < at.dense.size(); ++i)
      if (!row.fields[at.dense[i]].empty()) moments[i].add(code.number(i, number_in(file, row, at.dense[i])));
    if (code.buckets == 0)
      for (std::size_t i = 0; i < at.categorical.size(); ++i) ++counts[i][row.fields[at.categorical[i]]];
  });
  if (code.scale != NumberScale::none)
    for (std::size_t i = 0; i < moments.size(); ++i)
      code.dense[i].mean = moments[i].mean, code.dense[i].deviation = moments[i].deviation();
  for (std::size_t i = 0; i < counts.size(); ++i) {
    for (const auto& [value, count] : counts[i])
      if (count >= min_count) code.categorical[i].values.push_back(value);
    std::sort(code.categorical[i].values.begin(), code.categorical[i].values.end());
  }
}

std::uint8_t label_in(const TableFile& file, const TableRow& row, std::size_t place, const TabularCode& code) {
  const std::string& label = row.fields[place];
  if (label == code.positive) return 1;
  if (code.negative.empty() ? !label.empty() : label == code.negative) return 0;
  throw FileError(fmt::format("{}: line {}: label '{}' is not one of the training part's: {}, {}", file.path(),
                              row.line, shown(label), code.negative.empty() ? "any text" : shown(code.negative),
                              shown(code.positive)));
}

void add_row(TabularRows& to, const TableFile& file, const TableRow& row, const Places& at, const TabularCode& code) {
  to.labels.push_back(label_in(file, row, at.label, code));
  for (std::size_t i = 0; i < at.dense.size(); ++i)
    to.numbers.push_back(row.fields[at.dense[i]].empty() ? 0.0 : code.number(i, number_in(file, row, at.dense[i])));
  for (std::size_t i = 0; i < at.categorical.size(); ++i) to.ids.push_back(code.id(i, row.fields[at.categorical[i]]));
}

void require_both_labels(const TabularRows& rows, const char* what) {
  if (rows.labels.empty()) throw FileError(fmt::format("{}: has no rows to {}", rows.name, what));
  if (std::count(rows.labels.begin(), rows.labels.end(), rows.labels.front()) == rows.size())
    throw FileError(fmt::format("{}: all {} rows to {} have label {}; both are needed", rows.name, rows.size(), what,
                                static_cast<int>(rows.labels.front())));
}

std::string find_table(const std::string& name, const std::string& data_dir) {
  if (name != "criteo" || file_exists(name)) {
    if (!file_exists(name)) throw FileError(name + ": no such data: give criteo, or a .csv or .tsv file");
    return name;
  }
  const std::string folder = data_dir.empty() ? default_data_dir() : data_dir;
  std::string path = join_path(folder, "criteo/criteo_sample.txt");
  if (folder.empty() || !file_exists(path))
    throw FileError(fmt::format("{}: dataset criteo is not here: looked for criteo/criteo_sample.txt; give the folder "
                                "that holds it with --data-dir or EQUIGRAD_DATA",
                                folder.empty() ? "no data folder is given" : folder));
  return path;
}

/// Labels, columns, and their statistics in the training rows.
TabularCode code_of(const TableFile& file, const Parts& parts, const TabularOptions& o) {
  TabularCode code;
  code.label = o.label;
  code.scale = o.scale;
  code.buckets = o.buckets;
  find_labels(code, file, parts, o.positive);
  std::vector<std::string> dense = columns_named(o.dense, file, "dense"),
                           categorical = columns_named(o.categorical, file, "categorical");
  if (o.dense.empty() && o.categorical.empty()) std::tie(dense, categorical) = guess_columns(file, parts, o.label);
  require_apart(o.label, dense, categorical);
  for (std::string& column : dense) code.dense.push_back({.column = std::move(column)});
  for (std::string& column : categorical) code.categorical.push_back({.column = std::move(column), .values = {}});
  learn(code, file, parts, o.min_count);
  return code;
}

/// Adds the rows of a file, each to the part that `part` gives, if any.
void add_rows(const TableFile& file, const TabularCode& code, FunctionRef<TabularRows*(std::uint64_t)> part) {
  const Places at = places_in(file, code);
  file.each([&](const TableRow& row, std::uint64_t number) {
    if (TabularRows* to = part(number)) add_row(*to, file, row, at, code);
  });
}

Tabular read_tabular(const std::string& name, const std::string& data_dir, const TabularOptions& given) {
  TabularOptions o = given;
  const std::string path = find_table(name, data_dir);
  if (path != name && o.dense.empty() && o.categorical.empty()) o.dense = "I1..I13", o.categorical = "C1..C26";
  const TableFile file(path, o.header, o.stop);
  std::optional<TableFile> validation;
  if (!o.validation.empty()) validation.emplace(o.validation, o.header, o.stop);
  const Parts parts(o, file, validation ? &*validation : nullptr);
  Tabular table{.code = o.like != nullptr ? *o.like : code_of(file, parts, o), .train = {}, .test = {}};
  table.train.name = path;
  table.train.dense = std::ssize(table.code.dense);
  table.train.categorical = std::ssize(table.code.categorical);
  table.test = table.train;
  const auto tested = [&](std::uint64_t row) { return parts.tests(row) ? &table.test : nullptr; };
  add_rows(file, table.code, [&](std::uint64_t row) {
    return parts.trains(row) ? &table.train : validation ? nullptr : tested(row);
  });
  if (validation) {
    table.test.name = o.validation;
    add_rows(*validation, table.code, tested);
  }
  require_both_labels(table.train, "learn from");
  require_both_labels(table.test, "test on");
  return table;
}

} // namespace

Tabular open_tabular(const std::string& name, const std::string& data_dir, const TabularOptions& options) {
  return naming_memory(name, [&] { return read_tabular(name, data_dir, options); });
}

} // namespace eg::data
