#pragma once
// What the programs of these pages share: small arrays for plain loops, the library's side, and what they print.

#include <equigrad/equigrad.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace page {

using Index = std::int64_t;
using Order = std::vector<Index>;

/// Numbers with indices: a(i, j). Row-major, all zero at first.
class Array {
public:
  Array() = default;
  explicit Array(std::vector<Index> extents, std::vector<double> values = {})
      : extents_(std::move(extents)), values_(std::move(values)) {
    Index count = 1;
    for (const Index n : extents_) count *= n;
    values_.resize(static_cast<std::size_t>(count));
  }
  explicit Array(const eg::Tensor& tensor) {
    const eg::Tensor packed = eg::contiguous(eg::cast(tensor, eg::DType::f64));
    for (int axis = 0; axis < packed.rank(); ++axis) extents_.push_back(packed.size(axis));
    const double* from = packed.data<double>();
    values_.assign(from, from + packed.numel());
  }

  template <class... I> double& operator()(I... indices) { return values_[place({indices...})]; }
  template <class... I> double operator()(I... indices) const { return values_[place({indices...})]; }

  Index extent(std::size_t axis) const { return extents_[axis]; }
  const std::vector<Index>& extents() const { return extents_; }
  const std::vector<double>& values() const { return values_; }
  std::vector<double>& values() { return values_; }

  eg::Tensor tensor() const {
    return eg::Tensor::from(std::span<const double>(values_), eg::Shape(std::span<const Index>(extents_)));
  }

private:
  std::size_t place(std::initializer_list<Index> indices) const {
    Index at = 0;
    std::size_t axis = 0;
    for (const Index i : indices) at = at * extents_[axis++] + i;
    return static_cast<std::size_t>(at);
  }

  std::vector<Index> extents_;
  std::vector<double> values_;
};

/// Normally distributed numbers that no other call gives; page.py draws the same ones.
inline Array normal(std::vector<Index> extents) {
  static std::uint64_t draws = 0;
  const eg::Shape shape{std::span<const Index>(extents)};
  return Array(eg::random_normal(shape, {.seed = 1, .stream = ++draws}, 0.0, 1.0, eg::DType::f64));
}

/// Columns (the last axis) in another order: column j of the result is column order[j] of a.
inline Array columns(const Array& a, const Order& order) {
  Array moved(a.extents());
  const std::size_t n = order.size();
  for (std::size_t at = 0; at < a.values().size(); ++at)
    moved.values()[at] = a.values()[at - at % n + static_cast<std::size_t>(order[at % n])];
  return moved;
}
/// Rows (the first axis) in another order, or some of them: row i of the result is row order[i] of a.
inline Array rows(const Array& a, const Order& order) {
  std::vector<Index> extents = a.extents();
  const std::size_t width = a.values().size() / static_cast<std::size_t>(extents[0]);
  extents[0] = static_cast<Index>(order.size());
  Array moved(extents);
  for (std::size_t at = 0; at < moved.values().size(); ++at)
    moved.values()[at] = a.values()[static_cast<std::size_t>(order[at / width]) * width + at % width];
  return moved;
}
inline double sum(const Array& a) { return std::accumulate(a.values().begin(), a.values().end(), 0.0); }

/// What the library computes: outputs of a function and the gradients of sum(g * first output) by its inputs.
struct Library {
  Array y;
  std::vector<Array> gradients;
};
template <class F> Library library(F&& function, const std::vector<Array>& inputs, const Array& g) {
  std::vector<eg::Tensor> x;
  for (const Array& input : inputs) x.push_back(input.tensor());
  eg::Tape tape;
  const eg::Tensor y = function(std::as_const(x));
  Library result{Array(y), {}};
  for (const eg::Tensor& gradient : tape.gradient(y, x, g.tensor())) result.gradients.emplace_back(gradient);
  return result;
}

inline bool& all_as_they_must() {
  static bool good = true;
  return good;
}

/// A number with four digits behind the point, and no sign before a zero.
inline std::string number(double value) {
  char text[64];
  std::snprintf(text, sizeof text, "%.4f", value);
  return std::string(text) == "-0.0000" ? "0.0000" : text;
}

/// Prints a name and its numbers, a line for each row.
inline void show(const char* name, const Array& a) {
  const std::size_t width = a.extents().empty() ? 1 : static_cast<std::size_t>(a.extents().back());
  std::printf("%s =\n", name);
  for (std::size_t at = 0; at < a.values().size(); ++at)
    std::printf("%9s%s", number(a.values()[at]).c_str(), (at + 1) % width == 0 ? "\n" : "");
}
inline void show(const char* name, double value) { std::printf("%s = %s\n", name, number(value).c_str()); }

/// The largest difference, relative to the largest number.
inline double error(const Array& a, const Array& b) {
  if (a.extents() != b.extents()) return 1.0;
  double difference = 0, size = 1e-300;
  for (std::size_t at = 0; at < a.values().size(); ++at) {
    difference = std::max(difference, std::abs(a.values()[at] - b.values()[at]));
    size = std::max({size, std::abs(a.values()[at]), std::abs(b.values()[at])});
  }
  return difference / size;
}

inline void say(const char* what, bool good, const char* yes, const char* no) {
  std::printf("%s: %s\n", what, good ? yes : no);
  all_as_they_must() = all_as_they_must() && good;
}
/// `a` is to equal `b`.
inline void holds(const char* what, const Array& a, const Array& b) {
  say(what, error(a, b) <= 1e-12, "holds to 1e-12", "FAILS");
}
/// A control: `a` must differ from `b`.
inline void fails(const char* what, const Array& a, const Array& b) {
  say(what, error(a, b) > 1e-3, "fails, as it must", "HOLDS, and must not");
}

/// A statement that is to be true.
inline void check(const char* what, bool good) { say(what, good, "yes", "NO"); }

/// The exit code.
inline int verdict() { return all_as_they_must() ? 0 : 1; }

} // namespace page
