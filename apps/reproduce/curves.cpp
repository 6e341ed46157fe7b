#include "apps/reproduce/curves.h"

#include "apps/report/pages/run_folder.h"

#include <algorithm>

namespace eg::reproduce {

report::Series mean_curve(const std::string& name, const std::vector<std::string>& folders, const std::string& metric) {
  const double scale = (metric.ends_with("accuracy") ? 100.0 : 1.0) / static_cast<double>(folders.size());
  report::Series mean{.name = name, .dots = true};
  for (const std::string& folder : folders) {
    const pages::RunFolder run = pages::read_run(folder);
    const pages::Curve& curve = run.curve(data::Split::test, metric);
    if (mean.x.empty()) {
      mean.x = curve.step;
      mean.y.assign(curve.step.size(), 0.0);
    }
    // A run that skipped steps may have been tested less often.
    const std::size_t points = std::min(mean.x.size(), curve.value.size());
    mean.x.resize(points);
    mean.y.resize(points);
    for (std::size_t i = 0; i < points; ++i) mean.y[i] += scale * curve.value[i];
  }
  return mean;
}

} // namespace eg::reproduce
