#pragma once
// Encodes and decodes messages as bytes. Little-endian; README.md has the layout.

#include "apps/net/message.h"
#include "core/base/bytes.h"

#include <array>
#include <cstddef>
#include <cstdint>

namespace eg::net {

inline constexpr std::uint16_t protocol_version = 1;
inline constexpr std::size_t header_bytes = 16;
using HeaderBytes = std::array<std::uint8_t, header_bytes>;

/// What is taken from a peer.
struct FrameLimits {
  std::uint64_t body = std::uint64_t{256} << 20; ///< bytes behind the header
  std::uint32_t text = 1 << 16;
};
/// Bytes of a body with one tensor beside its elements, at most.
inline constexpr std::uint64_t frame_overhead = 128;
/// Before a peer has opened a run it sends nothing large.
inline constexpr FrameLimits limits_before_open{.body = 1 << 17, .text = 1 << 16};

struct FrameHeader {
  MessageKind kind{};
  std::uint64_t body = 0; ///< bytes that follow
};

/// Reads a header. Throws ProtocolError: malformed when the bytes are of something else, version, too_large when the
/// body is beyond limits.body.
FrameHeader parse_header(ByteView bytes, const FrameLimits& limits);

/// Reads a body. Takes memory for what the bytes hold and no more. Throws ProtocolError (malformed, too_large).
Message parse_body(const FrameHeader& header, ByteView body, const FrameLimits& limits);

/// A whole frame. Throws as the two do.
Message parse_frame(ByteView frame, const FrameLimits& limits);

/// The message as a frame. Throws ProtocolError as check_form does: what is sent has the right form too.
Bytes frame_of(const Message& message);

} // namespace eg::net
