#include "core/base/interrupt.h"

#include <utility>

namespace eg {
namespace {

thread_local const FunctionRef<void()>* innermost = nullptr;
thread_local const FunctionRef<void()>* in_kernel = nullptr; // innermost, where a loop may stop

} // namespace

InterruptScope::InterruptScope(FunctionRef<void()> check) : check_(check), before_(std::exchange(innermost, &check_)) {}

InterruptScope::~InterruptScope() { innermost = before_; }

void poll_interrupt() {
  if (innermost != nullptr) (*innermost)();
}

KernelScope::KernelScope() : before_(std::exchange(in_kernel, innermost)) {}

KernelScope::~KernelScope() { in_kernel = before_; }

ChunkPoll::ChunkPoll() : check_(in_kernel) {}

void ChunkPoll::ask() const {
  if (in_kernel == check_) (*check_)(); // the pointer is this thread's own: on another one it is null or another
}

} // namespace eg
