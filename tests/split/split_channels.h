#pragma once
// An edge without a network.

#include "apps/split/cloud_encoder.h"
#include "apps/split/service.h"
#include "support/local_channel.h"

namespace eg::test {

/// Attempts without pauses.
inline split_learning::RemoteOptions at_once() {
  split_learning::RemoteOptions o;
  o.retry_policy.pause = o.retry_policy.longest_pause = std::chrono::milliseconds(0);
  return o;
}

} // namespace eg::test
