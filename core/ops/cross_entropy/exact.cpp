#include "core/ops/cross_entropy/exact.h"

#include "core/exact/elementary.h"
#include "core/exact/exact.h"
#include "core/ops/cross_entropy/kernels.h"
#include "core/ops/cross_entropy/parts.h"
#include "core/threads/parallel.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace eg {
namespace {

using namespace cross_entropy_parts;

/// log of the sum of these exp(x_j - largest), an exact sum; where one of them is all but everything, the others are
/// added without it.
double exact_log_total(std::vector<double>& terms) {
  const double total = exact::sum(terms);
  if (!(total <= 1.0 + 1.0 / 64)) return exact::log(total);
  *std::find(terms.begin(), terms.end(), 1.0) = 0.0;
  return exact::log1p(exact::sum(terms));
}

/// The mean of x_j - largest, an exact sum of differences, which keep their digits where all x are far from 0. Where
/// they leave the range of double, all are divided by a power of two first.
template <class T>
double exact_mean_below(const T* x, std::int64_t classes, double largest, std::vector<double>& terms) {
  const auto mean_of = [&](double unit) {
    terms.resize(static_cast<std::size_t>(classes));
    std::transform(x, x + classes, terms.begin(),
                   [&](T logit) { return static_cast<double>(logit) * unit - largest * unit; });
    return exact::sum(terms) / static_cast<double>(classes);
  };
  const double mean = mean_of(1.0);
  if (std::isfinite(mean)) return mean;
  const int exponent = std::ilogb(static_cast<double>(classes)) + 2;
  return std::ldexp(mean_of(std::ldexp(1.0, -exponent)), exponent);
}

/// Loss and log sum exp of one row in double, with exact sums; terms is scratch.
template <class T> struct ExactRow {
  std::vector<double> terms;

  cross_entropy_kernels::RowLoss<double> operator()(const T* x, std::int64_t classes, std::int64_t label, double s) {
    const double largest = static_cast<double>(*std::max_element(x, x + classes));
    const double mean_below = s > 0.0 ? exact_mean_below(x, classes, largest, terms) : 0.0;
    terms.assign(x, x + classes);
    for (double& t : terms) t = exact::exp(t - largest);
    const double log_total = exact_log_total(terms);
    const double smooth = s > 0.0 ? s * (log_total - mean_below) : 0.0;
    return {(1.0 - s) * (log_total - (static_cast<double>(x[label]) - largest)) + smooth, largest, log_total};
  }
};

template <class T> void forward_as(const OpArgs& args, std::span<Tensor> out) {
  const Settings s = settings(args);
  const std::vector<std::int64_t> labels = checked_labels(args, s);
  const Tensor logits = packed(args.in[0]);
  const T* const x = logits.data<T>();
  T* const largest = out[1].mutable_data<T>("cross_entropy");
  T* const log_total = out[2].mutable_data<T>("cross_entropy");
  std::vector<double> losses(labels.size());
  const std::int64_t grain = parallel::grain_for_bytes(s.classes * 32);
  parallel::for_each(s.rows, grain, [&](std::int64_t begin, std::int64_t end) {
    ExactRow<T> row;
    for (std::int64_t r = begin; r < end; ++r) {
      const std::int64_t label = labels[static_cast<std::size_t>(r)];
      cross_entropy_kernels::RowLoss<double> found{0, 0, 0};
      if (label != s.ignore) found = row(x + r * s.classes, s.classes, label, s.smoothing);
      losses[static_cast<std::size_t>(r)] = found.loss;
      largest[r] = static_cast<T>(found.largest);
      log_total[r] = static_cast<T>(found.log_total);
    }
  });
  T* const loss = out[0].mutable_data<T>("cross_entropy");
  if (s.joined == Joined::none)
    std::transform(losses.begin(), losses.end(), loss, [](double l) { return static_cast<T>(l); });
  else
    *loss = static_cast<T>(
        joined_losses(losses, row_factor(labels, s), [](const std::vector<double>& rows) { return exact::sum(rows); }));
}

} // namespace

void cross_entropy_exact::forward(const OpArgs& args, std::span<Tensor> out) {
  visit_floating(out[0].dtype(), [&]<class T>() { forward_as<T>(args, out); });
}

} // namespace eg
