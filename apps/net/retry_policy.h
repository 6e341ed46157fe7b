#pragma once
// Retries lost connections.

#include "apps/net/errors.h"

#include <atomic>
#include <chrono>
#include <functional>

namespace eg::net {

/// How often, and how long, a lost connection is made again, and a request to a cloud at capacity is sent again.
struct RetryPolicy {
  int attempts = 20;                    ///< to connect and to be answered, of one request
  std::chrono::milliseconds pause{100}; ///< before the second attempt; doubled for each, up to longest_pause
  std::chrono::milliseconds longest_pause{5000};
  const std::atomic<bool>* stop = nullptr; ///< ends the pauses with Interrupted
  /// Called before each pause with its reason and its length.
  std::function<void(const ConnectionError&, std::chrono::milliseconds)> on_pause = {};

  /// Waits after attempt number `attempt` (from 0), which ended with `lost`. Throws Interrupted; ConnectionError with
  /// the words of `lost` when that was the last one.
  void wait(int attempt, const ConnectionError& lost) const;

  /// Returns try_it(attempt), called again after each ConnectionError, each followed by forget() and the pause. Throws
  /// what wait() does, and whatever else try_it does.
  template <class Try, class Forget> auto keep(Try&& try_it, Forget&& forget) const {
    for (int attempt = 0;; ++attempt) try {
        return try_it(attempt);
      } catch (const ConnectionError& lost) {
        forget();
        wait(attempt, lost);
      }
  }
};

} // namespace eg::net
