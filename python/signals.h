#pragma once
// Handles Ctrl-C during long work: Python records a signal and waits for its main thread, which is inside C++.

#include <chrono>

namespace eg::python {

/// Lets Python's signal handlers run, at most every 50 ms. Called without the interpreter's lock; throws
/// nanobind::python_error with what a handler raised (KeyboardInterrupt).
class SignalCheck {
public:
  void operator()();
  /// True on Python's main thread, where alone handlers run.
  static bool wanted();
  /// Called once by the module, with the lock.
  static void remember_main_thread();

private:
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

} // namespace eg::python
