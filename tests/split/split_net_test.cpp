// The same over TCP and TLS 1.3, and what is refused there.

#ifdef EQUIGRAD_NET

#include "apps/net/tcp/certificates.h"
#include "core/base/bytes.h"
#include "split/split_channels.h"
#include "support/in_child.h"
#include "support/message.h"
#include "support/raw_socket.h"
#include "support/server_thread.h"
#include "support/temporary_folder.h"
#include "training/vit_trainer.h"
#include "unit/training_small_run.h"

#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <netinet/in.h>
#include <openssl/ssl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

using namespace eg;
using namespace eg::net;
using namespace eg::permute;
using namespace eg::split_learning;
using namespace eg::test;
using namespace eg::training;
using namespace std::chrono_literals;

namespace {

struct Cloud : ServerThread {
  explicit Cloud(const ServerOptions& options)
      : ServerThread(options, [] {
          ServiceOptions s;
          s.seed = 5;
          return EncoderService(s);
        }) {}
};

VitOptions few_steps(std::int64_t steps = 10) {
  VitOptions o = small();
  o.permute = PermuteMode::both;
  o.steps = steps;
  return o;
}

bool equal_weights(const VitTrainer& a, const VitTrainer& b) {
  const nn::StateDict x = a.weights(0), y = b.weights(0);
  std::size_t found = 0;
  for (const auto& [name, value] : x)
    for (const auto& [other, theirs] : y) found += name == other && same_bits(value, theirs) ? 1 : 0;
  return x.size() == y.size() && found == x.size();
}

/// Trains a few steps there and says whether that gave what one process gives.
bool trains(const ClientOptions& client, const VitTrainer& expected, std::int64_t steps = 10) {
  const auto edge = std::make_shared<CloudEncoder>(connect_over_tcp(client), at_once());
  VitTrainer trainer(few_steps(steps), nullptr,
                     {.encoder = edge, .final_weights = FinalWeights::encrypted, .next_key = {}});
  trainer.run();
  return equal_weights(expected, trainer);
}

/// What keeps a connection from being made, or from its first answer.
std::string why_not(const ClientOptions& client) {
  return message_of([&] {
    const std::unique_ptr<Channel> channel = connect_over_tcp(client)();
    channel->send(frame_of({.kind = MessageKind::open, .text = "{}"}));
    channel->receive();
  });
}

} // namespace

TEST_CASE("split net: a connection goes in a child of fork(), which has none of its parent's threads") {
  ServerOptions options = quick();
  options.insecure_loopback = true;
  const Cloud cloud(options);
  std::unique_ptr<Channel> channel = connect_over_tcp(cloud.client({}, "localhost"))();
  std::this_thread::sleep_for(50ms); // by then all threads wait
  CHECK(in_child([&] {
          channel.reset();
          return 0;
        }) == 0);
  channel->send(frame_of({.kind = MessageKind::open, .text = "{}"})); // the parent's is as it was
  CHECK(!channel->receive().empty());
}

TEST_CASE("split net: over TLS the weights are those of one process; another edge beside it changes nothing") {
  const TemporaryFolder folder;
  make_certificates(folder.path("certs"), {.edges = {"edge", "second"}});
  ServerOptions options = quick();
  options.tls = TlsFiles::in(folder.path("certs"), "cloud");
  const Cloud cloud(options);
  VitTrainer expected(few_steps(50));
  expected.run();
  CHECK(trains(cloud.client(TlsFiles::in(folder.path("certs"), "edge")), expected, 50));
  CHECK(trains(cloud.client(TlsFiles::in(folder.path("certs"), "edge"), "localhost"), expected, 50));
  // Two at once, each on its own thread.
  std::atomic<int> right{0};
  std::vector<std::thread> edges;
  for (const char* name : {"edge", "second"})
    edges.emplace_back(
        [&, name] { right += trains(cloud.client(TlsFiles::in(folder.path("certs"), name)), expected, 50) ? 1 : 0; });
  for (std::thread& edge : edges) edge.join();
  CHECK(right == 2);
}

