#pragma once
// Finds the places that one output of a pooling covers along one axis, for the host and for device kernels.

#include "core/device/qualifiers.h"
#include "core/ops/pool/device_job.h"
#include "core/ops/reduce/chains.h"

#include <cstdint>

namespace eg::pool {

/// The places begin, begin + dilation, ... below end, all in the image; the mean divides by both axes' divisors.
struct Bin {
  std::int64_t begin, end;
  double divisor;
};

EG_DEVICE_FUNCTION inline Bin bin_of(const BinRule& rule, std::int64_t i) {
  Bin bin{};
  if (rule.adaptive) {
    bin.begin = i * rule.extent / rule.count;
    bin.end = ((i + 1) * rule.extent + rule.count - 1) / rule.count;
    bin.divisor = static_cast<double>(bin.end - bin.begin);
    return bin;
  }
  const std::int64_t first = i * rule.stride - rule.padding;
  const std::int64_t skipped = first < 0 ? (-first + rule.dilation - 1) / rule.dilation : 0;
  const std::int64_t behind = first + rule.dilation * (rule.kernel - 1) + 1;
  const std::int64_t padded = first + rule.kernel, room = rule.extent + rule.padding;
  bin.begin = first + skipped * rule.dilation;
  bin.end = behind < rule.extent ? behind : rule.extent;
  const std::int64_t elements = rule.count_include_pad ? (padded < room ? padded : room) - first : bin.end - bin.begin;
  bin.divisor = rule.fixed != 0 ? rule.fixed : static_cast<double>(elements);
  return bin;
}

/// Whether a mean adds up its bins by sum_of_rows: they are whole rows, of 8 elements on average.
EG_DEVICE_FUNCTION inline bool sums_rows(const BinRule& rows, const BinRule& columns) {
  if (columns.count != 1) return false;
  const Bin bin = bin_of(columns, 0);
  return bin.begin == 0 && bin.end == columns.extent && rows.extent * columns.extent >= 8 * rows.count;
}

/// x[k] in double.
template <class T> struct Widened {
  const T* x;
  EG_DEVICE_FUNCTION double operator()(std::int64_t k) const { return static_cast<double>(x[k]); }
};

/// The sum of rows begin ... end - 1 of a plane, whose elements follow each other, in eight chains.
template <class T>
EG_DEVICE_FUNCTION inline double sum_of_rows(const T* plane, std::int64_t begin, std::int64_t end, std::int64_t width) {
  return reduce::chains_sum(begin * width, end * width, Widened<T>{plane});
}

} // namespace eg::pool
