#pragma once
// Loops over the channels (axis 1) of [N, C, ...], for batch_norm and its backward op.

#include "core/device/jobs.h"
#include "core/exact/exact.h"
#include "core/ops/layer_norm/kernels.h"
#include "core/ops/row_tools.h"
#include "core/threads/parallel.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

namespace eg::batch_norm_parts {

/// Extents of x [samples, channels, ...]: `inner` elements of one sample and channel are contiguous.
struct Channels {
  std::int64_t samples, channels, inner;

  explicit Channels(const Shape& shape) {
    const AxisSplit split = split_at(shape, 1);
    samples = split.outer;
    channels = split.extent;
    inner = split.inner;
  }
  /// Values of one channel.
  std::int64_t count() const { return samples * inner; }
};

/// run(first, last) for blocks of channels, on all threads. Blocks of 16, so that a block of [N, C] is a cache line.
template <class F> void for_each_block(const Channels& x, F&& run) {
  constexpr std::int64_t block = 16;
  parallel::for_each(parallel::chunks(x.channels, block), 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t b = begin; b < end; ++b) run(b * block, std::min((b + 1) * block, x.channels));
  });
}

/// visit(channel, begin) for every run of `inner` elements that belong to the channels [first, last), sample by sample.
template <class F> void for_each_run(const Channels& x, std::int64_t first, std::int64_t last, F&& visit) {
  for (std::int64_t n = 0; n < x.samples; ++n)
    for (std::int64_t c = first; c < last; ++c) visit(c, (n * x.channels + c) * x.inner);
}

/// Sums over the elements of each of the channels [first, last); if exact, so that their order cannot matter
/// (core/exact/exact.h).
class ChannelSums {
public:
  ChannelSums(const Channels& x, std::int64_t first, std::int64_t last, bool exact)
      : x_(x), first_(first), last_(last), exact_(exact) {}

  /// totals[c - first] = sum of f(c, i) over the elements i of channel c.
  template <class F> std::vector<double> of(F&& f) const {
    std::vector<double> totals(static_cast<std::size_t>(last_ - first_));
    if (exact_) {
      std::vector<double> terms;
      for (std::int64_t c = first_; c < last_; ++c) {
        terms.clear();
        for (std::int64_t n = 0; n < x_.samples; ++n)
          for (std::int64_t i = 0; i < x_.inner; ++i) terms.push_back(f(c, (n * x_.channels + c) * x_.inner + i));
        totals[static_cast<std::size_t>(c - first_)] = exact::sum(terms);
      }
      return totals;
    }
    for_each_run(x_, first_, last_, [&](std::int64_t c, std::int64_t begin) {
      totals[static_cast<std::size_t>(c - first_)] += run(c, begin, f);
    });
    return totals;
  }

private:
  /// In four interleaved sums: one would wait for itself.
  template <class F> double run(std::int64_t c, std::int64_t begin, F& f) const {
    double total[4] = {};
    std::int64_t i = 0;
    for (; i + 4 <= x_.inner; i += 4)
      for (std::int64_t lane = 0; lane < 4; ++lane) total[lane] += f(c, begin + i + lane);
    for (; i < x_.inner; ++i) total[0] += f(c, begin + i);
    return (total[0] + total[1]) + (total[2] + total[3]);
  }

  const Channels& x_;
  std::int64_t first_, last_;
  bool exact_;
};

/// Mean, variance (divided by the count) and sqrt(variance + eps) of the channels [first, last), added up in double, in
/// two passes.
template <class T> struct Statistics {
  std::vector<double> mean, variance, deviation;
  std::int64_t first;

  Statistics(const Channels& x, const ChannelSums& sums, const T* data, std::int64_t from, double eps) : first(from) {
    const auto count = static_cast<double>(x.count());
    mean = sums.of([&](std::int64_t, std::int64_t i) { return static_cast<double>(data[i]); });
    for (double& m : mean) m /= count;
    const double* const middle = mean.data();
    variance = sums.of([=](std::int64_t c, std::int64_t i) {
      const double centred = static_cast<double>(data[i]) - middle[c - from];
      return centred * centred;
    });
    for (double& v : variance) v /= count;
    deviation.resize(mean.size());
    std::transform(variance.begin(), variance.end(), deviation.begin(), [=](double v) { return std::sqrt(v + eps); });
    if (std::any_of(variance.begin(), variance.end(), [=](double v) { return !norm_kernels::keeps_digits(v + eps); }))
      take_scaled(x, sums, data, eps);
  }
  std::size_t at(std::int64_t channel) const { return static_cast<std::size_t>(channel - first); }

private:
  /// Exponents of the largest |x| of each channel whose squares left the range of double, 0 for the others.
  std::vector<int> extreme_exponents(const Channels& x, const T* data, double eps) const {
    std::vector<double> largest(mean.size());
    for_each_run(x, first, first + static_cast<std::int64_t>(mean.size()), [&](std::int64_t c, std::int64_t begin) {
      for (std::int64_t i = begin; i < begin + x.inner; ++i)
        largest[at(c)] = std::max(largest[at(c)], std::abs(static_cast<double>(data[i])));
    });
    std::vector<int> exponents(mean.size());
    for (std::size_t c = 0; c < mean.size(); ++c)
      if (!norm_kernels::keeps_digits(variance[c] + eps) && std::isfinite(largest[c]) && largest[c] > 0)
        exponents[c] = std::max(std::ilogb(largest[c]), -500); // eps 2^1000 is a number
    return exponents;
  }

  /// The same once more for these channels, with x divided by a power of two near its largest element.
  void take_scaled(const Channels& x, const ChannelSums& sums, const T* data, double eps) {
    const std::vector<int> exponents = extreme_exponents(x, data, eps);
    const auto count = static_cast<double>(x.count());
    const auto element = [&](std::int64_t c, std::int64_t i) {
      return std::ldexp(static_cast<double>(data[i]), -exponents[at(c)]);
    };
    std::vector<double> middle = sums.of(element);
    for (double& m : middle) m /= count;
    std::vector<double> squares = sums.of([&](std::int64_t c, std::int64_t i) {
      const double centred = element(c, i) - middle[at(c)];
      return centred * centred;
    });
    for (std::size_t c = 0; c < mean.size(); ++c) {
      const int e = exponents[c];
      if (e == 0) continue;
      squares[c] /= count;
      mean[c] = std::ldexp(middle[c], e);
      variance[c] = std::ldexp(squares[c], 2 * e);
      deviation[c] = std::ldexp(std::sqrt(squares[c] + std::ldexp(eps, -2 * e)), e);
    }
  }
};

/// The extents of x (input 0) and eps; the rest is null.
device::BatchNormJob device_job(const OpArgs& args);

/// Checks x [N, C, ...] (input 0, with values in every channel), the parameters [C] among `parameters`, and eps.
void check(const OpArgs& args, std::initializer_list<std::size_t> parameters);

} // namespace eg::batch_norm_parts
