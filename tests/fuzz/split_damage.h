#pragma once
// Messages of every kind, damaged at random, through both targets of split_targets.h.

#include "fuzz/damage.h"
#include "fuzz/split_targets.h"

#include <vector>

namespace eg::fuzz {

/// One row of damaged requests to a cloud, each through the parser too. Throws for a finding.
inline void one_damaged_round(RandomStream& random) {
  static const std::vector<Bytes> samples = split_samples();
  const Bytes row = damaged_row(samples, random);
  each_frame(row, [](const Bytes& frame) { split_message(frame); });
  split_service(row);
}

} // namespace eg::fuzz
