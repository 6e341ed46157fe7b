#pragma once
// Runs work that stops through a flag rather than between operations: reading datasets, training runs.

#include "bindings.h"

#include <atomic>
#include <chrono>
#include <future>

namespace eg::python {

/// Runs f(&stop) on a thread of its own without the interpreter's lock while this one looks for signals; the first one
/// whose handler raises sets `stop`, and what it raised is thrown once f has come back.
template <class F> auto stoppable(F&& f) {
  const nb::gil_scoped_release unlocked;
  std::atomic<bool> stop = false;
  if (!handles_signals()) return f(&stop);
  auto work = std::async(std::launch::async, [&] { return f(&stop); });
  while (work.wait_for(std::chrono::milliseconds(20)) != std::future_status::ready) {
    try {
      look_at_signals();
    } catch (...) {
      stop = true;
      work.wait();
      throw;
    }
  }
  return work.get();
}

} // namespace eg::python