TEST_CASE("split net: who sends too much hears so, and not that the connection broke") {
  const TemporaryFolder folder;
  make_certificates(folder.path("certs"));
  for (const bool tls : {true, false}) {
    CAPTURE(tls);
    ServerOptions options = quick();
    options.frame_timeout = 30s;
    options.insecure_loopback = !tls;
    if (tls) options.tls = TlsFiles::in(folder.path("certs"), "cloud");
    const Cloud cloud(options);
    const ClientOptions client = tls ? cloud.client(TlsFiles::in(folder.path("certs"), "edge")) : cloud.client();
    const std::unique_ptr<Channel> channel = connect_over_tcp(client)();
    channel->send(frame_of({.kind = MessageKind::open, .text = std::string(24 << 20, 'x')}));
    const Message answer = parse_frame(channel->receive(), {});
    CHECK(answer.kind == MessageKind::refused);
    CHECK(answer.code == RefusalCode::too_large);
  }
}

TEST_CASE("split net: certificates that do not fit are refused on both sides, and honest edges served") {
  const TemporaryFolder folder;
  const std::string good = folder.path("good"), bad = folder.path("bad"), old = folder.path("old");
  make_certificates(good);
  make_certificates(bad, {.hosts = {"example.org"}});
  make_certificates(old, {.days = 5, .from_days = -10});
  make_certificates(folder.path("late"), {.edges = {"late"}, .authority = good, .days = 5, .from_days = -10});
  ServerOptions options = quick();
  options.tls = TlsFiles::in(good, "cloud");
  const Cloud cloud(options);
  const TlsFiles edge = TlsFiles::in(good, "edge");
  const auto shows = [&](const std::string& from, const std::string& name) {
    TlsFiles files = TlsFiles::in(from, name);
    files.authority = edge.authority;
    return why_not(cloud.client(files));
  };
  CHECK(!shows(bad, "edge").empty());                 // of another authority
  CHECK(!shows(folder.path("late"), "late").empty()); // expired
  CHECK(shows(good, "cloud").ends_with("cloud.pem: is no certificate for an edge"));
  CHECK(shows(good, "edge").empty());
  // The edge looks too.
  TlsFiles distrusts = edge;
  distrusts.authority = TlsFiles::in(bad, "edge").authority;
  CHECK(why_not(cloud.client(distrusts)).find("its certificate cannot be trusted: ") != std::string::npos);
  CHECK_THROWS_AS(connect_over_tcp(cloud.client(distrusts))(), UntrustedError); // not asked again
  ServerOptions elsewhere = quick();
  elsewhere.tls = TlsFiles::in(bad, "cloud");
  const Cloud wrong_host(elsewhere);
  CHECK(why_not(wrong_host.client(TlsFiles::in(bad, "edge"))).ends_with("it is not for 127.0.0.1"));
  ServerOptions outdated = quick();
  outdated.tls = TlsFiles::in(old, "cloud");
  const Cloud expired(outdated);
  CHECK(why_not(expired.client(TlsFiles::in(old, "edge"))).ends_with("certificate has expired"));
  ServerOptions mistaken = quick();
  mistaken.tls = edge;
  EncoderService none{ServiceOptions()};
  CHECK(message_of<FileError>([&] { const Server server(none, mistaken); }).ends_with("is no certificate for a cloud"));
  // Without TLS against a cloud with it.
  CHECK(!why_not(cloud.client()).empty());
  VitTrainer expected(few_steps());
  expected.run();
  CHECK(trains(cloud.client(edge), expected));
  CHECK(cloud.counts().refused >= 4);
}

TEST_CASE("split net: no certificate, and TLS before 1.3") {
  const TemporaryFolder folder;
  make_certificates(folder.path("certs"));
  ServerOptions options = quick();
  options.tls = TlsFiles::in(folder.path("certs"), "cloud");
  const Cloud cloud(options);
  for (const bool old : {false, true}) {
    const std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)> context(SSL_CTX_new(TLS_client_method()), &SSL_CTX_free);
    if (old) SSL_CTX_set_max_proto_version(context.get(), TLS1_2_VERSION);
    const std::unique_ptr<BIO, decltype(&BIO_free_all)> bio(BIO_new_ssl_connect(context.get()), &BIO_free_all);
    BIO_set_conn_hostname(bio.get(), ("127.0.0.1:" + std::to_string(cloud.port())).c_str());
    const bool shook = BIO_do_connect(bio.get()) == 1 && BIO_do_handshake(bio.get()) == 1;
    CHECK((shook == !old)); // in TLS 1.3 the client learns of its refusal when it reads
    char byte = 0;
    CHECK(BIO_read(bio.get(), &byte, 1) <= 0);
  }
}

