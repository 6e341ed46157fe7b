#pragma once
// Writes one page that compares runs and shows what their models do.

#include "apps/report/page.h"
#include "apps/report/pages/figures.h"
#include "apps/report/pages/run_folder.h"

#include <string>
#include <vector>

namespace eg::pages {

struct RunsReport {
  report::Page page;
  /// Whose model could not be shown, and why, and what of a run was damaged; one sentence each. The page says it too.
  std::vector<std::string> notes;
};

/// Final numbers, curves, options, then model by model its figures (figures.h). Throws Interrupted.
RunsReport runs_report(const std::vector<RunFolder>& runs, const FigureOptions& options);

} // namespace eg::pages
