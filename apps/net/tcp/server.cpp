#include "apps/net/tcp/server.h"

#include "apps/net/tcp/asio_tls.h"

#include <fmt/format.h>

#include <condition_variable>
#include <list>
#include <map>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace eg::net {
namespace {

class Connection;
using ConnectionPtr = std::shared_ptr<Connection>;

/// What waits to be computed: a frame of a connection, or (empty) its end.
struct Job {
  ConnectionPtr connection;
  Bytes frame;
};

/// From the sockets' thread to the computing one. One frame of each connection at most.
class Jobs {
public:
  void push(Job job) {
    {
      const std::lock_guard lock(mutex_);
      jobs_.push_back(std::move(job));
    }
    changed_.notify_one();
  }
  /// All that wait, after waiting for the first of them.
  std::vector<Job> pop_all(std::chrono::milliseconds most) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, most, [&] { return !jobs_.empty(); });
    return std::exchange(jobs_, {});
  }

private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Job> jobs_;
};

/// What connections share. All but `jobs` is of the sockets' thread.
struct Shared {
  Service& service;
  const ServerOptions options;
  Jobs jobs;
  ServerCounts counts;
  std::uint64_t memory = 0;                ///< bytes of frames that are held
  std::list<ConnectionPtr> unknown, known; ///< oldest first
};

/// One user, or a connection that may become one. Reads a frame, waits for its answer, writes it, and so on: a peer
/// that does not take an answer gets no other, and what a peer can make the cloud hold is one frame.
class Connection : public std::enable_shared_from_this<Connection> {
public:
  Connection(Shared& shared, Stream stream, std::uint64_t number)
      : shared_(shared), stream_(std::move(stream)),
        timer_(socket_of(stream_).get_executor()), peer_{.name = {}, .number = number} {}

  void start() {
    asio::error_code ignored;
    socket_of(stream_).set_option(Tcp::no_delay(true), ignored);
    auto* tls = std::get_if<TlsStream>(&stream_);
    if (tls == nullptr) {
      admit("loopback");
      return;
    }
    expire_after(shared_.options.handshake_timeout);
    tls->async_handshake(asio::ssl::stream_base::server, [self = shared_from_this(), tls](const asio::error_code& e) {
      if (e) return self->refuse_handshake();
      self->admit(peer_name(*tls));
    });
  }

  /// The answer to the frame that was read last. Called on the computing thread.
  void answer(Bytes frame) {
    asio::post(socket_of(stream_).get_executor(), [self = shared_from_this(), f = std::move(frame)]() mutable {
      self->release();
      if (self->closed_) return;
      self->hold(f.size());
      self->write(std::move(f), Then::read);
    });
  }

  Peer& peer() { return peer_; }
  const std::string& name() const { return name_; }

  void close() {
    if (closed_) return;
    closed_ = true;
    timer_.cancel();
    asio::error_code ignored;
    socket_of(stream_).close(ignored);
    if (!computing_) release();
    const ConnectionPtr self = shared_from_this();
    shared_.unknown.remove(self);
    shared_.known.remove(self);
    if (!name_.empty()) shared_.jobs.push({self, {}});
  }

private:
  void refuse_handshake() {
    ++shared_.counts.refused;
    close();
  }

  void admit(const std::string& name) {
    const ConnectionPtr self = shared_from_this();
    shared_.unknown.remove(self);
    if (closed_) return;
    if (name.empty()) return refuse_handshake();
    std::vector<ConnectionPtr> same;
    for (const ConnectionPtr& other : shared_.known)
      if (other->name() == name) same.push_back(other);
    if (same.size() >= shared_.options.each) {
      ++shared_.counts.dropped;
      same.front()->close();
    }
    if (shared_.known.size() >= shared_.options.known) return refuse_handshake();
    name_ = peer_.name = name;
    shared_.known.push_back(self);
    read_header();
  }

  void expire_after(std::chrono::milliseconds time) {
    timer_.expires_after(time);
    timer_.async_wait([self = shared_from_this()](const asio::error_code& e) {
      if (e || self->closed_ || self->timer_.expiry() > std::chrono::steady_clock::now()) return;
      ++self->shared_.counts.dropped;
      self->close();
    });
  }

