#include "signals.h"

#include <nanobind/nanobind.h>

namespace eg::python {
namespace {

unsigned long main_thread = 0; // written once, while the module is imported

} // namespace

void SignalCheck::operator()() {
  constexpr std::chrono::milliseconds pause(50);
  const auto now = std::chrono::steady_clock::now();
  if (now - last_ < pause) return;
  last_ = now;
  const nanobind::gil_scoped_acquire locked;
  if (PyErr_CheckSignals() != 0) throw nanobind::python_error();
}

bool SignalCheck::wanted() { return PyThread_get_thread_ident() == main_thread; }

void SignalCheck::remember_main_thread() {
  const nanobind::object thread = nanobind::module_::import_("threading").attr("main_thread")();
  main_thread = nanobind::cast<unsigned long>(thread.attr("ident"));
}

} // namespace eg::python
