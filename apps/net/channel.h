#pragma once
// Declares a connection to the cloud.

#include "core/base/bytes.h"

#include <functional>
#include <memory>

namespace eg::net {

/// Frames out, frames in. Every wait has an end. After an error the channel is of no more use.
class Channel {
public:
  Channel() = default;
  virtual ~Channel() = default;
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

  /// Throws ConnectionError, TimeoutError.
  virtual void send(ByteView frame) = 0;
  /// The next frame, its header checked before its body is read. Throws ConnectionError, TimeoutError, ProtocolError.
  virtual Bytes receive() = 0;
};

/// Makes a connection. Throws ConnectionError, TimeoutError.
using Connect = std::function<std::unique_ptr<Channel>()>;

} // namespace eg::net
