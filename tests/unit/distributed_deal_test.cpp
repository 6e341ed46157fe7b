// distributed/deal.h: items dealt to processes.

#include "distributed/deal.h"
#include "support/in_process_ranks.h"

#include <doctest/doctest.h>

#include <atomic>
#include <set>

using namespace eg;
using namespace eg::test;
using distributed::Communicator;
using distributed::deal;
using distributed::DealOptions;

namespace {

std::string result_of(std::size_t item) { return std::string(item * 1000, 'x') + std::to_string(item); }

void sleep_ms(int ms) { std::this_thread::sleep_for(std::chrono::milliseconds(ms)); }

} // namespace

TEST_CASE("every process receives all results in their order, each computed once") {
  for (const bool rendezvous : {false, true})
    for (const int size : {1, 2, 3, 4, 7})
      for (const std::size_t items : {std::size_t{0}, std::size_t{1}, std::size_t{3}, std::size_t{40}}) {
        CAPTURE(size);
        CAPTURE(items);
        std::vector<std::atomic<int>> runs(items);
        std::atomic<int> wrong = 0;
        const auto errors = run_ranks(size,
                                      [&](Communicator& processes) {
                                        const std::vector<std::string> got =
                                            deal(processes, items, [&](std::size_t item) {
                                              ++runs[item];
                                              return result_of(item);
                                            });
                                        wrong += got.size() == items ? 0 : 1;
                                        for (std::size_t i = 0; i < got.size(); ++i)
                                          wrong += got[i] == result_of(i) ? 0 : 1;
                                        static_cast<void>(processes.gather("what comes next is not disturbed"));
                                      },
                                      {.rendezvous = rendezvous});
        CHECK(joined(errors) == "");
        CHECK(wrong == 0);
        for (const auto& count : runs) CHECK(count == 1);
      }
}

TEST_CASE("processes share the items, and the dearest go first") {
  std::mutex guard;
  std::vector<std::size_t> order;
  std::set<int> ranks;
  const auto errors = run_ranks(3, [&](Communicator& processes) {
    DealOptions options;
    for (int i = 0; i < 12; ++i) options.costs.push_back(i);
    deal(
        processes, 12,
        [&](std::size_t item) {
          {
            const std::lock_guard lock(guard);
            order.push_back(item);
            ranks.insert(processes.rank());
          }
          sleep_ms(20);
          return std::string();
        },
        options);
  });
  CHECK(joined(errors) == "");
  CHECK(ranks.size() == 3);
  REQUIRE(order.size() == 12);
  for (std::size_t i = 0; i < 3; ++i) CHECK(order[i] >= 9); // three begin at once
  CHECK(order.back() <= 2);
}

TEST_CASE("process 0 sees results in the items' order while others compute, and how many there are") {
  std::vector<std::size_t> seen, done;
  const auto errors = run_ranks(3, [&](Communicator& processes) {
    DealOptions options;
    options.on_result = [&](std::size_t item, const std::string& result) {
      CHECK(processes.first());
      CHECK(result == result_of(item));
      seen.push_back(item);
    };
    options.on_progress = [&](std::size_t n) { done.push_back(n); };
    deal(
        processes, 10,
        [](std::size_t item) {
          sleep_ms(item == 0 ? 50 : 1);
          return result_of(item);
        },
        options);
  });
  CHECK(joined(errors) == "");
  CHECK(seen == std::vector<std::size_t>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9});
  CHECK(std::is_sorted(done.begin(), done.end()));
  CHECK(done.front() == 0);
}

TEST_CASE("what an item throws ends the work of all, with the process named; others are asked to stop") {
  for (const std::size_t bad : {std::size_t{0}, std::size_t{2}, std::size_t{9}}) {
    CAPTURE(bad);
    std::atomic<int> begun = 0, stopped = 0, said = 0;
    const auto errors = run_ranks(3, [&](Communicator& processes) {
      std::atomic<bool> stop = false;
      DealOptions options;
      options.stop = [&] { stop = true; };
      try {
        deal(
            processes, 40,
            [&](std::size_t item) -> std::string {
              ++begun;
              if (item == bad) throw ValueError("item is bad");
              for (int i = 0; i < 20 && !stop; ++i) sleep_ms(1);
              if (stop) throw Interrupted("asked to stop");
              return {};
            },
            options);
      } catch (const distributed::DistributedError& error) {
        const std::string what = error.what();
        said += what.find("item is bad") != std::string::npos && what.find("process ") == 0 &&
                        what.find("(pid ") != std::string::npos
                    ? 1
                    : 0;
      }
      stopped += stop ? 1 : 0;
      static_cast<void>(processes.gather("the processes still understand each other"));
    });
    CHECK(joined(errors) == "");
    CHECK(said == 3);
    CHECK(stopped >= 1); // one that has nothing to do is told the end alone
    CHECK(begun < 40);
  }
}

