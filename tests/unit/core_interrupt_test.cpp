#include "core/base/interrupt.h"

#include "autograd/tape.h"
#include "core/ops.h"
#include "core/threads/parallel.h"

#include <atomic>
#include <chrono>
#include <doctest/doctest.h>
#include <thread>

using namespace eg;

namespace {

struct Stop {};

/// Throws at the call number `last`, and counts.
struct CountDown {
  int last;
  int asked = 0;
  void operator()() {
    if (++asked >= last) throw Stop{};
  }
};

} // namespace

TEST_CASE("an open scope is asked before every operation, and what it throws passes through") {
  const Tensor x = Tensor::ones({4});
  CountDown check{3};
  {
    const InterruptScope scope(check);
    exp(x);
    exp(x);
    CHECK_THROWS_AS(exp(x), Stop);
  }
  CHECK(check.asked == 3);
  exp(x);
  CHECK(check.asked == 3); // closed
}

TEST_CASE("the innermost scope is asked, and the outer one after it") {
  const Tensor x = Tensor::ones({4});
  CountDown outer{1000}, inner{1000};
  const InterruptScope around(outer);
  exp(x);
  {
    const InterruptScope scope(inner);
    exp(x);
    exp(x);
  }
  exp(x);
  CHECK(outer.asked == 2);
  CHECK(inner.asked == 2);
}

TEST_CASE("one large kernel stops between its chunks") {
  const Tensor a = Tensor::ones({1500, 1500});
  CountDown alone{1 << 30};
  {
    const InterruptScope scope(alone);
    matmul(a, a);
  }
  CHECK(alone.asked > 1); // before it and within it
  CountDown check{2};
  const InterruptScope scope(check);
  CHECK_THROWS_AS(matmul(a, a), Stop);
}

TEST_CASE("a gradient stops, its tape is used up, and the thread can go on") {
  const Tensor x = Tensor::ones({8, 8});
  Tape tape;
  Tensor y = x;
  for (int i = 0; i < 10; ++i) y = matmul(y, x);
  y = sum(y);
  CountDown check{5};
  {
    const InterruptScope scope(check);
    CHECK_THROWS_AS(tape.gradient(y, {x}), Stop);
  }
  CHECK_THROWS_AS(tape.gradient(y, {x}), AutogradError);
  Tape next;
  CHECK(next.gradient(sum(mul(x, x)), {x})[0].at({0, 0}) == 2.0);
}

TEST_CASE("loops outside a kernel are not stopped half-way") {
  CountDown check{1};
  const InterruptScope scope(check);
  std::atomic<int> chunks = 0;
  parallel::for_each(100, 1, [&](std::int64_t, std::int64_t) { ++chunks; });
  CHECK(chunks == 100);
  CHECK(check.asked == 0);
}

TEST_CASE("a thread is asked for its own work alone") {
  CountDown check{1};
  const InterruptScope scope(check);
  std::thread other([] {
    const Tensor a = Tensor::ones({600, 600});
    for (int i = 0; i < 20; ++i) matmul(a, a);
  });
  other.join();
  CHECK(check.asked == 0);
}

TEST_CASE("threads that share the pool do not answer for each other") {
  // While one waits for its own product it may take chunks of the other's, which must not throw there.
  const Tensor a = Tensor::ones({700, 700});
  std::atomic<bool> done = false;
  std::atomic<int> failed = 0;
  std::thread calm([&] {
    while (!done) try {
        matmul(a, a);
      } catch (...) {
        ++failed;
      }
  });
  const auto begin = std::chrono::steady_clock::now();
  const auto elapsed = [&] { return std::chrono::steady_clock::now() - begin; };
  int stopped = 0; // a slow build may not get to the second question in half a second
  while (elapsed() < std::chrono::milliseconds(500) || (stopped == 0 && elapsed() < std::chrono::minutes(1))) {
    CountDown check{2};
    const InterruptScope scope(check);
    try {
      matmul(a, a);
    } catch (const Stop&) {
      ++stopped;
    }
  }
  done = true;
  calm.join();
  CHECK(stopped > 0);
  CHECK(failed == 0);
}