TEST_CASE("split net: garbage, cut and oversized frames, slow senders and half-open connections end; honest edges are "
          "served") {
  ServerOptions options = quick();
  options.insecure_loopback = true;
  options.each = 8;
  const Cloud cloud(options);
  VitTrainer expected(few_steps());
  expected.run();
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
  CHECK(answer_to(header_of(std::uint64_t{1} << 20)).code == RefusalCode::too_large); // before a run is open
  CHECK(answer_to(header_of(40, 2)).code == RefusalCode::version);
  {
    const RawSocket slow(cloud.port());
    slow.send(header_of(1000)); // and never the body
    CHECK(slow.closed_by_peer());
  }
  {
    const RawSocket cut(cloud.port());
    cut.send({'E', 'Q', 'S'});
  }
  CHECK(trains(cloud.client(), expected));
}

TEST_CASE("split net: a thousand idle connections keep nobody out") {
  allow_many_files();
  const TemporaryFolder folder;
  make_certificates(folder.path("certs"));
  ServerOptions options = quick();
  options.handshake_timeout = 20s;
  options.tls = TlsFiles::in(folder.path("certs"), "cloud");
  const Cloud cloud(options);
  std::vector<std::unique_ptr<RawSocket>> idle;
  for (int i = 0; i < 1000; ++i) idle.push_back(std::make_unique<RawSocket>(cloud.port()));
  VitTrainer expected(few_steps());
  expected.run();
  CHECK(trains(cloud.client(TlsFiles::in(folder.path("certs"), "edge")), expected));
  CHECK(cloud.counts().connections >= 900);
  CHECK(cloud.counts().dropped >= 800); // of those that never said who they are only the newest stay
}

TEST_CASE("split net: a cloud that does not answer is given up in time, and Ctrl-C ends the wait") {
  const int deaf = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in where{};
  where.sin_family = AF_INET;
  where.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof where;
  REQUIRE(::bind(deaf, reinterpret_cast<const sockaddr*>(&where), size) == 0);
  REQUIRE(::listen(deaf, 8) == 0);
  ::getsockname(deaf, reinterpret_cast<sockaddr*>(&where), &size);
  ClientOptions client;
  client.host = "127.0.0.1";
  client.port = ntohs(where.sin_port);
  client.insecure_loopback = true;
  client.connect_timeout = client.answer_timeout = 300ms;
  CHECK(message_of<TimeoutError>([&] {
          const std::unique_ptr<Channel> channel = connect_over_tcp(client)();
          channel->receive();
        }).find("took too long") != std::string::npos);
  const std::atomic<bool> stop{true};
  client.answer_timeout = 60s;
  client.stop = &stop;
  CHECK(message_of<Interrupted>([&] {
          const std::unique_ptr<Channel> channel = connect_over_tcp(client)();
          channel->send(frame_of({.kind = MessageKind::open, .text = "{}"}));
          channel->receive();
        }).find("interrupted") != std::string::npos);
  ::close(deaf);
  CHECK(!message_of<ConnectionError>([&] { connect_over_tcp(client)(); }).empty()); // nobody listens
}

TEST_CASE("split net: what is asked without TLS is loopback alone; keys that others can read are refused") {
  const TemporaryFolder folder;
  EncoderService service{ServiceOptions{}};
  ServerOptions open = quick();
  open.address = "0.0.0.0";
  open.insecure_loopback = true;
  CHECK(message_of([&] { Server(service, open); }).find("only loopback") != std::string::npos);
  open.insecure_loopback = false;
  CHECK(message_of([&] { Server(service, open); }).find("certificates are needed") != std::string::npos);
  make_certificates(folder.path("certs"));
  CHECK(message_of([&] { make_certificates(folder.path("certs")); }).find("never overwritten") != std::string::npos);
  ServerOptions tls = quick();
  tls.tls = TlsFiles::in(folder.path("certs"), "cloud");
  REQUIRE(::chmod(tls.tls.key.c_str(), 0644) == 0);
  CHECK(message_of([&] { Server(service, tls); }).find("open to others") != std::string::npos);
  tls.tls.key = folder.path("none.key");
  CHECK(message_of([&] { Server(service, tls); }).find("none.key") != std::string::npos);
}

#endif
