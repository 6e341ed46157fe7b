#include "autograd/tape.h"
#include "core/call.h"
#include "core/memory/allocator.h"
#include "core/ops.h"

#include <doctest/doctest.h>

#include <memory>
#include <optional>

using namespace eg;

namespace {

/// Counts what it hears.
struct Counter : Recorder {
  int heard = 0;
  Counter() { open_recorder(this); }
  ~Counter() override { close_recorder(this); }
  Counter(const Counter&) = delete;
  Counter& operator=(const Counter&) = delete;
  void record(const Event&) override { ++heard; }
};

const Tensor x = Tensor::ones({2}, DType::f64);

} // namespace

TEST_CASE("a recorder that is closed in a pause is gone when the pause ends") {
  auto counter = std::make_unique<Counter>();
  Counter other;
  {
    const PauseRecording pause;
    counter.reset();
  }
  mul(x, x);
  CHECK(other.heard == 1);
  SUBCASE("a pause of that one alone, and another at its address") {
    std::optional<Counter> one;
    one.emplace();
    {
      const PauseRecording muted(&*one);
      one.reset();
      one.emplace();
      mul(x, x);
    }
    mul(x, x);
    CHECK(one->heard == 2);
  }
}

TEST_CASE("a recorder that is opened in a pause listens, goes on, and is deaf in the next pause") {
  std::optional<Counter> counter;
  Counter before;
  {
    const PauseRecording pause;
    CHECK_FALSE(recording());
    counter.emplace();
    CHECK(recording());
    mul(x, x);
    {
      const PauseRecording inner;
      CHECK_FALSE(recording());
      mul(x, x);
    }
    mul(x, x);
  }
  CHECK(counter->heard == 2);
  CHECK(before.heard == 0);
  mul(x, x);
  CHECK(counter->heard == 3);
  CHECK(before.heard == 1);
  {
    const PauseRecording pause;
    mul(x, x);
  }
  CHECK(counter->heard == 3);
}

TEST_CASE("a tape that is opened in a pause and outlives it gives gradients") {
  auto pause = std::make_unique<PauseRecording>();
  Tape tape;
  pause.reset();
  const Tensor y = sum(mul(x, x));
  CHECK(tape.gradient(y, {x})[0].to_vector<double>() == std::vector<double>{2, 2});
}

TEST_CASE("a custom operation may close a tape and open one") {
  auto outer = std::make_unique<Counter>();
  std::optional<Counter> opened;
  auto op = std::make_shared<CustomOp>();
  op->name = "swap recorders";
  op->forward = [&](std::span<const Tensor> in) -> std::vector<Tensor> {
    outer.reset();
    opened.emplace();
    return {in[0].detach()};
  };
  call(std::shared_ptr<const CustomOp>(op), std::span(&x, 1));
  CHECK(opened->heard == 1);
  mul(x, x);
  CHECK(opened->heard == 2);
}

TEST_CASE("a recorder may close another one while it listens") {
  struct Closer : Recorder {
    std::unique_ptr<Counter>& other;
    explicit Closer(std::unique_ptr<Counter>& counter) : other(counter) { open_recorder(this); }
    ~Closer() override { close_recorder(this); }
    void record(const Event&) override { other.reset(); }
  };
  std::unique_ptr<Counter> counter;
  Closer closer(counter);
  counter = std::make_unique<Counter>();
  mul(x, x);
  CHECK(counter == nullptr);
}

TEST_CASE("the place of a failure is said once, also where operations are made of others") {
  const PlaceScope place("encoder.0");
  const Tensor wide = Tensor::ones({300, 300});
  const struct Limit { // the product inside einsum finds no room
    std::size_t before = allocator::limit();
    Limit() { allocator::set_limit(allocator::stats().live_bytes + 1000); }
    ~Limit() { allocator::set_limit(before); }
  } limit;
  try {
    einsum("ij,jk->ik", {wide, wide});
    FAIL("accepted");
  } catch (const MemoryError& e) {
    const std::string message = e.what();
    CHECK(message.find("(at encoder.0)") == message.rfind("(at encoder.0)"));
    CHECK(message.ends_with("(at encoder.0)"));
  }
}
