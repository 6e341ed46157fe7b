// The same over TCP and TLS 1.3: users beside each other, and peers that keep to no protocol.

#ifdef EQUIGRAD_NET

#include "apps/net/tcp/certificates.h"
#include "stip/stip_models.h"
#include "support/message.h"
#include "support/raw_socket.h"
#include "support/server_thread.h"

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

using namespace eg;
using namespace eg::net;
using namespace eg::stip;
using namespace eg::test;
using namespace std::chrono_literals;

namespace {

/// What is seen of a service from outside its thread.
struct Seen {
  std::atomic<std::size_t> sessions{0};
  std::atomic<std::uint64_t> most_texts{0};
};

class Cloud : Seen, public ServerThread {
public:
  Cloud(const StipParties& parties, const ServerOptions& options, const StipServiceOptions& service_options = {})
      : ServerThread(
            options, [&parties, service_options] { return parties.service(service_options, DType::f64); },
            [this](const StipService& service) {
              Seen::sessions = service.sessions();
              Seen::most_texts = service.counts().most_rows;
            }) {}
  std::size_t sessions() const { return Seen::sessions; }
  std::uint64_t most_texts() const { return Seen::most_texts; }
};

const std::vector<std::int64_t> prompt = {84, 104, 101};

/// A model, and the 200 tokens that it says; in f64, since some keys meet a tie of two tokens within f32's rounding.
struct Expected {
  StipParties parties;
  std::vector<std::int64_t> ids;

  explicit Expected(const char* family, std::int64_t count = 200) : parties(family) {
    const auto plain = hub::load_model(parties.path("model"), {.dtype = DType::f64}).model;
    ids = nn::generate(*plain->decoder(), prompt, {.max_new_tokens = count});
  }
  std::vector<std::int64_t> said(const ClientOptions& client, const UserModel& user) const {
    return stip_generate(user, connect_over_tcp(client), nullptr, prompt,
                         {.max_new_tokens = static_cast<std::int64_t>(ids.size())}, {}, [](std::string_view) {})
        .text.ids;
  }
  bool served(const ClientOptions& client) const { return said(client, parties.user(DType::f64)) == ids; }
};

} // namespace

TEST_CASE("stip net: over TLS the tokens are those of the plain model, for several users at once") {
  const TemporaryFolder folder;
  const std::vector<std::string> names = {"ann", "bob", "cid", "dan"};
  make_certificates(folder.path("certs"), {.edges = names});
  for (const char* family : {"gpt2", "llama"}) {
    CAPTURE(family);
    const Expected expected(family);
    ServerOptions options = quick();
    options.tls = TlsFiles::in(folder.path("certs"), "cloud");
    const Cloud cloud(expected.parties, options);
    CHECK(expected.served(cloud.client(TlsFiles::in(folder.path("certs"), "ann"))));
    std::atomic<int> right{0};
    std::vector<std::thread> users;
    for (const std::string& name : names)
      users.emplace_back(
          [&] { right += expected.served(cloud.client(TlsFiles::in(folder.path("certs"), name))) ? 1 : 0; });
    for (std::thread& user : users) user.join();
    CHECK(right == 4);
    MESSAGE("most texts of one pass: ", cloud.most_texts());
    for (int i = 0; i < 500 && cloud.sessions() > 0; ++i) std::this_thread::sleep_for(10ms);
    CHECK(cloud.sessions() == 0);
  }
}

TEST_CASE("stip net: wrong, expired and missing certificates, and a cloud of another name") {
  const TemporaryFolder folder;
  const std::string good = folder.path("good"), bad = folder.path("bad");
  make_certificates(good);
  make_certificates(bad, {.hosts = {"example.org"}});
  make_certificates(folder.path("late"), {.edges = {"late"}, .authority = good, .days = 5, .from_days = -10});
  const Expected expected("gpt2", 20);
  const UserModel user = expected.parties.user(DType::f64);
  ServerOptions options = quick();
  options.tls = TlsFiles::in(good, "cloud");
  const Cloud cloud(expected.parties, options);
  const auto why_not = [&](const Cloud& there, TlsFiles files) {
    return message_of([&] { expected.said(there.client(files), user); });
  };
  TlsFiles stranger = TlsFiles::in(bad, "edge"), late = TlsFiles::in(folder.path("late"), "late");
  stranger.authority = late.authority = TlsFiles::in(good, "edge").authority;
  CHECK(!why_not(cloud, stranger).empty());
  CHECK(!why_not(cloud, late).empty());
  CHECK(!why_not(cloud, {}).empty()); // without TLS
  ServerOptions elsewhere = quick();
  elsewhere.tls = TlsFiles::in(bad, "cloud");
  const Cloud wrong_host(expected.parties, elsewhere);
  CHECK(why_not(wrong_host, TlsFiles::in(bad, "edge")).ends_with("it is not for 127.0.0.1"));
  CHECK(expected.served(cloud.client(TlsFiles::in(good, "edge"))));
}

