#pragma once
// Compares runs: curves, numbers, options.

#include "apps/report/page.h"
#include "apps/report/pages/run_folder.h"

#include <vector>

namespace eg::pages {

/// A curve in at most `points` points, each the mean of as many neighbouring values (the last of fewer), at the place
/// of the last of them. Throws ValueError unless `points` is positive.
Curve smoothed(const Curve& curve, std::size_t points);

/// A row a run: model, data, steps, losses, accuracy, speed.
void add_numbers(report::Page& page, const std::vector<RunFolder>& runs);
/// Loss, accuracy and what else was measured, over steps and over seconds.
void add_curves(report::Page& page, const std::vector<RunFolder>& runs);
/// A column a run: the options that differ, and folded up those that are the same.
void add_options(report::Page& page, const std::vector<RunFolder>& runs);

} // namespace eg::pages