  template <class Then> void read(std::size_t from, Then then) {
    const auto into = asio::buffer(frame_.data() + from, frame_.size() - from);
    std::visit(
        [&](auto& s) {
          asio::async_read(s, into, [self = shared_from_this(), then](const asio::error_code& e, std::size_t count) {
            self->shared_.counts.received += count;
            if (self->closed_) return;
            if (e) return self->close();
            then(*self);
          });
        },
        stream_);
  }

  void read_header() {
    frame_.assign(header_bytes, 0);
    expire_after(shared_.options.idle_timeout);
    read(0, [](Connection& c) { c.read_body(); });
  }

  void read_body() {
    FrameHeader header;
    try {
      header = parse_header(frame_, shared_.service.limits(peer_));
      if (header.body > shared_.options.memory)
        throw ProtocolError(RefusalCode::too_large, "net: a message larger than all the cloud's room for messages");
      if (header.body > shared_.options.memory - std::min(shared_.memory, shared_.options.memory))
        throw ProtocolError(RefusalCode::no_room, "net: the cloud has no room for the message now");
    } catch (const ProtocolError& e) {
      ++shared_.counts.refused;
      // What follows cannot be distinguished from a message any more. Where it is one, its sender learns why when all
      // of it is sent.
      const bool whole = e.code() == RefusalCode::too_large || e.code() == RefusalCode::no_room;
      return write(frame_of({.kind = MessageKind::refused, .code = e.code(), .text = e.what()}),
                   whole ? Then::discard : Then::close);
    }
    hold(header.body);
    try {
      frame_.resize(header_bytes + static_cast<std::size_t>(header.body));
    } catch (const std::bad_alloc&) {
      return close();
    }
    expire_after(shared_.options.frame_timeout);
    read(header_bytes, [](Connection& c) {
      c.timer_.cancel();
      c.computing_ = true;
      c.shared_.jobs.push({c.shared_from_this(), std::move(c.frame_)});
    });
  }

  /// Counts bytes against the memory of all, until release().
  void hold(std::uint64_t bytes) {
    held_ = bytes;
    shared_.memory += bytes;
  }

  void release() {
    shared_.memory -= held_;
    held_ = 0;
    computing_ = false;
  }

  enum class Then { read, discard, close };

  void write(Bytes frame, Then then) {
    if (closed_) return;
    frame_ = std::move(frame);
    expire_after(shared_.options.frame_timeout);
    std::visit(
        [&](auto& s) {
          asio::async_write(s, asio::buffer(frame_.data(), frame_.size()),
                            [self = shared_from_this(), then](const asio::error_code& e, std::size_t count) {
                              self->shared_.counts.sent += count;
                              if (self->closed_) return;
                              if (e || then == Then::close) return self->close();
                              self->release();
                              if (then == Then::read) return self->read_header();
                              asio::error_code ignored;
                              socket_of(self->stream_).shutdown(Tcp::socket::shutdown_send, ignored);
                              self->frame_.assign(std::size_t{1} << 16, 0);
                              self->discard(std::uint64_t{1} << 29);
                            });
        },
        stream_);
  }

  /// Reads what a refused peer still sends, up to `most` bytes and until the timer: closing on unread bytes would
  /// reset the connection before the refusal has been read.
  void discard(std::uint64_t most) {
    std::visit(
        [&](auto& s) {
          s.async_read_some(asio::buffer(frame_.data(), frame_.size()),
                            [self = shared_from_this(), most](const asio::error_code& e, std::size_t count) {
                              self->shared_.counts.received += count;
                              if (self->closed_) return;
                              if (e || count >= most) return self->close();
                              self->discard(most - count);
                            });
        },
        stream_);
  }

  Shared& shared_;
  Stream stream_;
  asio::steady_timer timer_;
  Peer peer_;        ///< of the computing thread while it has the frame
  std::string name_; ///< "" until it is known
  Bytes frame_;
  std::uint64_t held_ = 0;
  bool computing_ = false, closed_ = false;
};

/// Answers the frames; connections that have ended are left afterwards.
void serve(Service& service, const std::vector<Job>& jobs) {
  std::vector<Request> requests;
  std::vector<Connection*> asking;
  for (const Job& job : jobs) {
    if (job.frame.empty()) continue;
    requests.push_back({&job.connection->peer(), job.frame});
    asking.push_back(job.connection.get());
  }
  if (!requests.empty())
    service.handle_all(requests, [&](std::size_t i, Bytes frame) { asking[i]->answer(std::move(frame)); });
  for (const Job& job : jobs)
    if (job.frame.empty()) service.leave(job.connection->peer());
}

