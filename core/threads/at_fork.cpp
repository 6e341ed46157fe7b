#include "core/threads/at_fork.h"

#include "core/base/error.h"

#include <fmt/format.h>
#include <pthread.h>
#include <system_error>

namespace eg {

void at_fork(void (*before)(), void (*in_parent)(), void (*in_child)()) {
  if (const int error = pthread_atfork(before, in_parent, in_child); error != 0)
    throw Error(fmt::format("fork: its handlers cannot be registered: {}", std::generic_category().message(error)));
}

namespace {

/// Calls are its readers, a fork its writer. Writers have priority: threads that call without a pause would keep one
/// out.
#if defined(PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP)
pthread_rwlock_t calls = PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP;
#else
pthread_rwlock_t calls = PTHREAD_RWLOCK_INITIALIZER;
#endif
const pthread_rwlock_t nobody_calls = calls;

const bool watching = [] {
  // Constructed again in the child, because it still counts the parent's threads that wait for it.
  at_fork([] { pthread_rwlock_wrlock(&calls); }, [] { pthread_rwlock_unlock(&calls); }, [] { calls = nobody_calls; });
  return true;
}();

} // namespace

ForkWaits::ForkWaits() { pthread_rwlock_rdlock(&calls); }
ForkWaits::~ForkWaits() { pthread_rwlock_unlock(&calls); }

} // namespace eg