TEST_CASE("an interruption of one process, at work or waiting, interrupts all") {
  for (const bool at_work : {true, false}) {
    CAPTURE(at_work);
    std::atomic<int> interrupted = 0;
    const auto errors = run_ranks(3, [&](Communicator& processes) {
      std::atomic<bool> stop = false;
      DealOptions options;
      options.stop = [&] { stop = true; };
      const bool mine = processes.rank() == 2;
      options.check = [&] {
        if (!at_work && mine) throw Interrupted("interrupted");
      };
      try {
        deal(
            processes, 3,
            [&](std::size_t) -> std::string {
              if (at_work && mine) throw Interrupted("interrupted");
              if (mine) return {};
              for (int i = 0; i < 5000 && !stop; ++i) sleep_ms(1);
              if (stop) throw Interrupted("asked to stop");
              return {};
            },
            options);
      } catch (const Interrupted& error) {
        interrupted += std::string(error.what()) == "interrupted" ? 1 : 0;
      }
    });
    CHECK(joined(errors) == "");
    CHECK(interrupted == 3);
  }
}

TEST_CASE("what process 0 throws while it shows results ends all") {
  std::atomic<int> said = 0;
  const auto errors = run_ranks(2, [&](Communicator& processes) {
    DealOptions options;
    options.on_result = [](std::size_t, const std::string&) { throw FileError("the disk is full"); };
    try {
      deal(
          processes, 10, [](std::size_t) { return std::string("x"); }, options);
    } catch (const distributed::DistributedError& error) {
      said += std::string(error.what()).find("the disk is full") != std::string::npos ? 1 : 0;
    }
  });
  CHECK(joined(errors) == "");
  CHECK(said == 2);
}

TEST_CASE("one process alone lets errors pass, and begins nothing after one") {
  Communicator alone;
  int begun = 0;
  CHECK_THROWS_AS(deal(alone, 5,
                       [&](std::size_t item) -> std::string {
                         ++begun;
                         if (item == 1) throw ShapeError("bad");
                         return {};
                       }),
                  ShapeError);
  CHECK(begun == 2);
}

TEST_CASE("damaged messages are refused") {
  // A report of an item that was not asked for.
  const auto errors = run_ranks(
      2, [](Communicator& processes) { deal(processes, 6, [](std::size_t) { return std::string("result"); }); },
      {.fate = [](RankMessage& message) {
        if (message.from == 1 && message.bytes.size() == 24) message.bytes[8] ^= std::byte{0x40};
        return true;
      }});
  CHECK(joined(errors).find("deal: process 1 reports") != std::string::npos);
}

TEST_CASE("a process that falls silent ends the deal of all, at work or waiting, within the timeout") {
  using Clock = std::chrono::steady_clock;
  for (const int lost : {0, 1}) {
    CAPTURE(lost);
    std::atomic<bool> mute = false;
    std::atomic<int> stopped = 0;
    const Clock::time_point begin = Clock::now();
    const auto errors = run_ranks(3,
                                  [&](Communicator& processes) {
                                    std::atomic<bool> stop = false;
                                    DealOptions options;
                                    options.stop = [&] { stop = true; };
                                    const auto run = [&](std::size_t item) -> std::string {
                                      if (item == 1) mute = true;
                                      for (int i = 0; i < 30000 && !stop && item < 2; ++i)
                                        sleep_ms(1); // the third process waits meanwhile
                                      return {};
                                    };
                                    try {
                                      deal(processes, 3, run, options);
                                    } catch (...) {
                                      stopped += stop ? 1 : 0;
                                      throw;
                                    }
                                  },
                                  {.fate = [&](RankMessage& message) { return message.from != lost || !mute; },
                                   .timeout = Communicator::Seconds(4)});
    const std::chrono::duration<double> taken = Clock::now() - begin;
    CHECK(taken.count() < 20.0);
    CHECK(stopped == 3);
    for (const std::string& error : errors) CHECK(error != "");
    CHECK(joined(errors).find(fmt::format("process {} (pid ", lost)) != std::string::npos);
    CHECK(joined(errors).find("has not answered for 4 s") != std::string::npos);
  }
}

TEST_CASE("processes with other numbers of items are refused") {
  const auto errors = run_ranks(2, [](Communicator& processes) {
    deal(processes, processes.first() ? 3 : 4, [](std::size_t) { return std::string(); });
  });
  CHECK(joined(errors).find("the number of items is not that of process 0") != std::string::npos);
}
