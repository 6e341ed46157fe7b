#pragma once
// Ctrl-C: the first one asks the work to stop at its next step, the second one ends the program at once.

#include <atomic>

namespace eg::cli {

/// Installs handlers for SIGINT and SIGTERM and gives the flag that they raise.
const std::atomic<bool>& stop_flag();

/// Throws Interrupted when the flag is up.
void throw_if_stopped();

} // namespace eg::cli
