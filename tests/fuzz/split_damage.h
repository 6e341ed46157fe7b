#pragma once
// Messages of every kind, damaged at random, through both targets of split_targets.h.

#include "core/random.h"
#include "fuzz/split_targets.h"

#include <algorithm>
#include <vector>

namespace eg::fuzz {

/// Up to four changes: a byte set, a bit turned, bytes cut off or put in.
inline data::Bytes damaged(data::Bytes bytes, RandomStream& random) {
  for (std::uint64_t changes = random.below(5); changes > 0 && !bytes.empty(); --changes) {
    const auto at = static_cast<std::ptrdiff_t>(random.below(bytes.size()));
    const auto value = static_cast<std::uint8_t>(random.below(256));
    switch (random.below(4)) {
    case 0:
      bytes[static_cast<std::size_t>(at)] = value;
      break;
    case 1:
      bytes[static_cast<std::size_t>(at)] ^= static_cast<std::uint8_t>(1U << (value % 8U));
      break;
    case 2:
      bytes.erase(bytes.begin() + at, bytes.begin() + std::min<std::ptrdiff_t>(at + value, std::ssize(bytes)));
      break;
    default:
      bytes.insert(bytes.begin() + at, value % 9U, value);
    }
  }
  return bytes;
}

/// One row of damaged requests to a cloud, each through the parser too. Throws for a finding.
inline void one_damaged_round(RandomStream& random) {
  static const std::vector<data::Bytes> samples = split_samples();
  data::Bytes row;
  for (std::uint64_t count = 1 + random.below(6); count > 0; --count) {
    data::Bytes frame = damaged(samples[static_cast<std::size_t>(random.below(samples.size()))], random);
    split_message(frame);
    if (frame.size() % 2 == 1) frame.push_back(0);
    row.push_back(static_cast<std::uint8_t>(frame.size()));
    row.push_back(static_cast<std::uint8_t>(frame.size() >> 8U));
    row.insert(row.end(), frame.begin(), frame.end());
  }
  split_service(row);
}

} // namespace eg::fuzz