TEST_CASE("stip net: garbage, cut and oversized frames, slow senders, half-open connections; honest users are served") {
  const Expected expected("llama", 60);
  ServerOptions options = quick();
  options.insecure_loopback = true;
  options.each = 16;
  StipServiceOptions limits;
  limits.frames.body = 1 << 18;
  const Cloud cloud(expected.parties, options, limits);
  std::atomic<bool> over{false};
  std::atomic<int> right{0}, rounds{0};
  std::thread honest([&] { // meanwhile
    const UserModel user = expected.parties.user(DType::f64);
    do {
      right += expected.said(cloud.client(), user) == expected.ids ? 1 : 0;
      ++rounds;
    } while (!over);
  });
  const auto answer_to = [&](const Bytes& bytes) {
    const RawSocket socket(cloud.port());
    REQUIRE(socket.connected());
    socket.send(bytes);
    bool closed = false;
    const Bytes answer = socket.until_closed(closed);
    CHECK(closed);
    return parse_frame(answer, {});
  };
  Bytes garbage(1000);
  for (std::size_t i = 0; i < garbage.size(); ++i) garbage[i] = static_cast<std::uint8_t>(i * 37 + 11);
  CHECK(answer_to(garbage).code == RefusalCode::malformed);
  CHECK(answer_to(header_of(std::uint64_t{1} << 60)).code == RefusalCode::too_large);
  CHECK(answer_to(header_of(std::uint64_t{1} << 19)).code == RefusalCode::too_large);
  CHECK(answer_to(header_of(40, 2)).code == RefusalCode::version);
  {
    const RawSocket slow(cloud.port());
    slow.send(header_of(1000)); // and never the body
    CHECK(slow.closed_by_peer());
  }
  for (const Bytes& cut : {Bytes{'E', 'Q', 'S'}, header_of(1000)}) {
    const RawSocket gone(cloud.port());
    gone.send(cut);
  }
  over = true;
  honest.join();
  CHECK(rounds > 0);
  CHECK(right == rounds);
}

TEST_CASE("stip net: a session that is silent ends, and its memory with it") {
  const Expected expected("gpt2", 20);
  ServerOptions options = quick();
  options.insecure_loopback = true;
  options.idle_timeout = 300ms;
  const Cloud cloud(expected.parties, options);
  const UserModel user = expected.parties.user(DType::f64);
  CloudSession session(connect_over_tcp(cloud.client()), user, 100);
  for (int i = 0; i < 500 && cloud.sessions() == 0; ++i) std::this_thread::sleep_for(2ms);
  for (int i = 0; i < 500 && cloud.sessions() > 0; ++i) std::this_thread::sleep_for(10ms);
  CHECK(cloud.sessions() == 0);
  CHECK(!message_of<ConnectionError>([&] { session.advance(Tensor::ones({1, 1, 48})); }).empty());
}

TEST_CASE("stip net: a thousand idle connections keep nobody out") {
  allow_many_files();
  const TemporaryFolder folder;
  make_certificates(folder.path("certs"));
  const Expected expected("llama", 30);
  ServerOptions options = quick();
  options.handshake_timeout = 20s;
  options.tls = TlsFiles::in(folder.path("certs"), "cloud");
  const Cloud cloud(expected.parties, options);
  std::vector<std::unique_ptr<RawSocket>> idle;
  for (int i = 0; i < 1000; ++i) idle.push_back(std::make_unique<RawSocket>(cloud.port()));
  CHECK(expected.served(cloud.client(TlsFiles::in(folder.path("certs"), "edge"))));
  CHECK(cloud.counts().connections >= 900);
  CHECK(cloud.counts().dropped >= 800);
}

#endif
