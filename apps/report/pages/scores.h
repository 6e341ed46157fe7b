#pragma once
// Measures how well scores separate two kinds of samples, and how well probabilities are calibrated.

#include <cstdint>
#include <utility>
#include <vector>

namespace eg::pages {

/// The points of the ROC curve from (0, 0) to (1, 1): the share of label 0 and of label 1 that scores at least a
/// threshold, for every threshold that the scores are. The area below its straight lines is eg::auc. Throws ValueError
/// when sizes differ or a label is missing.
struct RocCurve {
  std::vector<double> false_positive, true_positive;
};
RocCurve roc_curve(const std::vector<double>& scores, const std::vector<std::uint8_t>& labels);

/// Samples of about one probability: the mean prediction, and the share of label 1.
struct CalibrationBin {
  double said = 0.0, true_share = 0.0;
  std::int64_t samples = 0;
};
struct Calibration {
  std::vector<CalibrationBin> bins; ///< by rising probability, of about as many samples each
  double brier = 0.0;               ///< mean (p - label)^2 (Brier, Monthly Weather Review 78, 1950)
  double expected_error = 0.0;      ///< mean |predicted - true share| of the bins, by their samples
};
/// `probabilities` of label 1. Equal ones share a bin, so that there may be fewer than `bins`. Throws ValueError when
/// sizes differ or samples or bins are missing.
Calibration calibration(const std::vector<double>& probabilities, const std::vector<std::uint8_t>& labels,
                        std::size_t bins);

} // namespace eg::pages
