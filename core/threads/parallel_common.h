#pragma once
// Chooses the number of threads and gives the reason, for both implementations of core/threads/parallel.

#include <string>

namespace eg::parallel {

/// How to be given more threads by the system.
inline constexpr const char* more_threads =
    "raise the limit on processes (ulimit -u) or, for the threads' stacks, on address space (ulimit -v)";

/// Most threads that can be asked for: 256, or the machine's processors where it has more.
int max_threads();

struct ThreadChoice {
  int count = 1;
  std::string reason;
};

/// One thread: what a child of fork() has of its parent's.
ThreadChoice choice_after_fork();
/// That in a child of fork(); elsewhere EQUIGRAD_THREADS, else the least of affinity and cgroup quota. Throws
/// ValueError for a bad variable.
ThreadChoice default_threads();
/// Throws ValueError unless 0 <= count <= max_threads().
void check_thread_count(int count);

} // namespace eg::parallel
