#include "support/http_server.h"

#include <fmt/format.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdexcept>
#include <sys/socket.h>
#include <unistd.h>

namespace eg::test {

HttpServer::HttpServer(std::string body, ServerManners manners) : body_(std::move(body)), manners_(manners) {
  listener_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in place{};
  place.sin_family = AF_INET;
  place.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof place;
  if (listener_ < 0 || bind(listener_, reinterpret_cast<sockaddr*>(&place), size) != 0 || listen(listener_, 8) != 0 ||
      getsockname(listener_, reinterpret_cast<sockaddr*>(&place), &size) != 0)
    throw std::runtime_error("no server on loopback");
  port_ = ntohs(place.sin_port);
  thread_ = std::thread([this] { serve(); });
}

HttpServer::~HttpServer() {
  ending_ = true;
  shutdown(listener_, SHUT_RDWR);
  thread_.join();
  close(listener_);
}

std::string HttpServer::url() const { return fmt::format("http://127.0.0.1:{}/", port_); }

void HttpServer::serve() {
  while (!ending_) {
    const int socket = accept(listener_, nullptr, nullptr);
    if (socket < 0) return;
    ++connections_;
    const std::lock_guard answering(answering_);
    answer(socket);
    close(socket);
  }
}

void HttpServer::answer(int socket) {
  std::string request;
  char block[4096];
  while (request.find("\r\n\r\n") == std::string::npos) {
    const ssize_t count = recv(socket, block, sizeof block, 0);
    if (count <= 0) return;
    request.append(block, static_cast<std::size_t>(count));
  }
  std::size_t from = 0;
  const std::size_t range = request.find("Range: bytes=");
  if (manners_.ranges && range != std::string::npos) from = std::stoul(request.substr(range + 13));
  const auto say = [&](const std::string& text) { return send(socket, text.data(), text.size(), MSG_NOSIGNAL); };
  if (manners_.status != 200) {
    say(fmt::format("HTTP/1.1 {} No\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", manners_.status));
    return;
  }
  if (from >= body_.size()) {
    say("HTTP/1.1 416 No\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    return;
  }
  std::string body = body_.substr(from);
  std::string head = fmt::format("Content-Length: {}\r\nConnection: close\r\n\r\n", body.size());
  if (from > 0) head = fmt::format("Content-Range: bytes {}-{}/{}\r\n", from, body_.size() - 1, body_.size()) + head;
  say(fmt::format("HTTP/1.1 {}\r\n{}", from > 0 ? "206 Partial Content" : "200 OK", head));
  if (manners_.cut_times > 0) {
    --manners_.cut_times;
    body.resize(std::min(body.size(), static_cast<std::size_t>(manners_.cut_after)));
  }
  const ssize_t count = say(body);
  if (count > 0) sent_ += count;
}

} // namespace eg::test
