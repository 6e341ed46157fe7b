#pragma once
// Runs part of a test in a child of fork().

#include <chrono>
#include <csignal>
#include <functional>
#include <sys/prctl.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace eg::test {

/// True under AddressSanitizer, whose allocator stays locked in a child of fork() where a thread of the parent was in
/// it.
#if defined(__SANITIZE_ADDRESS__)
inline constexpr bool children_may_hang = true;
#else
inline constexpr bool children_may_hang = false;
#endif

/// Runs `child` in a child of fork(). Its result; -1: it did not end within twenty seconds.
inline int in_child(const std::function<int()>& child) {
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL); // a child of a child that is killed must not live on with our streams
    int result = 99;
    try {
      result = child();
    } catch (...) {
    }
    ::_exit(result);
  }
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  int status = 0;
  while (::waitpid(pid, &status, WNOHANG) == 0) {
    if (std::chrono::steady_clock::now() > end) {
      ::kill(pid, SIGKILL);
      ::waitpid(pid, &status, 0);
      return -1;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 100;
}

} // namespace eg::test
