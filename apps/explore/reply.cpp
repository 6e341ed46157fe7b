#include "apps/explore/reply.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace eg::explore {

using nlohmann::json;

json finite(double value) { return std::isfinite(value) ? json(value) : json(nullptr); }

json Reply::tensor(const Tensor& x) {
  json shape = json::array();
  for (int axis = 0; axis < x.rank(); ++axis) shape.push_back(x.size(axis));
  const std::size_t first = numbers.size();
  const std::vector<double> values = x.to(DType::f64).to_vector<double>();
  numbers.insert(numbers.end(), values.begin(), values.end());
  return {{"shape", std::move(shape)}, {"at", first}};
}

std::int64_t differing_bits(const Tensor& a, const Tensor& b) {
  const std::vector<double> left = a.to(DType::f64).to_vector<double>(), right = b.to(DType::f64).to_vector<double>();
  std::int64_t differing = 0;
  for (std::size_t i = 0; i < left.size(); ++i)
    differing += std::bit_cast<std::uint64_t>(left[i]) != std::bit_cast<std::uint64_t>(right[i]) ? 1 : 0;
  return differing;
}

json Reply::comparison(const Tensor& a, const Tensor& b, double tolerance) {
  const auto all_finite = [](const Tensor& x) {
    const std::vector<double> values = x.to(DType::f64).to_vector<double>();
    return std::all_of(values.begin(), values.end(), [](double value) { return std::isfinite(value); });
  };
  const double error = all_finite(a) && all_finite(b) ? relative_error(a, b) : std::numeric_limits<double>::quiet_NaN();
  return {
      {"error", finite(error)}, {"differing", differing_bits(a, b)}, {"of", a.numel()}, {"holds", error <= tolerance}};
}

double page_tolerance(DType dtype, bool exact) { return exact ? 0.0 : dtype == DType::f64 ? 1e-11 : 1e-4; }

} // namespace eg::explore
