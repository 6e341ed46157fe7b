#include "core/base/interrupt.h"

#include "core/base/context.h"

#include <utility>

namespace eg {

InterruptScope::InterruptScope(FunctionRef<void()> check)
    : check_(check), before_(std::exchange(execution_context().interrupt, &check_)) {}

InterruptScope::~InterruptScope() { execution_context().interrupt = before_; }

void poll_interrupt() {
  if (const FunctionRef<void()>* innermost = execution_context().interrupt; innermost != nullptr) (*innermost)();
}

KernelScope::KernelScope()
    : before_(std::exchange(execution_context().kernel_interrupt, execution_context().interrupt)) {}

KernelScope::~KernelScope() { execution_context().kernel_interrupt = before_; }

ChunkPoll::ChunkPoll() : check_(execution_context().kernel_interrupt) {}

void ChunkPoll::ask() const {
  // The pointer is this thread's own: on another one it is null or another.
  if (execution_context().kernel_interrupt == check_) (*check_)();
}

} // namespace eg
