#pragma once
// Prints notices about the other side and this one while a program serves or waits.

#include "apps/cli/shell/progress.h"
#include "apps/cli/shell/verb.h"

#include "apps/net/retry_policy.h"

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

namespace eg::cli {

/// For Service::on_trouble: "equigrad: WORDS" on stderr, the same words at most once a minute. `progress` is cleared
/// before and must live as long as what is returned.
std::function<void(const std::string&)> report_trouble(Progress& progress);

/// What the line before a notice is: one of progress, which the notice takes the place of, or a text.
enum class LineBefore : std::uint8_t { progress, text };

/// For RetryPolicy::on_pause: on a terminal, unless --quiet, why there is a pause and how long it is.
std::function<void(const net::ConnectionError&, std::chrono::milliseconds)> tell_waiting(const CommonOptions& common,
                                                                                         LineBefore before);

} // namespace eg::cli
