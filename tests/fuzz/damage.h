#pragma once
// Frames damaged at random, and rows of them as the services' targets read them.

#include "apps/net/wire.h"
#include "core/random.h"

#include <algorithm>
#include <cstring>
#include <vector>

namespace eg::fuzz {

/// Up to four changes: a byte set, a bit turned, bytes cut off or put in.
inline Bytes damaged(Bytes bytes, RandomStream& random) {
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

/// Up to six damaged samples, each behind its length of two bytes, which is even: whole frames.
inline Bytes damaged_row(const std::vector<Bytes>& samples, RandomStream& random) {
  Bytes row;
  for (std::uint64_t count = 1 + random.below(6); count > 0; --count) {
    Bytes frame = damaged(samples[static_cast<std::size_t>(random.below(samples.size()))], random);
    if (frame.size() % 2 == 1) frame.push_back(0);
    row.push_back(static_cast<std::uint8_t>(frame.size()));
    row.push_back(static_cast<std::uint8_t>(frame.size() >> 8U));
    row.insert(row.end(), frame.begin(), frame.end());
  }
  return row;
}

/// A frame of a kind and a body, right in everything else.
inline Bytes headed(ByteView kind_and_body) {
  Bytes frame = net::frame_of({.kind = net::MessageKind::done});
  frame.resize(net::header_bytes);
  frame[6] = static_cast<std::uint8_t>(kind_and_body[0] % 16);
  const std::uint64_t body = kind_and_body.size() - 1;
  std::memcpy(frame.data() + 8, &body, sizeof body);
  frame.insert(frame.end(), kind_and_body.begin() + 1, kind_and_body.end());
  return frame;
}

/// Calls handle(frame) for each frame of such a row. Behind an odd length there are kind and body alone.
template <class Handle> void each_frame(ByteView bytes, Handle&& handle) {
  while (bytes.size() >= 3) {
    const std::size_t length = bytes[0] + 256U * bytes[1];
    const ByteView part = bytes.subspan(2, std::min(length, bytes.size() - 2));
    bytes = bytes.subspan(2 + part.size());
    handle(length % 2 == 1 && !part.empty() ? headed(part) : Bytes(part.begin(), part.end()));
  }
}

} // namespace eg::fuzz
