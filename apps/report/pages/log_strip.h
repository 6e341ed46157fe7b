#pragma once
// Draws an error beside its tolerance and its negative control, on one logarithmic axis.

#include <string>
#include <vector>

namespace eg::report {

/// One line of a strip.
struct Measured {
  std::string label; ///< "f64"
  double error = 0.0;
  double tolerance = 0.0;
  double control = 0.0;
  double must_exceed = 0.0;
};

/// One <svg> element: for each line a green zone up to the tolerance, an orange one from where the control must be, a
/// dot for the error and a diamond for the control. The axis always runs from 1e-18 to 1e3, so that strips can be
/// compared; what is 0 is at its left end and what is beyond it, or not finite, at its right end. A mark in its zone
/// is filled, one outside is hollow, so that colour is not needed to distinguish them.
std::string log_strip(const std::vector<Measured>& lines);

} // namespace eg::report
