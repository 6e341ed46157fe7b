#include "core/at_fork.h"

#include "core/error.h"

#include <fmt/format.h>
#include <pthread.h>
#include <system_error>

namespace eg {

void at_fork(void (*before)(), void (*in_parent)(), void (*in_child)()) {
  if (const int error = pthread_atfork(before, in_parent, in_child); error != 0)
    throw Error(fmt::format("fork: its handlers cannot be registered: {}", std::generic_category().message(error)));
}

} // namespace eg
