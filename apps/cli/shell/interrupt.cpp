#include "apps/cli/shell/interrupt.h"

#include "core/base/error.h"

#include <csignal>

namespace eg::cli {
namespace {

std::atomic<bool> stopped{false}, signalled{false};
static_assert(std::atomic<bool>::is_always_lock_free, "a signal handler may touch lock-free atomics only");

extern "C" void raise_flag(int signal) {
  stopped = true;
  if (signalled.exchange(true)) {
    std::signal(signal, SIG_DFL);
    std::raise(signal);
  }
}

} // namespace

void catch_interrupts() {
  for (const int signal : {SIGINT, SIGTERM}) std::signal(signal, raise_flag);
  if (std::signal(SIGHUP, raise_flag) == SIG_IGN) std::signal(SIGHUP, SIG_IGN);
}

const std::atomic<bool>& stop_flag() { return stopped; }

void ask_to_stop() { stopped = true; }

void throw_if_stopped() {
  if (stopped) throw Interrupted("interrupted");
}

} // namespace eg::cli
