#include "permute/recovery/assignment.h"

#include "core/call.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <limits>
#include <numeric>
#include <vector>

namespace eg::permute {
namespace {

constexpr double infinite_cost = std::numeric_limits<double>::infinity();
constexpr std::size_t nobody = std::numeric_limits<std::size_t>::max();

/// Costs to be minimised, rows <= columns.
struct Costs {
  std::vector<double> at;
  std::size_t rows = 0;
  std::size_t columns = 0;
  bool transposed = false;
};

/// Checks and prepares: negated for a maximum, transposed when tall, scaled down where differences could overflow.
Costs costs_of(const Tensor& cost, bool maximize) {
  if (!is_floating(cost.dtype()))
    throw DTypeError(fmt::format("hungarian: cost must be f32 or f64, it is {}", name_of(cost.dtype())));
  if (cost.rank() != 2) throw ShapeError(fmt::format("hungarian: cost must be [N, M], it is {}", cost.shape().str()));
  const PauseRecording pause;
  Costs c;
  c.transposed = cost.size(0) > cost.size(1);
  const Tensor wide = c.transposed ? cost.transpose() : cost;
  c.rows = static_cast<std::size_t>(wide.size(0));
  c.columns = static_cast<std::size_t>(wide.size(1));
  c.at = wide.to(DType::f64).to_vector<double>();
  double largest = 0;
  for (double& value : c.at) {
    if (maximize) value = -value;
    if (std::isnan(value)) throw ValueError("hungarian: a cost is NaN");
    if (value == -infinite_cost)
      throw ValueError(fmt::format("hungarian: a cost is {}inf; only {}inf may forbid a pair", maximize ? "" : "-",
                                   maximize ? "-" : ""));
    if (value != infinite_cost) largest = std::max(largest, std::abs(value));
  }
  if (largest > 1e290)
    for (double& value : c.at) value = std::ldexp(value, -64);
  return c;
}

/// Rows are added one by one; each time the shortest path (in reduced costs) to a free column is found and the pairs
/// along it change over.
class Matching {
public:
  explicit Matching(const Costs& costs)
      : costs_(costs), row_price_(costs.rows), column_price_(costs.columns), row_of_(costs.columns, nobody),
        column_of_(costs.rows, nobody), distance_(costs.columns), came_from_(costs.columns), open_(costs.columns) {}

  /// Throws ValueError when no free column can be reached.
  void add(std::size_t row) {
    std::fill(distance_.begin(), distance_.end(), infinite_cost);
    std::iota(open_.begin(), open_.end(), std::size_t{0});
    open_count_ = costs_.columns;
    double length = 0;
    std::size_t column = nobody;
    for (std::size_t at = row;; at = row_of_[column]) {
      relax(at, length);
      column = take_nearest();
      length = distance_[column];
      if (length == infinite_cost)
        throw ValueError("hungarian: the forbidden pairs leave no assignment of every row or column");
      if (row_of_[column] == nobody) break;
    }
    update_prices(row, length);
    change_over(row, column);
  }

  std::size_t column_of(std::size_t row) const { return column_of_[row]; }

private:
  /// Paths through `row`, which is `length` away.
  void relax(std::size_t row, double length) {
    const double* cost = costs_.at.data() + row * costs_.columns;
    for (std::size_t k = 0; k < open_count_; ++k) {
      const std::size_t column = open_[k];
      const double reached = length + (cost[column] - row_price_[row] - column_price_[column]);
      if (reached < distance_[column]) {
        distance_[column] = reached;
        came_from_[column] = row;
      }
    }
  }

  /// The open column at the least distance, a free one of equals; it is closed: it moves behind open_count_.
  std::size_t take_nearest() {
    std::size_t best = 0;
    for (std::size_t k = 1; k < open_count_; ++k) {
      const double here = distance_[open_[k]];
      const double least = distance_[open_[best]];
      if (here < least || (here == least && row_of_[open_[k]] == nobody && row_of_[open_[best]] != nobody)) best = k;
    }
    --open_count_;
    std::swap(open_[best], open_[open_count_]);
    return open_[open_count_];
  }

  /// Reduced costs stay non-negative, and 0 along the path.
  void update_prices(std::size_t row, double length) {
    row_price_[row] += length;
    for (std::size_t k = open_count_ + 1; k < costs_.columns; ++k) { // the closed ones, without the last
      const std::size_t column = open_[k];
      const double gap = length - distance_[column];
      row_price_[row_of_[column]] += gap;
      column_price_[column] -= gap;
    }
  }

  void change_over(std::size_t row, std::size_t column) {
    while (true) {
      const std::size_t owner = came_from_[column];
      row_of_[column] = owner;
      std::swap(column_of_[owner], column);
      if (owner == row) return;
    }
  }

  const Costs& costs_;
  std::vector<double> row_price_;
  std::vector<double> column_price_;
  std::vector<std::size_t> row_of_;
  std::vector<std::size_t> column_of_;
  std::vector<double> distance_;
  std::vector<std::size_t> came_from_;
  std::vector<std::size_t> open_; // columns not yet closed, then the closed ones, the last closed first
  std::size_t open_count_ = 0;
};

} // namespace

Assignment hungarian(const Tensor& cost, bool maximize) {
  const Costs costs = costs_of(cost, maximize);
  Matching matching(costs);
  for (std::size_t row = 0; row < costs.rows; ++row) matching.add(row);
  std::vector<std::pair<std::int64_t, std::int64_t>> pairs;
  for (std::size_t row = 0; row < costs.rows; ++row) {
    const auto r = static_cast<std::int64_t>(row);
    const auto c = static_cast<std::int64_t>(matching.column_of(row));
    pairs.emplace_back(costs.transposed ? c : r, costs.transposed ? r : c);
  }
  std::sort(pairs.begin(), pairs.end());
  std::vector<std::int64_t> rows;
  std::vector<std::int64_t> columns;
  for (const auto& [r, c] : pairs) {
    rows.push_back(r);
    columns.push_back(c);
  }
  const Shape shape{static_cast<std::int64_t>(pairs.size())};
  return {Tensor::from(rows, shape), Tensor::from(columns, shape)};
}

} // namespace eg::permute
