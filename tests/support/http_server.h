#pragma once
// A web server on loopback with one file, which can be told to misbehave.

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace eg::test {

/// What the server does with the connections to come.
struct ServerManners {
  std::int64_t cut_after = -1; ///< bytes of the body, then the connection ends; -1: none
  int cut_times = 0;           ///< for so many connections
  bool ranges = true;          ///< answers a request for the end of the file with that end
  int status = 200;            ///< another one is all it says
};

class HttpServer {
public:
  HttpServer(std::string body, ServerManners manners);
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  /// "http://127.0.0.1:PORT/"
  std::string url() const;
  int connections() const { return connections_; }
  /// Bytes of bodies sent in all.
  std::int64_t sent() const {
    const std::lock_guard answered(answering_); // a client may have an answer before it is counted
    return sent_;
  }

private:
  void serve();
  void answer(int socket);

  std::string body_;
  ServerManners manners_;
  int listener_ = -1, port_ = 0;
  std::atomic<int> connections_ = 0;
  mutable std::mutex answering_;
  std::int64_t sent_ = 0;
  std::atomic<bool> ending_ = false;
  std::thread thread_;
};

} // namespace eg::test
