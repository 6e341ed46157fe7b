#pragma once
// Turns faults inside kernels into findings, and passes all others to the handlers that were there before.

#include <array>
#include <csignal>
#include <cstddef>

namespace eg::emulator {

/// The handlers of SIGSEGV, SIGBUS and SIGFPE while it lives. One at a time, by the thread that runs kernels.
class FaultHandlers {
public:
  static constexpr std::array<int, 3> signals = {SIGSEGV, SIGBUS, SIGFPE};

  FaultHandlers();
  ~FaultHandlers();
  FaultHandlers(const FaultHandlers&) = delete;
  FaultHandlers& operator=(const FaultHandlers&) = delete;

private:
  stack_t stack_before_{};
};

} // namespace eg::emulator
