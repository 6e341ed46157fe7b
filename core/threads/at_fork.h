#pragma once
// Keeps the library's locks usable in a child of fork(), which has the parent's locks and none of its other threads.

namespace eg {

/// Has every fork() of this process call `before`, then `in_parent` and, in the child, `in_child`; null: nothing.
/// Handlers that are registered later run earlier before the fork and later after it. Throws Error when the system has
/// no memory for them.
void at_fork(void (*before)(), void (*in_parent)(), void (*in_child)());

/// Has fork() wait while it lives: for calls into other libraries, whose locks the child could not use. They are short,
/// and do not nest.
class ForkWaits {
public:
  ForkWaits();
  ~ForkWaits();
  ForkWaits(const ForkWaits&) = delete;
  ForkWaits& operator=(const ForkWaits&) = delete;
};

} // namespace eg
