#pragma once
// Declares how messages go between processes: what a Communicator stands on.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

namespace eg::distributed {

/// Messages between `size` processes. Messages of one process to another arrive in the order in which they were sent.
/// One thread uses it. All functions throw DistributedError.
class Transport {
public:
  /// A message on its way. One that is destroyed before it is done leaves its bytes in the transport's hands.
  class Request {
  public:
    virtual ~Request() = default;
    virtual bool done() = 0;
  };
  /// The next message of a process, not received yet.
  struct Arrival {
    int tag = 0;
    std::int64_t bytes = 0;
    std::shared_ptr<void> handle = {};
  };

  Transport() = default;
  virtual ~Transport() = default;
  Transport(const Transport&) = delete;
  Transport& operator=(const Transport&) = delete;

  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// "Open MPI 4.1.4".
  virtual std::string name() const = 0;
  /// Begins to send; `data` must stay until the request is done. 0 <= tag < 32768.
  virtual std::unique_ptr<Request> send(int to, int tag, const void* data, std::int64_t bytes) = 0;
  virtual std::optional<Arrival> probe(int from) = 0;
  /// Begins to receive all bytes of a message into `data`, which must stay until the request is done.
  virtual std::unique_ptr<Request> receive(Arrival arrival, void* data) = 0;
  /// Waits for all processes to come here. Nothing is sent afterwards.
  virtual void finish() = 0;
  /// Ends all processes, this one too, with that exit code.
  virtual void abort(int code) noexcept = 0;
};

} // namespace eg::distributed
