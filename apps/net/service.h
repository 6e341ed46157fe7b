#pragma once
// Declares services, which answer requests, and their peers. Knows no sockets.

#include "apps/net/wire.h"
#include "core/base/function_ref.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>

namespace eg::net {

/// One connection, as a service sees it: the peer's name, and what it has opened there.
struct Peer {
  std::string name;         ///< from its certificate
  std::string opened = {};  ///< the run or the session that it opened; "": none yet
  std::uint64_t number = 0; ///< of the connection
};

/// A frame that waits for its answer. A peer has one at most.
struct Request {
  Peer* peer;
  ByteView frame;
};

/// Answers frames with frames. All calls but limits() on one thread.
class Service {
public:
  Service() = default;
  virtual ~Service() = default;
  Service(const Service&) = delete;
  Service& operator=(const Service&) = delete;

  /// What may come from this peer next. Called on another thread, while the peer has no request that waits.
  virtual FrameLimits limits(const Peer& peer) const = 0;
  /// The answer to a frame. What the peer got wrong, what is too much and what this side cannot do becomes the answer
  /// `refused`; nothing of it is thrown.
  virtual Bytes handle(Peer& peer, ByteView frame) = 0;
  /// The same for all that wait: calls answer(i, frame) once for each. Here: one after another.
  virtual void handle_all(std::span<const Request> requests, FunctionRef<void(std::size_t, Bytes)> answer) {
    for (std::size_t i = 0; i < requests.size(); ++i) answer(i, handle(*requests[i].peer, requests[i].frame));
  }
  /// A connection has ended.
  virtual void leave(const Peer& peer) = 0;

  /// `report` receives, in words for this side's operator, what this side could not do: its files, its memory, its own
  /// faults. The peer learns only that it failed.
  void on_trouble(std::function<void(const std::string&)> report) { trouble_ = std::move(report); }

protected:
  /// What `work` gives; what it throws becomes a refusal of the request with that serial: ProtocolError with its code,
  /// missing memory no_room, FileError internal (paths are this side's own affair), other errors of the
  /// library wrong_tensor.
  Message refused_or(std::uint64_t serial, FunctionRef<Message()> work) const;
  /// The frame of an answer; of a refusal (no_room) where memory for it is missing.
  Bytes answer_frame(const Message& answer) const;
  /// Reports to this side's operator.
  void report_trouble(const std::string& words) const {
    if (trouble_) trouble_(words);
  }

private:
  Message own_failure(std::uint64_t serial, RefusalCode code, const char* what, const std::string& words) const;

  std::function<void(const std::string&)> trouble_;
};

/// `refused` with a code and words.
Message refusal(std::uint64_t serial, RefusalCode code, const std::string& words);

/// Throws ProtocolError (not_finite) that names the tensor when it holds a NaN or an infinity.
void require_finite(const Tensor& x, const char* what);

} // namespace eg::net
