#include "apps/report/pages/scores.h"

#include "core/base/error.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace eg::pages {
namespace {

/// Places of the values, the least first.
std::vector<std::size_t> ascending(const std::vector<double>& values) {
  std::vector<std::size_t> places(values.size());
  std::iota(places.begin(), places.end(), std::size_t{0});
  std::stable_sort(places.begin(), places.end(), [&](std::size_t a, std::size_t b) { return values[a] < values[b]; });
  return places;
}

} // namespace

RocCurve roc_curve(const std::vector<double>& scores, const std::vector<std::uint8_t>& labels) {
  const auto positives = static_cast<double>(std::count(labels.begin(), labels.end(), std::uint8_t{1}));
  const double negatives = static_cast<double>(labels.size()) - positives;
  if (scores.size() != labels.size()) throw ValueError("roc_curve: there must be a label for every score");
  if (positives == 0.0 || negatives == 0.0) throw ValueError("roc_curve: both labels must be there");
  RocCurve curve{{0.0}, {0.0}};
  double hits = 0.0, alarms = 0.0;
  const std::vector<std::size_t> order = ascending(scores);
  for (std::size_t i = order.size(); i-- > 0;) {
    (labels[order[i]] == 1 ? hits : alarms) += 1.0;
    if (i > 0 && scores[order[i]] == scores[order[i - 1]]) continue; // one threshold takes equal scores together
    curve.false_positive.push_back(alarms / negatives);
    curve.true_positive.push_back(hits / positives);
  }
  return curve;
}

Calibration calibration(const std::vector<double>& probabilities, const std::vector<std::uint8_t>& labels,
                        std::size_t bins) {
  if (probabilities.size() != labels.size())
    throw ValueError("calibration: there must be a label for every probability");
  if (bins == 0 || labels.empty()) throw ValueError("calibration: there must be samples and bins");
  const std::vector<std::size_t> order = ascending(probabilities);
  const auto all = static_cast<double>(order.size());
  Calibration found;
  for (std::size_t bin = 0, at = 0; at < order.size(); ++bin) {
    std::size_t end = std::max(at + 1, (bin + 1) * order.size() / bins);
    while (end < order.size() && probabilities[order[end]] == probabilities[order[end - 1]]) ++end;
    CalibrationBin b;
    for (; at < end; ++at) {
      const double p = probabilities[order[at]], label = labels[order[at]];
      b.said += p;
      b.true_share += label;
      ++b.samples;
      found.brier += (p - label) * (p - label) / all;
    }
    b.said /= static_cast<double>(b.samples);
    b.true_share /= static_cast<double>(b.samples);
    found.expected_error += std::abs(b.said - b.true_share) * static_cast<double>(b.samples) / all;
    found.bins.push_back(b);
  }
  return found;
}

} // namespace eg::pages
