#pragma once
// Turns the metrics of run folders into lines of an outcome's graphs.

#include "apps/report/chart.h"

#include <string>
#include <vector>

namespace eg::reproduce {

/// A metric of the tests in `folders` (one run a seed, tested at the same steps), its mean over them against the step;
/// "accuracy" in percent. `metric`: named as by training::each_metric with ".". Throws FileError.
report::Series mean_curve(const std::string& name, const std::vector<std::string>& folders, const std::string& metric);

} // namespace eg::reproduce
