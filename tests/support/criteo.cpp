#include "support/criteo.h"

#include "support/skip.h"

#include <cmath>
#include <fstream>
#include <limits>
#include <map>
#include <stdexcept>

namespace eg::test {
namespace {

std::vector<std::string> cells_of(const std::string& line) {
  std::vector<std::string> cells(1);
  for (const char c : line)
    if (c == ',')
      cells.emplace_back();
    else if (c != '\r')
      cells.back() += c;
  return cells;
}

/// NaN is not greater than 0.
double squashed(double x) { return x > 0.0 ? std::log1p(x) : 0.0; }

/// Mean and deviation of a column over some rows.
struct Scale {
  double mean = 0.0, deviation = 0.0;
};
Scale scale_of(const Criteo& table, const std::vector<std::size_t>& rows, std::size_t column) {
  Scale s;
  const auto n = static_cast<double>(rows.size());
  for (const std::size_t r : rows) s.mean += squashed(table.numbers[r][column]) / n;
  for (const std::size_t r : rows) s.deviation += std::pow(squashed(table.numbers[r][column]) - s.mean, 2) / n;
  s.deviation = std::sqrt(s.deviation) + 1e-9;
  return s;
}

CriteoRows rows_of(const Criteo& table, const std::vector<std::size_t>& rows,
                   const std::vector<std::map<std::string, std::int64_t>>& vocabularies,
                   const std::vector<Scale>& scales) {
  std::vector<std::int64_t> ids;
  std::vector<float> values, labels;
  for (const std::size_t r : rows) {
    for (std::size_t f = 0; f < 26; ++f) {
      const auto found = vocabularies[f].find(table.categories[r][f]);
      ids.push_back(found == vocabularies[f].end() ? 0 : found->second);
    }
    for (std::size_t i = 0; i < 13; ++i)
      values.push_back(static_cast<float>((squashed(table.numbers[r][i]) - scales[i].mean) / scales[i].deviation));
    labels.push_back(static_cast<float>(table.labels[r]));
  }
  const auto count = static_cast<std::int64_t>(rows.size());
  return {Tensor::from(ids, {count, 26}), Tensor::from(values, {count, 13}), Tensor::from(labels, {count})};
}

} // namespace

std::optional<Criteo> criteo_or_skip(const std::string& test) {
  const auto path = data_or_skip(test, "criteo/criteo_sample.txt");
  if (path.empty()) return std::nullopt;
  std::ifstream file(path);
  Criteo table;
  std::string line;
  std::getline(file, line); // header
  while (std::getline(file, line)) {
    const std::vector<std::string> cells = cells_of(line);
    if (cells.size() != 40) throw std::runtime_error("criteo_sample.txt: a row has not 40 columns: " + line);
    table.labels.push_back(std::stoi(cells[0]));
    auto& numbers = table.numbers.emplace_back();
    for (std::size_t i = 0; i < 13; ++i)
      numbers[i] = cells[1 + i].empty() ? std::numeric_limits<double>::quiet_NaN() : std::stod(cells[1 + i]);
    auto& categories = table.categories.emplace_back();
    for (std::size_t i = 0; i < 26; ++i) categories[i] = cells[14 + i];
  }
  return table;
}

CriteoSplit split_criteo(const Criteo& table, int fold, int folds) {
  std::vector<std::size_t> train, held_out;
  for (std::size_t r = 0; r < table.labels.size(); ++r)
    (static_cast<int>(r % static_cast<std::size_t>(folds)) == fold ? held_out : train).push_back(r);
  std::vector<std::map<std::string, std::int64_t>> vocabularies(26);
  CriteoSplit split;
  for (std::size_t f = 0; f < 26; ++f) {
    std::map<std::string, int> seen;
    for (const std::size_t r : train) ++seen[table.categories[r][f]];
    for (const auto& [word, times] : seen)
      if (times >= 5) vocabularies[f].emplace(word, static_cast<std::int64_t>(vocabularies[f].size()) + 1);
    split.vocabularies.push_back(static_cast<std::int64_t>(vocabularies[f].size()) + 1);
  }
  std::vector<Scale> scales;
  for (std::size_t i = 0; i < 13; ++i) scales.push_back(scale_of(table, train, i));
  split.train = rows_of(table, train, vocabularies, scales);
  split.held_out = rows_of(table, held_out, vocabularies, scales);
  return split;
}

} // namespace eg::test
