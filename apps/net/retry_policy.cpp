#include "apps/net/retry_policy.h"

#include <fmt/format.h>

#include <algorithm>
#include <thread>

namespace eg::net {

void RetryPolicy::wait(int attempt, const ConnectionError& lost) const {
  using Clock = std::chrono::steady_clock;
  if (attempt + 1 >= attempts)
    throw ConnectionError(attempts <= 1 ? lost.what() : fmt::format("{} (after {} attempts)", lost.what(), attempts));
  const std::chrono::milliseconds time = std::min(pause * (1 << std::min(attempt, 16)), longest_pause);
  if (on_pause) on_pause(lost, time);
  const auto until = Clock::now() + time;
  while (Clock::now() < until) {
    if (stop != nullptr && stop->load()) throw Interrupted("interrupted while the cloud was out of reach");
    std::this_thread::sleep_for(std::min(std::chrono::milliseconds(20), longest_pause));
  }
}

} // namespace eg::net
