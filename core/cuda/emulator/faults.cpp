#include "core/cuda/emulator/faults.h"

#include "core/cuda/emulator/machine.h"

#include <ucontext.h>

namespace eg::emulator {

namespace {

/// The instruction after the one that failed, as a call would leave it.
const void* after(const void* context) {
  const auto& machine_context = static_cast<const ucontext_t*>(context)->uc_mcontext;
#if defined(__x86_64__)
  const auto at = static_cast<std::uintptr_t>(machine_context.gregs[REG_RIP]);
#else
  const auto at = static_cast<std::uintptr_t>(machine_context.pc);
#endif
  return reinterpret_cast<const void*>(at + 1); // NOLINT(performance-no-int-to-ptr)
}

std::string words_for(const Emulator& e, int signal, const void* address) {
  if (signal == SIGFPE) return "integer division by zero";
  const auto* const at = static_cast<const std::byte*>(address);
  const std::byte* const stack = e.fibers.current()->stack;
  if (at < stack && at >= stack - (std::size_t{64} << 10))
    return "more than " + std::to_string(Fibers::stack_bytes) + " bytes of local memory";
  if (e.memory.contains(at)) return "access out of bounds of device memory, " + e.memory.describe(at);
  if (e.shared.contains(at)) return "access out of bounds of shared memory";
  if (reinterpret_cast<std::uintptr_t>(at) < 4096) return "access through a null pointer";
  return "access to an address that is no memory";
}

void pass_on(const struct sigaction& before, int signal, siginfo_t* info, void* context) {
  if ((before.sa_flags & SA_SIGINFO) != 0) return before.sa_sigaction(signal, info, context);
  if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN) return before.sa_handler(signal);
  sigaction(signal, &before, nullptr); // the instruction runs again and ends the program
}

void on_fault(int signal, siginfo_t* info, void* context) {
  Emulator& e = machine();
  if (!e.in_kernel() || !e.seeing || pthread_equal(pthread_self(), e.host) == 0) {
    for (std::size_t i = 0; i < FaultHandlers::signals.size(); ++i)
      if (FaultHandlers::signals[i] == signal) pass_on(e.handlers_before[i], signal, info, context);
    return;
  }
  e.seeing = false;
  e.fail([&] { return Finding(words_for(e, signal, info->si_addr)) << ", " << after(context); });
}

} // namespace

FaultHandlers::FaultHandlers() {
  Emulator& e = machine();
  stack_t stack{};
  stack.ss_sp = e.signal_stack.data();
  stack.ss_size = e.signal_stack.size();
  sigaltstack(&stack, &stack_before_);
  struct sigaction action {};
  action.sa_sigaction = on_fault;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER; // it leaves by a switch, not by a return
  for (std::size_t i = 0; i < signals.size(); ++i) sigaction(signals[i], &action, &e.handlers_before[i]);
}

FaultHandlers::~FaultHandlers() {
  const Emulator& e = machine();
  for (std::size_t i = 0; i < signals.size(); ++i) sigaction(signals[i], &e.handlers_before[i], nullptr);
  sigaltstack(&stack_before_, nullptr);
}

} // namespace eg::emulator
