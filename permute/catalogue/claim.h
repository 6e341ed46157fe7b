#pragma once
// Holds what a row of the catalogue computes: the two sides of its statement, and its negative control.

#include "core/tensor.h"

#include <limits>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace eg::permute {

/// One comparison: `value` is to equal `expected`.
struct Comparison {
  std::string what;
  Tensor value, expected;
  double scale = 0.0; ///< absolute difference over this instead of the largest |expected|, where that may be 0
  bool exact = false; ///< must have the same bits
  double error = std::numeric_limits<double>::quiet_NaN(); ///< once it was measured
};

/// Two sides of an identity, perhaps for several tensors, and its negative control.
struct Claim {
  std::vector<Comparison> holds;
  std::string control;
  std::vector<Comparison> fails;             ///< the largest error must exceed the control's bound
  bool compare_f64 = true;                   ///< in f32, also compare with the expected side computed in f64
  std::map<std::string, std::int64_t> sizes; ///< where they are not those of the options
  std::int64_t candidates = 0;               ///< tried in the search for counterexamples of a sharp statement

  void equal(std::string what, const Tensor& value, const Tensor& expected) {
    holds.push_back({std::move(what), value, expected, 0.0, false});
  }
  void equal_bits(std::string what, const Tensor& value, const Tensor& expected) {
    holds.push_back({std::move(what), value, expected, 0.0, true});
  }
  void zero(std::string what, const Tensor& value, double scale) {
    holds.push_back({std::move(what), value, Tensor::zeros(value.shape(), value.dtype()), scale, false});
  }
  void differs(std::string what, const Tensor& value, const Tensor& expected) {
    control = std::move(what);
    fails.push_back({control, value, expected, 0.0, false});
  }
};

} // namespace eg::permute
