#pragma once
// Handles Ctrl-C during long work: Python records a signal and waits for its main thread, which is inside C++.

namespace eg::python {

/// Lets Python's signal handlers run, at most every 50 ms. Called on Python's main thread, without the interpreter's
/// lock; throws nanobind::python_error with what a handler raised (KeyboardInterrupt).
void look_at_signals();
/// True on Python's main thread, where alone handlers run.
bool handles_signals();
/// Called once by the module, with the lock.
void remember_main_thread();

} // namespace eg::python
