// Children of fork() compute, whatever the parent's other threads were doing.

#include "core/ops.h"
#include "core/threads/parallel.h"
#include "support/in_child.h"

#include <doctest/doctest.h>

#include <atomic>
#include <functional>
#include <string>
#include <thread>

using namespace eg;
using eg::test::in_child;

namespace {

/// Sets the number of threads while it lives.
class Threads {
public:
  explicit Threads(int count) : before_(parallel::threads()) { parallel::set_threads(count); }
  ~Threads() { parallel::set_threads(before_); }
  Threads(const Threads&) = delete;
  Threads& operator=(const Threads&) = delete;

private:
  int before_;
};

/// A thread that computes until it goes.
class Busy {
public:
  explicit Busy(std::function<Tensor()> compute)
      : thread_([this, f = std::move(compute)] {
          while (!stop_) f();
        }) {}
  ~Busy() {
    stop_ = true;
    thread_.join();
  }
  Busy(const Busy&) = delete;
  Busy& operator=(const Busy&) = delete;

private:
  std::atomic<bool> stop_ = false;
  std::thread thread_;
};

struct Children {
  int hung = 0, wrong = 0;
};

/// What becomes of children that shall give the parent's bits while another thread computes the same.
Children children_of(int forks, const std::function<Tensor()>& compute) {
  const Tensor expected = compute();
  const Busy busy(compute);
  Children children;
  for (int i = 0; i < forks && children.hung == 0; ++i) {
    const int result = in_child([&] { return same_bits(compute(), expected) ? 0 : 1; });
    children.hung += result == -1 ? 1 : 0;
    children.wrong += result > 0 ? 1 : 0;
  }
  return children;
}

} // namespace

TEST_CASE("fork: children compute while another thread multiplies" * doctest::skip(eg::test::children_may_hang)) {
  const Threads two(2);
  const Tensor a = random_normal({300, 300}, {1, 0});
  const Children children = children_of(20, [&] { return matmul(a, a); });
  CHECK(children.hung == 0);
  CHECK(children.wrong == 0);
  CHECK(parallel::threads() == 2);
}

TEST_CASE("fork: children compute while another thread takes and returns blocks of memory" *
          doctest::skip(eg::test::children_may_hang)) {
  const Threads two(2);
  const Tensor a = random_normal({4, 4}, {1, 0});
  const Children children = children_of(400, [&] { return gelu(a); });
  CHECK(children.hung == 0);
  CHECK(children.wrong == 0);
}

TEST_CASE("fork: a child whose parent had workers stays on one thread, and says so") {
  const Threads two(2);
  const Tensor a = random_normal({300, 300}, {1, 0});
  const Tensor product = matmul(a, a);
  CHECK(in_child([&] {
          if (parallel::threads_reason() != "1 (child of a fork)") return 1;
          parallel::set_threads(1);
          parallel::set_threads(0);
          if (parallel::threads() != 1) return 2;
          if (parallel::backend().starts_with("oneTBB")) {
            try {
              parallel::set_threads(2);
              return 3;
            } catch (const Error& error) {
              if (std::string(error.what()).find("child of fork()") == std::string::npos) return 4;
            }
          }
          return in_child([&] { return same_bits(matmul(a, a), product) ? 0 : 1; });
        }) == 0);
}
