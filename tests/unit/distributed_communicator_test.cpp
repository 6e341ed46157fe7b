// The processes of a run over messages in memory: what they exchange, what they refuse, and how they end.

#include "distributed/communicator.h"

#include "support/in_child.h"
#include "support/in_process_ranks.h"
#include "support/message.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <stdexcept>

using namespace eg;
using namespace eg::distributed;
using namespace eg::test;

namespace {

/// Of rank r, of a length that differs from rank to rank.
std::string text_of(int rank) {
  return std::string(static_cast<std::size_t>(rank * 37 % 11), static_cast<char>('a' + rank));
}

/// Every kind of collective, each with a check. For any number of ranks.
void exchange_all(Communicator& c) {
  std::vector<std::string> expected;
  for (int r = 0; r < c.size(); ++r) expected.push_back(text_of(r));
  if (c.gather(text_of(c.rank())) != expected) throw std::logic_error("gather");
  auto later = c.gather_later(text_of(c.rank()));
  if (c.broadcast(text_of(c.rank() + 3)) != text_of(3)) throw std::logic_error("broadcast");
  if (later.get() != expected) throw std::logic_error("gather_later");
  std::vector<std::byte> bytes(1000, static_cast<std::byte>(c.rank()));
  c.broadcast(std::span(bytes));
  if (bytes != std::vector<std::byte>(1000)) throw std::logic_error("broadcast of bytes");
  if (c.any(false) || !c.any(c.rank() == c.size() - 1)) throw std::logic_error("any");
  if (c.decided(c.rank() != 0) || !c.decided(c.rank() == 0)) throw std::logic_error("decided");
  c.require_same("a word", "same");
  c.barrier();
}

/// Sends to the rank behind and receives from the one before, messages of those sizes.
void ring(Link& link, std::size_t sent, std::size_t wanted) {
  link.begin(Kind::state);
  const std::vector<std::byte> out(sent);
  std::vector<std::byte> in(wanted);
  const Link::Out to{(link.rank() + 1) % link.size(), out};
  const Link::In from{(link.rank() + link.size() - 1) % link.size(), in};
  link.exchange({&to, 1}, {&from, 1});
}

} // namespace

TEST_CASE("one process alone exchanges with itself") {
  Communicator alone;
  CHECK(alone.alone());
  CHECK(alone.first());
  CHECK(alone.transport().empty());
  CHECK(alone.processes().size() == 1);
  exchange_all(alone);
  CHECK(joined(run_ranks(1, exchange_all)).empty()); // the same with a transport
}

TEST_CASE("every collective gives every rank the same, with one to nine ranks") {
  for (int n = 1; n <= 9; ++n)
    for (const bool rendezvous : {false, true}) {
      CAPTURE(n);
      CHECK(joined(run_ranks(n, exchange_all, {.rendezvous = rendezvous})) == "");
    }
}

TEST_CASE("negative control: ranks that do other work are refused with the names of both") {
  const auto errors = run_ranks(3, [](Communicator& c) {
    if (c.rank() == 1)
      static_cast<void>(c.broadcast("x"));
    else
      static_cast<void>(c.gather("x"));
  });
  CHECK(joined(errors).find(": process ") != std::string::npos);
  CHECK(joined(errors).find(this_process().host + ") sent ") != std::string::npos);
  CHECK(joined(errors).find("were due") != std::string::npos);
}

TEST_CASE("what differs is refused with the name of the process that differs") {
  const auto errors = run_ranks(3, [](Communicator& c) { c.require_same("an option", c.rank() == 2 ? "b" : "a"); },
                                {.one_failure_stops_all = false});
  for (const std::string& error : errors) {
    CHECK(error.find("process 2 (pid ") == 0);
    CHECK(error.find("an option is not that of process 0") != std::string::npos);
  }
}

TEST_CASE("a message of another size is refused before its bytes are taken") {
  for (const std::size_t sent : {std::size_t{0}, std::size_t{7}, std::size_t{9}, std::size_t{1} << 20}) {
    const auto errors =
        run_ranks(2, [sent](Communicator& c) { c.post([sent](Link& link) { ring(link, sent, 8); }).get(); });
    CHECK(joined(errors).find(fmt::format("sent {} bytes", sent)) != std::string::npos);
  }
  // Negative control: the size that was due.
  CHECK(joined(run_ranks(2, [](Communicator& c) { c.post([](Link& link) { ring(link, 8, 8); }).get(); })).empty());
}

TEST_CASE("a message whose header is damaged at random is refused, and no rank waits for ever") {
  std::mt19937 random(7);
  int refused = 0;
  for (int round = 0; round < 100; ++round) {
    const int n = 2 + round % 4;
    const auto victim = std::uniform_int_distribution<int>(0, 12 * n)(random);
    const auto damage = std::uniform_int_distribution<int>(0, 3)(random);
    const auto noise = std::uniform_int_distribution<int>(1, 32767)(random);
    int number = 0;
    bool done = false;
    const auto fate = [&](RankMessage& message) {
      if (message.is_heartbeat() || number++ != victim) return true;
      std::vector<std::byte>& bytes = message.bytes;
      const int tag = message.tag;
      if (damage == 0) message.tag = (message.tag ^ noise) & 32767; // kind, number or both
      if (damage == 1) message.tag ^= 16;                           // the operation before or behind
      if (damage == 2) bytes.resize(bytes.size() + 1 + static_cast<std::size_t>(noise) % 5000);
      if (damage == 3 && !bytes.empty()) bytes.resize(bytes.size() - 1);
      if (message.is_heartbeat()) message.tag = tag; // a message that is lost is another test
      done = message.tag != tag || damage >= 2;
      if (damage == 3 && message.bytes.empty() && tag == message.tag) done = false;
      return true;
    };
    const std::string errors = joined(run_ranks(n, exchange_all, {.rendezvous = round % 2 == 0, .fate = fate}));
    CAPTURE(damage);
    CAPTURE(victim);
    CAPTURE(errors);
    if (!done) continue; // no message has that number, or one without bytes cannot be shorter
    ++refused;
    // With the tag of a farewell it is one.
    CHECK((errors.find("were due") != std::string::npos || damage == 0));
    CHECK(errors != "");
  }
  CHECK(refused > 60);
}

