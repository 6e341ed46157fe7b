#include "nn/metrics.h"

#include "core/device/device.h"
#include "core/device/transfer.h"
#include "core/ops/row_tools.h"
#include "core/strided.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

namespace eg::nn {
namespace {

void need_type(const char* function, const char* name, const Tensor& x, DType wanted) {
  if (x.dtype() != wanted)
    throw DTypeError(fmt::format("{}: {} must be {}, it is {}", function, name, name_of(wanted), name_of(x.dtype())));
}

void need_floating(const char* function, const char* name, const Tensor& x) {
  if (!is_floating(x.dtype()))
    throw DTypeError(fmt::format("{}: {} must be f32 or f64, it is {}", function, name, name_of(x.dtype())));
}

void need_range(const char* function, const char* name, std::int64_t value, std::int64_t place, std::int64_t classes) {
  if (value < 0 || value >= classes)
    throw IndexError(
        fmt::format("{}: {} is {} at position {}; it must be in [0, {})", function, name, value, place, classes));
}

/// True when fewer than k of the row come before its entry at `label`.
template <class T> bool among_best(const T* row, std::int64_t classes, std::int64_t label, std::int64_t k) {
  const T own = row[label];
  if (std::isnan(own)) return false;
  std::int64_t before = 0;
  for (std::int64_t c = 0; c < classes; ++c)
    if (std::isnan(row[c]) || row[c] > own || (row[c] == own && c < label)) ++before;
  return before < k;
}

} // namespace

std::int64_t count_in_top(const Tensor& logits, const Tensor& labels, std::int64_t k) {
  constexpr const char* name = "top_k_accuracy";
  need_floating(name, "logits", logits);
  need_type(name, "labels", labels, DType::i64);
  if (logits.rank() != 2 || labels.rank() != 1 || labels.size(0) != logits.size(0))
    throw ShapeError(fmt::format("{}: logits must be [N, C] and labels [N]: logits is {}, labels is {}", name,
                                 logits.shape().str(), labels.shape().str()));
  if (k < 1) throw ValueError(fmt::format("{}: k is {}; it must be positive", name, k));
  const std::int64_t count = logits.size(0);
  const std::int64_t classes = logits.size(1);
  const Tensor rows = device::on_cpu(packed(logits));
  const Tensor wanted = device::on_cpu(packed(labels));
  std::int64_t right = 0;
  visit_floating(rows.dtype(), [&]<class T>() {
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t label = wanted.data<std::int64_t>()[i];
      need_range(name, "label", label, i, classes);
      if (among_best(rows.data<T>() + i * classes, classes, label, k)) ++right;
    }
  });
  return right;
}

double top_k_accuracy(const Tensor& logits, const Tensor& labels, std::int64_t k) {
  const std::int64_t right = count_in_top(logits, labels, k);
  if (logits.size(0) == 0)
    throw ValueError(fmt::format("top_k_accuracy: there are no rows: logits is {}", logits.shape().str()));
  return static_cast<double>(right) / static_cast<double>(logits.size(0));
}

double auc(const Tensor& scores, const Tensor& labels) {
  need_floating("auc", "scores", scores);
  if (labels.dtype() != DType::boolean) need_type("auc", "labels", labels, DType::i64);
  if (scores.rank() != 1 || scores.shape() != labels.shape())
    throw ShapeError(fmt::format("auc: scores and labels must be [N]: scores is {}, labels is {}", scores.shape().str(),
                                 labels.shape().str()));
  struct Case {
    double score;
    bool positive;
  };
  std::vector<Case> cases;
  const PauseRecording pause;
  const std::vector<double> s = scores.to(DType::f64).to_vector<double>();
  const std::vector<std::int64_t> l = labels.to(DType::i64).to_vector<std::int64_t>();
  std::int64_t positives = 0;
  for (std::size_t i = 0; i < s.size(); ++i) {
    need_range("auc", "label", l[i], static_cast<std::int64_t>(i), 2);
    if (std::isnan(s[i])) throw ValueError(fmt::format("auc: the score at position {} is NaN", i));
    cases.push_back({s[i], l[i] == 1});
    positives += l[i];
  }
  const std::int64_t negatives = static_cast<std::int64_t>(cases.size()) - positives;
  if (positives == 0 || negatives == 0)
    throw ValueError(
        fmt::format("auc: all {} labels are {}; both classes must occur", cases.size(), positives == 0 ? 0 : 1));
  std::sort(cases.begin(), cases.end(), [](const Case& a, const Case& b) { return a.score < b.score; });
  std::int64_t twice_wins = 0; // 2 for a pair in the right order, 1 for a tie
  std::int64_t below = 0;      // negatives with a smaller score
  for (std::size_t first = 0; first < cases.size();) {
    std::int64_t with[2] = {0, 0}; // negatives and positives of this score
    std::size_t next = first;
    for (; next < cases.size() && cases[next].score == cases[first].score; ++next) ++with[cases[next].positive ? 1 : 0];
    twice_wins += with[1] * (2 * below + with[0]);
    below += with[0];
    first = next;
  }
  return static_cast<double>(twice_wins) / (2.0 * static_cast<double>(positives) * static_cast<double>(negatives));
}

Tensor confusion_matrix(const Tensor& predictions, const Tensor& labels, std::int64_t classes) {
  constexpr const char* name = "confusion_matrix";
  need_type(name, "predictions", predictions, DType::i64);
  need_type(name, "labels", labels, DType::i64);
  if (predictions.shape() != labels.shape())
    throw ShapeError(fmt::format("{}: shapes differ: predictions is {}, labels is {}", name, predictions.shape().str(),
                                 labels.shape().str()));
  if (classes < 1) throw ValueError(fmt::format("{}: classes is {}; it must be positive", name, classes));
  const DeviceScope here(Device::cpu()); // where the counts are made
  Tensor counts = Tensor::zeros({classes, classes}, DType::i64);
  std::int64_t* at = counts.mutable_data<std::int64_t>(name);
  const std::vector<std::int64_t> p = predictions.to_vector<std::int64_t>();
  const std::vector<std::int64_t> l = labels.to_vector<std::int64_t>();
  for (std::size_t i = 0; i < p.size(); ++i) {
    need_range(name, "prediction", p[i], static_cast<std::int64_t>(i), classes);
    need_range(name, "label", l[i], static_cast<std::int64_t>(i), classes);
    ++at[l[i] * classes + p[i]];
  }
  return counts;
}

} // namespace eg::nn
