#pragma once
// Tabulates a classifier's predictions of test samples.

#include "apps/report/page.h"
#include "core/tensor.h"

#include <cstdint>
#include <string>
#include <vector>

namespace eg::pages {

struct Predictions {
  std::vector<std::string> classes = {};
  std::vector<std::int64_t> labels = {}, said = {}; ///< by sample
  std::vector<double> probability = {};             ///< of the prediction

  /// Adds the samples of a batch: logits [B, classes], labels [B].
  void add(const Tensor& logits, const Tensor& labels);
  std::int64_t size() const { return static_cast<std::int64_t>(labels.size()); }
  std::int64_t correct() const;
  bool right(std::size_t i) const { return labels[i] == said[i]; }
  const std::string& class_of(std::int64_t label) const { return classes.at(static_cast<std::size_t>(label)); }

  /// Up to `count` samples that were taken for another class, the surest first.
  std::vector<std::size_t> surest_mistakes(std::size_t count) const;
  /// Up to `count` samples spread evenly over all.
  std::vector<std::size_t> spread(std::size_t count) const;
  /// "said cat (93 %), is dog", or "cat (93 %)" where it is right.
  std::string caption(std::size_t i) const;
};

/// Rows: the classes, columns: the predictions, shaded by the share of the row.
void add_confusion(report::Page& page, const Predictions& predictions);
/// Of each class its number of samples, recall, precision, and
/// what it was taken for most often.
void add_classes(report::Page& page, const Predictions& predictions);

/// "12.5 %"; "" of nothing.
std::string percent(std::int64_t part, std::int64_t whole);

} // namespace eg::pages
