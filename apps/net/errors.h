#pragma once
// Defines the errors of connections and refused messages.

#include "core/base/error.h"

#include <cstdint>
#include <string>
#include <string_view>

namespace eg::net {

/// The connection could not be made, was lost, or is not with whom it should be.
class ConnectionError : public Error {
public:
  using Error::Error;
};

/// The other side did not answer in time.
class TimeoutError : public ConnectionError {
public:
  using ConnectionError::ConnectionError;
};

/// One of the two certificates does not serve: to try again changes nothing.
class UntrustedError : public Error {
public:
  using Error::Error;
};

/// The other side is at capacity. The request was not served, and can be sent again.
class NoRoomError : public ConnectionError {
public:
  using ConnectionError::ConnectionError;
};

/// Why a message was refused. The numbers are on the wire.
enum class RefusalCode : std::uint16_t {
  version = 1,       ///< another version of the protocol
  malformed = 2,     ///< bytes that are not a message
  too_large = 3,     ///< beyond a limit, now and later
  unexpected = 4,    ///< a message out of place: no run is open, its weights are still missing
  unknown_run = 5,   ///< no such run of this peer
  run_exists = 6,    ///< a new run with the name of another
  other_recipe = 7,  ///< sizes or training options that are not the cloud's
  out_of_order = 8,  ///< a serial or step that is not the next one
  altered = 9,       ///< a serial again, with other content
  no_forward = 10,   ///< gradients of a step whose forward pass the cloud does not have
  wrong_tensor = 11, ///< name, shape or element type
  not_finite = 12,   ///< a NaN or an infinity
  no_checkpoint = 13,
  no_room = 14,  ///< memory, or the number of runs, now: later there may be
  replaced = 15, ///< another connection of the peer has taken the run over
  internal = 16,
  other_model = 17, ///< weights that are not those of the user's key
};
/// "out_of_order", ...
std::string_view name_of(RefusalCode code);

/// A message that was refused, here or by the other side.
class ProtocolError : public Error {
public:
  ProtocolError(RefusalCode code, const std::string& what) : Error(what), code_(code) {}
  RefusalCode code() const { return code_; }

private:
  RefusalCode code_;
};

} // namespace eg::net
