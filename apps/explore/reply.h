#pragma once
// Collects an answer of the explorer: a JSON object, and beside it the numbers of its tensors.

#include "core/tensor.h"

#include <nlohmann/json.hpp>

#include <string>
#include <string_view>
#include <vector>

namespace eg::explore {

/// Tensors stand in the object as {"shape": [..], "at": first}, their elements row by row as f64 from `first` on in
/// `numbers`. So f32 and f64 tensors keep their bits.
class Reply {
public:
  nlohmann::json body = nlohmann::json::object();
  std::vector<double> numbers;

  /// Adds the tensor's elements and returns what stands for it in the object.
  nlohmann::json tensor(const Tensor& x);
  /// How far two tensors of one shape are apart: {"error": max |a - b| / max |b|, "differing": elements with other
  /// bits, "of": elements, "holds": error <= tolerance}. Numbers that are not finite
  /// hold for nothing, and their error is null.
  static nlohmann::json comparison(const Tensor& a, const Tensor& b, double tolerance);
};

/// Elements of two tensors of one shape that have other bits.
std::int64_t differing_bits(const Tensor& a, const Tensor& b);

/// A number for JSON: null where it is not finite.
nlohmann::json finite(double value);

/// How closely both sides of a theorem must agree on a page: 0 with exact sums, f64 1e-11, f32 1e-4.
double page_tolerance(DType dtype, bool exact);

} // namespace eg::explore
