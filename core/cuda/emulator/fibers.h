#pragma once
// Switches between stacks on one host thread: the host's own and those of fibers, which AddressSanitizer follows.

#include <cstddef>
#include <memory>
#include <pthread.h>
#include <vector>

namespace eg::emulator {

struct Thread;

/// A stack that is left and entered again.
struct Context {
  void* stack_pointer = nullptr;
  void* fake_stack = nullptr; ///< AddressSanitizer's
  const void* bottom = nullptr;
  std::size_t size = 0;
};

/// A stack on which threads of a block run, one at a time.
struct Fiber {
  Context context;
  std::byte* stack = nullptr; ///< lowest usable byte; a page below it cannot be touched
  Thread* thread = nullptr;
};

/// The fibers of one emulator.
class Fibers {
public:
  static constexpr std::size_t stack_bytes = std::size_t{64} << 10;

  /// `main` is what a fiber runs; it never returns.
  explicit Fibers(void (*main)()) : main_(main) {}
  ~Fibers();
  Fibers(const Fibers&) = delete;
  Fibers& operator=(const Fibers&) = delete;

  /// One that runs no thread. Throws std::bad_alloc.
  Fiber& take();
  /// The fiber that runs has no thread any more and will be left.
  void give_back(Fiber& fiber) { idle_.push_back(&fiber); }
  /// Forgets what every fiber was doing.
  void reset();

  /// From the host into a fiber; returns when a fiber leaves to the host.
  void enter(Fiber& fiber);
  /// From the fiber that runs into another, or back to the host for nullptr.
  void leave(Fiber& from, Fiber* to);
  /// Back to the host; nothing enters this fiber again before a reset.
  [[noreturn]] void abandon();
  /// The first thing that a fiber calls.
  static void arrived();
  Fiber* current() const { return current_; }
  const std::vector<std::unique_ptr<Fiber>>& all() const { return all_; }

private:
  void prepare(Fiber& fiber, std::size_t number) const;

  void (*main_)();
  Context host_;
  [[maybe_unused]] pthread_t host_thread_{}; ///< for AddressSanitizer
  Fiber* current_ = nullptr;
  std::vector<std::unique_ptr<Fiber>> all_;
  std::vector<Fiber*> idle_;
};

} // namespace eg::emulator
