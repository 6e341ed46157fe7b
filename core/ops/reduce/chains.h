#pragma once
// Adds up terms in eight chains, in one order on the host and on devices.

#include "core/device/qualifiers.h"

#include <cstdint>

namespace eg::reduce {

/// Sum of term(begin) ... term(end - 1): eight chains of additions side by side, which compilers turn into vectors.
/// Bound of its error: eps (n / 8 + 4) sum |term|, for n terms.
template <class Term>
EG_DEVICE_FUNCTION inline double chains_sum(std::int64_t begin, std::int64_t end, const Term& term) {
  constexpr std::int64_t chains = 8;
  double sums[chains] = {};
  std::int64_t i = begin;
  for (; i + chains <= end; i += chains)
    for (std::int64_t c = 0; c < chains; ++c) sums[c] += term(i + c);
  for (std::int64_t c = 0; i + c < end; ++c) sums[c] += term(i + c);
  return ((sums[0] + sums[4]) + (sums[2] + sums[6])) + ((sums[1] + sums[5]) + (sums[3] + sums[7]));
}

} // namespace eg::reduce