Tcp::endpoint endpoint_of(const ServerOptions& o) {
  asio::error_code error;
  const asio::ip::address address = asio::ip::make_address(o.address, error);
  if (error) throw ValueError(fmt::format("cloud: '{}' is no address to listen on", o.address));
  return {address, o.port};
}

} // namespace

struct Server::State {
  Shared shared;
  asio::io_context io;
  std::optional<asio::ssl::context> context;
  Tcp::acceptor acceptor;
  asio::steady_timer again;
  std::uint64_t number = 0;

  State(Service& service, const ServerOptions& o)
      : shared{.service = service, .options = o, .jobs = {}, .counts = {}, .unknown = {}, .known = {}}, acceptor(io),
        again(io) {}

  void accept() {
    acceptor.async_accept([this](const asio::error_code& e, Tcp::socket socket) {
      if (e == asio::error::operation_aborted) return;
      if (e) { // no descriptors left, say: a moment later there may be
        again.expires_after(std::chrono::milliseconds(50));
        again.async_wait([this](const asio::error_code& stopped) {
          if (!stopped) accept();
        });
        return;
      }
      try {
        begin(std::move(socket));
      } catch (const std::exception&) { // no memory for this one
        ++shared.counts.dropped;
      }
      accept();
    });
  }

  void begin(Tcp::socket socket) {
    ++shared.counts.connections;
    if (shared.unknown.size() >= shared.options.unknown) {
      ++shared.counts.dropped;
      const ConnectionPtr oldest = shared.unknown.front();
      oldest->close();
    }
    Stream stream =
        context ? Stream(std::in_place_type<TlsStream>, std::move(socket), *context) : Stream(std::move(socket));
    const auto connection = std::make_shared<Connection>(shared, std::move(stream), ++number);
    shared.unknown.push_back(connection);
    connection->start();
  }

  void close_all() {
    asio::error_code ignored;
    acceptor.close(ignored);
    again.cancel();
    for (auto* list : {&shared.unknown, &shared.known})
      while (!list->empty()) {
        const ConnectionPtr one = list->front();
        list->pop_front();
        one->close();
      }
  }
};

Server::Server(Service& service, const ServerOptions& o) : state_(std::make_unique<State>(service, o)) {
  State& s = *state_;
  const Tcp::endpoint where = endpoint_of(o);
  if (o.tls.given() == o.insecure_loopback)
    throw ValueError(o.insecure_loopback ? "cloud: certificates and insecure_loopback exclude each other"
                                         : "cloud: certificates are needed (without TLS only loopback, if asked for)");
  if (!o.tls.given() && !is_loopback(where))
    throw ValueError(
        fmt::format("cloud: {} is open to other machines; without TLS only loopback is listened on", o.address));
  if (o.tls.given()) s.context.emplace(tls_context(o.tls, true));
  try {
    s.acceptor.open(where.protocol());
    s.acceptor.set_option(Tcp::acceptor::reuse_address(true));
    s.acceptor.bind(where);
    s.acceptor.listen();
  } catch (const asio::system_error& e) {
    throw ConnectionError(fmt::format("cloud: {}:{} cannot be listened on: {}", o.address, o.port, e.code().message()));
  }
}

Server::~Server() = default;

std::uint16_t Server::port() const { return state_->acceptor.local_endpoint().port(); }
const ServerCounts& Server::counts() const { return state_->shared.counts; }

void Server::run(const std::atomic<bool>& stop, const std::function<void()>& tick) {
  State& s = *state_;
  s.accept();
  std::thread sockets([&] {
    for (;;) try {
        s.io.run();
        return;
      } catch (const std::exception&) { // no memory for one connection: the others continue
      }
  });
  const auto finish = [&] {
    asio::post(s.io, [&] { s.close_all(); });
    sockets.join();                                      // with nothing left to wait for, run() returns
    s.shared.jobs.pop_all(std::chrono::milliseconds(0)); // they hold connections, which must not outlive s.io
  };
  try {
    while (!stop.load()) {
      serve(s.shared.service, s.shared.jobs.pop_all(std::chrono::milliseconds(100)));
      if (tick) tick();
    }
  } catch (...) {
    finish();
    throw;
  }
  finish();
}

} // namespace eg::net
