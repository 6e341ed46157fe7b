#include "signals.h"

#include <chrono>
#include <nanobind/nanobind.h>

namespace eg::python {
namespace {

unsigned long main_thread = 0;                        // written once, while the module is imported
std::chrono::steady_clock::time_point last_look = {}; // on that thread

} // namespace

void look_at_signals() {
  constexpr std::chrono::milliseconds pause(50);
  const auto now = std::chrono::steady_clock::now();
  if (now - last_look < pause) return;
  last_look = now;
  const nanobind::gil_scoped_acquire locked;
  if (PyErr_CheckSignals() != 0) throw nanobind::python_error();
}

bool handles_signals() { return PyThread_get_thread_ident() == main_thread; }

void remember_main_thread() {
  const nanobind::object thread = nanobind::module_::import_("threading").attr("main_thread")();
  main_thread = nanobind::cast<unsigned long>(thread.attr("ident"));
}

} // namespace eg::python
