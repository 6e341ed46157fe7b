#pragma once
// Writes the page of `equigrad verify --report`: what was measured, identity by identity, and figures of it.

#include "apps/report/gradient_figures.h"
#include "apps/report/pages/axis_diagram.h"
#include "permute/catalogue/catalogue.h"

#include <atomic>
#include <string>
#include <vector>

namespace eg::report {

struct TheoremReportOptions {
  std::uint64_t seed = 1;
  std::string data = "shapes"; ///< images of the figures: a name for data::open_dataset
  std::string data_dir;
  std::string model; ///< the folder whose blocks were checked; empty: the catalogue's random ones
  /// Groups of that model's axes and what the figure shows; empty: those of a ViT of one block.
  SymmetryDiagram axes = {};
  std::string axes_caption = {};
  ProgressCallback on_progress; ///< may be empty
  const std::atomic<bool>* stop = nullptr;
};

/// Summary, cards and figures. Computes the figures, in seconds. Throws ValueError without results, what VitTrainer
/// throws for the data, Interrupted, and what `on_progress` throws.
Page theorem_report(const std::vector<permute::VerifyResult>& results, const TheoremReportOptions& options);

} // namespace eg::report
