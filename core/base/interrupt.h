#pragma once
// Stops long work from outside: on Ctrl-C in a language binding, or when a server's client disconnects.

#include "core/base/function_ref.h"

#include <atomic>

namespace eg {

/// Becomes true (in a signal handler, say) when long work is to end with Interrupted; null: never.
using StopFlag = const std::atomic<bool>*;

/// While it lives, `check` is called on this thread before every operation (those of a gradient's rules too) and
/// between the chunks of a kernel's loops that this thread runs itself; it throws to stop the work. Whatever it throws
/// passes through. A call that was stopped has written to nothing that its caller holds; a tape stopped in its backward
/// pass is used up. `check` is called often, so it should look at a clock first; it must outlive the scope. Scopes
/// nest: the innermost one is asked.
class InterruptScope {
public:
  explicit InterruptScope(FunctionRef<void()> check);
  ~InterruptScope();
  InterruptScope(const InterruptScope&) = delete;
  InterruptScope& operator=(const InterruptScope&) = delete;

private:
  FunctionRef<void()> check_;
  const FunctionRef<void()>* before_;
};

/// Asks this thread's innermost scope, if there is one.
void poll_interrupt();

/// While it lives, the loops of core/threads/parallel.h ask between chunks. Opened by call() around a kernel: what a
/// kernel fills is dropped when it stops half-way, which does not hold for other loops (an optimiser's).
class KernelScope {
public:
  KernelScope();
  ~KernelScope();
  KernelScope(const KernelScope&) = delete;
  KernelScope& operator=(const KernelScope&) = delete;

private:
  const FunctionRef<void()>* before_;
};

/// What one loop asks between its chunks. Made on the thread that begins the loop, and silent on every other one: a
/// worker, or a thread that helps with a loop of somebody else, has nobody to answer to.
class ChunkPoll {
public:
  ChunkPoll();
  void operator()() const {
    if (check_ != nullptr) ask();
  }

private:
  void ask() const;
  const FunctionRef<void()>* check_;
};

} // namespace eg
