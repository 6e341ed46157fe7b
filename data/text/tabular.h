#pragma once
// Reads tables of numbers and categories with a label of two classes.

#include "core/base/interrupt.h"
#include "core/tensor.h"
#include "data/dataset.h"

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace eg::data {

/// What is done to the numbers of a column; a missing one is 0 afterwards.
enum class NumberScale : std::uint8_t {
  none,
  standard, ///< (x - mean) / deviation, by the training rows; a column without deviation: x - mean
  log,      ///< the same of sign(x) log(1 + |x|)
};
/// "none", "standard" or "log". Throws ValueError that lists them.
NumberScale number_scale_named(std::string_view name);
std::string_view name_of(NumberScale scale);

struct TabularCode;

struct TabularOptions {
  std::string validation;       ///< another file to test on
  double held_out = 0.1;        ///< share of the file that is kept to test on (row_is_held_out)
  std::int64_t train_limit = 0; ///< at most that many rows (drawn_rows); 0: all
  std::int64_t test_limit = 0;
  bool header = true;          ///< the first row names the columns; otherwise they are called 1, 2, ...
  std::string label = "label"; ///< column
  std::string positive;        ///< the label that counts as 1, all others as 0; empty: there are two (see below)
  /// Columns with numbers and with categories: names and ranges "I1..I13" of columns side by side, separated by commas.
  /// Both empty: columns whose training values are all numbers are numbers, the others categories.
  std::string dense, categorical;
  NumberScale scale = NumberScale::log;
  std::int64_t min_count = 2; ///< categories in fewer training rows have no id of their own
  std::int64_t buckets = 0;   ///< ids of a categorical field by hashing; 0: an id for each category
  /// Columns, labels and their coding of another table instead: label to buckets are not looked at then.
  const TabularCode* like = nullptr;
  StopFlag stop = nullptr;
};

/// How the columns of a table become numbers and ids.
struct TabularCode {
  struct Numbers {
    std::string column;
    double mean = 0.0, deviation = 1.0; ///< after the logarithm, if there is one
  };
  struct Categories {
    std::string column;
    std::vector<std::string> values; ///< sorted; values[i] has id i + 1, every other one 0; empty with buckets
  };
  std::string label, negative, positive; ///< column; the two labels ("" for "any other")
  NumberScale scale = NumberScale::log;
  std::int64_t buckets = 0; ///< id: FNV-1a (64 bits) of the category, modulo this
  std::vector<Numbers> dense;
  std::vector<Categories> categorical;

  double number(std::size_t field, double value) const;
  std::int64_t id(std::size_t field, std::string_view value) const;
  /// How many ids each categorical field has.
  std::vector<std::int64_t> vocabularies() const;
  nlohmann::ordered_json json() const;
};
/// Reads what TabularCode::json() writes. Throws FileError, beginning with `source`, for anything else.
TabularCode tabular_code_of(const nlohmann::json& json, const std::string& source);

/// Rows as a TabularCode makes them.
struct TabularRows {
  std::string name;
  std::int64_t dense = 0, categorical = 0; ///< columns
  std::vector<double> numbers;             ///< [size, dense]
  std::vector<std::int64_t> ids;           ///< [size, categorical]
  std::vector<std::uint8_t> labels;        ///< 0 or 1

  std::int64_t size() const { return static_cast<std::int64_t>(labels.size()); }
  /// A batch. numbers [B, dense] and labels [B] are of `dtype`, ids [B, categorical] i64; undefined where there are no
  /// such columns.
  struct Batch {
    Tensor numbers, ids, labels;
  };
  Batch batch(std::span<const std::int64_t> places, DType dtype) const;
};

struct Tabular {
  TabularCode code;
  TabularRows train, test;
};

/// Reads a .csv or .tsv file (another ending: tabs, if the first line has one, else commas; .gz and .xz are unpacked),
/// or `criteo`: criteo/criteo_sample.txt in `data_dir` (empty: EQUIGRAD_DATA) with its label, I1..I13 and C1..C26. The
/// training rows alone decide which categories there are, how numbers are scaled, and which two labels: in the order of
/// their numbers or names the second one is 1. Throws FileError that names file and line for a row with another number
/// of columns, a number that is none, a label that the training rows lack; FileError or ValueError for columns that are
/// not there (with the nearest name) or have two roles, more than two labels without `positive`, and a part without
/// rows or with one label alone; Interrupted.
Tabular open_tabular(const std::string& name, const std::string& data_dir, const TabularOptions& options = {});

} // namespace eg::data
