#include "core/threads/parallel_common.h"

#include "core/base/error.h"
#include "core/threads/at_fork.h"
#include "core/threads/parallel.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <fmt/format.h>
#include <fstream>
#include <sched.h>
#include <string>
#include <unistd.h>

namespace eg::parallel {
namespace {

int affinity() {
  cpu_set_t set;
  CPU_ZERO(&set);
  return sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 1;
}

/// Processors that the cgroup grants (version 2, then 1); 0 when there is no quota.
double cgroup_quota() {
  std::ifstream v2("/sys/fs/cgroup/cpu.max");
  std::string quota;
  double period = 0;
  if (v2 >> quota >> period) return quota == "max" || period <= 0 ? 0.0 : std::strtod(quota.c_str(), nullptr) / period;
  std::ifstream v1_quota("/sys/fs/cgroup/cpu/cpu.cfs_quota_us");
  std::ifstream v1_period("/sys/fs/cgroup/cpu/cpu.cfs_period_us");
  double granted = 0;
  if (v1_quota >> granted && v1_period >> period && granted > 0 && period > 0) return granted / period;
  return 0.0;
}

std::atomic<bool> forked = false;

/// Registered at program start: a fork may come before the first use of threads.
const bool watching = [] {
  at_fork(nullptr, nullptr, [] { forked = true; });
  return true;
}();

int from_environment() {
  const char* text = std::getenv("EQUIGRAD_THREADS");
  if (text == nullptr || *text == '\0') return 0;
  char* end = nullptr;
  const long count = std::strtol(text, &end, 10);
  if (*end != '\0' || count < 1 || count > max_threads())
    throw ValueError(fmt::format("EQUIGRAD_THREADS: '{}' is not a number from 1 to {}", text, max_threads()));
  return static_cast<int>(count);
}

} // namespace

int max_threads() { return std::max(256, static_cast<int>(sysconf(_SC_NPROCESSORS_CONF))); }

ThreadChoice default_threads() {
  if (forked) return choice_after_fork();
  const int cores = affinity();
  const double quota = cgroup_quota();
  const std::string quota_text = quota > 0 ? fmt::format("{:.1f}", quota) : "none";
  if (const int wished = from_environment(); wished > 0)
    return {wished, fmt::format("EQUIGRAD_THREADS; affinity {}, cgroup quota {}", cores, quota_text)};
  const int granted = quota > 0 ? std::max(1, static_cast<int>(quota + 0.5)) : cores;
  return {std::min(cores, granted), fmt::format("affinity {}, cgroup quota {}", cores, quota_text)};
}

ThreadChoice choice_after_fork() { return {1, "child of a fork"}; }

void check_thread_count(int count) {
  if (count < 0 || count > max_threads())
    throw ValueError(fmt::format("threads: {} is not a number from 0 to {}", count, max_threads()));
}

} // namespace eg::parallel