TEST_CASE("a length that no process may announce is refused") {
  // The bytes of `lengths` are numbers that a process believes no further than this.
  const auto errors = run_ranks(2, [](Communicator& c) { static_cast<void>(c.gather("abc")); },
                                {.fate = [number = 0](RankMessage& message) mutable {
                                  // The first gather is the constructor's; kind 1 is lengths.
                                  if (message.tag % 16 == 1 && message.from == 1 && ++number == 2)
                                    std::memset(message.bytes.data(), 0x7f, message.bytes.size());
                                  return true;
                                }});
  CHECK(joined(errors).find("process 1 announces") != std::string::npos);
}

TEST_CASE("a rank that falls silent is named by the one behind it, within the timeout") {
  using Clock = std::chrono::steady_clock;
  for (const bool silent : {true, false}) { // false: the negative control, a wait longer than the timeout
    std::atomic<bool> mute = false;
    const Clock::time_point begin = Clock::now();
    const auto errors = run_ranks(3,
                                  [&](Communicator& c) {
                                    c.barrier();
                                    mute = silent;
                                    if (c.rank() == 1) std::this_thread::sleep_for(std::chrono::seconds(6));
                                    c.barrier();
                                  },
                                  {.fate = [&](RankMessage& message) { return message.from != 1 || !mute; },
                                   .timeout = Communicator::Seconds(4)});
    const std::chrono::duration<double> taken = Clock::now() - begin;
    CHECK(taken.count() < 20.0);
    if (silent)
      CHECK(joined(errors).find("rank 2: process 1 (pid ") != std::string::npos);
    else
      CHECK(joined(errors) == "");
    if (silent) CHECK(joined(errors).find("has not answered for 4 s") != std::string::npos);
  }
}

TEST_CASE("all ranks hear of a silent one as soon as its neighbour does, and who it is") {
  using Clock = std::chrono::steady_clock;
  std::atomic<bool> mute = false;
  Clock::time_point begin;
  const auto errors = run_ranks(6,
                                [&](Communicator& c) {
                                  c.barrier();
                                  if (c.first()) begin = Clock::now();
                                  mute = true;
                                  c.barrier();
                                  for (;;) c.barrier();
                                },
                                {.fate = [&](RankMessage& message) { return message.from != 2 || !mute; },
                                 .timeout = Communicator::Seconds(4),
                                 .one_failure_stops_all = false});
  const std::chrono::duration<double> taken = Clock::now() - begin;
  CHECK(taken.count() < 10.0); // and not 4 s more for each rank
  for (const int r : {0, 1, 4, 5}) {
    CHECK(errors[static_cast<std::size_t>(r)].find("process 3 (pid ") == 0);
    CHECK(errors[static_cast<std::size_t>(r)].find(" stopped: process 2 (pid ") != std::string::npos);
  }
  CHECK(errors[3].find("process 2 (pid ") == 0);
}

TEST_CASE("after a failure every call throws the same error") {
  const auto errors = run_ranks(2, [](Communicator& c) {
    if (c.rank() == 1) return static_cast<void>(c.gather("x"));
    std::future<void> failing = c.post([](Link&) { throw ValueError("test: no"); });
    std::future<void> behind = c.post([](Link&) {});
    CHECK(message_of([&] { failing.get(); }) == "test: no");
    CHECK(message_of([&] { behind.get(); }) == "test: no");
    CHECK(message_of([&] { c.barrier(); }) == "test: no");
    c.finish();
  });
  CHECK(errors[0] == "test: no");
  CHECK(errors[1].find("test: no") != std::string::npos); // the first's end is the other's
}

TEST_CASE("a communicator that was not finished ends all processes") {
  if (children_may_hang) return;
  const auto unfinished = [](bool finishes) {
    return in_child([finishes] {
      auto hub = std::make_shared<RankHub>(2, false, RankHub::Fate());
      std::vector<std::thread> ranks;
      for (int r = 0; r < 2; ++r)
        ranks.emplace_back([&, r] {
          Communicator c([&hub, r] { return std::make_unique<RankHub::OneTransport>(hub, r); });
          if (r == 0 || finishes) c.finish(); // rank 0 waits in it for rank 1
        });
      for (std::thread& rank : ranks) rank.join();
      return 42;
    });
  };
  CHECK(unfinished(false) == 1);
  CHECK(unfinished(true) == 42);
}

TEST_CASE("the error of a transport that cannot be opened is the constructor's") {
  CHECK(message_of([] {
          Communicator c([]() -> std::unique_ptr<Transport> { throw DistributedError("test: no MPI"); });
        }) == "test: no MPI");
}

TEST_CASE("processes of one host share its processors") {
  const int processors = this_process().processors;
  CHECK(processors >= 1);
  const auto errors = run_ranks(3, [&](Communicator& c) {
    if (c.fair_threads() != std::max(1, processors / 3)) throw std::logic_error("threads");
    if (c.processes().size() != 3 || c.processes()[2].host != this_process().host) throw std::logic_error("processes");
  });
  CHECK(joined(errors) == "");
  CHECK(Communicator().fair_threads() == processors);
}
