// Downloads from a server on loopback: gone on with, checked, and refused when they are wrong.

#include "apps/fetch/download.h"
#include "apps/fetch/sets.h"
#include "support/http_server.h"
#include "support/message.h"
#include "support/temporary_folder.h"

#include "core/base/bytes.h"

#include <doctest/doctest.h>

#include <atomic>
#include <filesystem>
#include <set>

using namespace eg;
using namespace eg::fetch;
using namespace eg::test;

namespace {

std::string body() {
  std::string text;
  for (int i = 0; i < 30'000; ++i) text += std::to_string(i * i);
  return text;
}

RemoteFile file_of(const HttpServer& server, const std::string& text) {
  const TemporaryFolder folder;
  write_file(folder.path("sum"), std::string_view(text));
  return {server.url() + "file.bin", sha256_of_file(folder.path("sum")), static_cast<std::int64_t>(text.size())};
}

std::string read(const std::string& path) {
  const Bytes bytes = read_file(path);
  return {bytes.begin(), bytes.end()};
}

} // namespace

TEST_CASE("download: the checksum is that of FIPS 180-4") {
  const TemporaryFolder folder;
  write_file(folder.path("abc"), std::string_view("abc"));
  CHECK(sha256_of_file(folder.path("abc")) == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  CHECK_THROWS_AS(sha256_of_file(folder.path("none")), FileError);
}

TEST_CASE("download: a file comes whole, and one that is there is not asked for again") {
  const TemporaryFolder folder;
  const HttpServer server(body(), {});
  const RemoteFile file = file_of(server, body());
  std::int64_t received = 0;
  download(file, folder.path("file"), {.on_progress = [&](std::int64_t done) { received = done; }});
  CHECK(read(folder.path("file")) == body());
  CHECK(received == file.bytes);
  CHECK(server.connections() == 1);
  download(file, folder.path("file"));
  CHECK(server.connections() == 1);
  CHECK_FALSE(std::filesystem::exists(folder.path("file.part")));
}

TEST_CASE("download: connections that end early are gone on with") {
  const TemporaryFolder folder;
  const HttpServer server(body(), {.cut_after = 5000, .cut_times = 2});
  download(file_of(server, body()), folder.path("file"));
  CHECK(read(folder.path("file")) == body());
  CHECK(server.connections() == 3);
  CHECK(server.sent() == static_cast<std::int64_t>(body().size())); // nothing twice
}

TEST_CASE("download: what came stays when the tries are used up, and the next call takes it up") {
  const TemporaryFolder folder;
  {
    const HttpServer server(body(), {.cut_after = 5000, .cut_times = 9});
    const std::string said = message_of<FileError>([&] { download(file_of(server, body()), folder.path("file")); });
    CHECK(said.find("15000 of") != std::string::npos);
    CHECK(said.find("file.part") != std::string::npos);
  }
  CHECK_FALSE(std::filesystem::exists(folder.path("file")));
  const HttpServer server(body(), {});
  download(file_of(server, body()), folder.path("file"));
  CHECK(read(folder.path("file")) == body());
  CHECK(server.sent() == static_cast<std::int64_t>(body().size()) - 15'000);
}

TEST_CASE("download: a server without ranges sends all again") {
  const TemporaryFolder folder;
  write_file(folder.path("file.part"), std::string_view("beginning"));
  const HttpServer server(body(), {.ranges = false});
  download(file_of(server, body()), folder.path("file"));
  CHECK(read(folder.path("file")) == body());
}

TEST_CASE("download: other bytes, more bytes and errors of the server are refused, and the url is named") {
  const TemporaryFolder folder;
  const auto said = [&](const std::string& sent, ServerManners manners = {}) {
    const HttpServer server(sent, manners);
    RemoteFile file = file_of(server, body());
    return message_of<FileError>([&] { download(file, folder.path("file")); });
  };
  std::string changed = body();
  changed[77] = 'x';
  CHECK(said(changed).find("SHA-256") != std::string::npos);
  CHECK(said(body() + "more").find("longer than") != std::string::npos);
  CHECK(said(body(), {.status = 404}).find("404") != std::string::npos);
  CHECK(said(body(), {.status = 404}).find("http://127.0.0.1") == 0);
  CHECK(said(body(), {.status = 500}).find("500") != std::string::npos);
  CHECK_FALSE(std::filesystem::exists(folder.path("file")));
  CHECK_FALSE(std::filesystem::exists(folder.path("file.part")));
  const std::string closed = [] { return HttpServer("", {}).url(); }();
  CHECK(message_of<FileError>([&] {
          download({closed + "x", std::string(64, '0'), 5}, folder.path("x"));
        }).find(closed) == 0);
  CHECK(message_of<FileError>([&] {
          download({"file:///etc/passwd", std::string(64, '0'), 5}, folder.path("x"));
        }).find("file:///etc/passwd") == 0);
}

TEST_CASE("download: stopping keeps what came") {
  const TemporaryFolder folder;
  const HttpServer server(body(), {.cut_after = 5000, .cut_times = 1});
  std::atomic<bool> stop = false;
  const DownloadOptions options{.stop = &stop, .on_progress = [&](std::int64_t) { stop = true; }};
  CHECK_THROWS_AS(download(file_of(server, body()), folder.path("file"), options), Interrupted);
  CHECK(std::filesystem::file_size(folder.path("file.part")) > 0);
}

TEST_CASE("sets: names, places and checksums are well formed, and a mirror serves them") {
  std::set<std::string> names;
  for (const PublicSet& set : public_sets()) {
    CHECK(names.insert(set.name).second);
    for (const SetFile& file : set.files) {
      CHECK(std::string(file.sha256).size() == 64);
      CHECK(std::string(file.url).ends_with('/'));
      CHECK(file.bytes > 0);
    }
  }
  CHECK(message_of([] { public_set("minst"); }).find("did you mean mnist?") != std::string::npos);
  const TemporaryFolder folder;
  const HttpServer server("not what it should be", {});
  const std::string said = message_of<FileError>(
      [&] { fetch_set(public_set("tinyshakespeare"), folder.path("data"), server.url(), nullptr); });
  CHECK(said.find(server.url() + "input.txt") == 0);
}
