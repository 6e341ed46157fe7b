#pragma once
// Handles Ctrl-C: the first stops the work at its next step, the second ends the program at once.

#include "core/base/interrupt.h"

#include <atomic>

namespace eg::cli {

/// Installs handlers for SIGINT, SIGTERM and, unless it is ignored (nohup), SIGHUP. The first thing that main does, so
/// that no work can be cut off that knows how to stop.
void catch_interrupts();

/// The flag that the handlers raise.
const std::atomic<bool>& stop_flag();

/// Raises it: what this process is at is wanted no more, because another one failed or was interrupted. A signal that
/// comes then is the first one.
void ask_to_stop();

/// Throws Interrupted when the flag is up.
void throw_if_stopped();

/// While it lives, the library's operations on this thread end with Interrupted when the flag is up.
class StopScope {
  static constexpr auto check = [] { throw_if_stopped(); };
  const InterruptScope scope_{check};
};

} // namespace eg::cli
