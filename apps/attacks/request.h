#pragma once
// Turns what a person asks of the attacks, in words and numbers, into a table to be run.

#include "apps/attacks/table.h"
#include "core/base/interrupt.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace eg::attacks {

/// What is asked for; the fields have the command line's names. An empty text asks for all there is.
struct AttackRequest {
  std::string name = "all"; ///< an attack, or all
  std::string model;        ///< folder; empty: randomly initialised models, one of pictures, one of texts
  std::string scheme, base;
  std::string keys;     ///< fixed, fresh; empty: both
  std::string defences; ///< "noise,low-pass:3", or all; empty: none
  std::string data, data_dir;
  double noise = 0.3, delta = 0.05;
  std::int64_t tokens = 16, layer = -1, size = 0, pictures = 1000;
  Effort effort = {};
  bool learned = false; ///< all: also the attacks that learn
};

/// Throws ValueError, naming the nearest word, for an attack, scheme, base or defence that does not exist; for data
/// that the attack does not look at.
void check(const AttackRequest& request);

/// How several processes that were asked the same run one table.
struct Sharing {
  /// Replaces the bytes of the secret key by those of one process (permute/key.h); empty: this process alone.
  std::function<void(std::span<std::byte>)> agree = {};
  RunCells run_cells = {}; ///< who runs which cell; empty: this process runs all
};

/// Runs what is asked for, under a fresh secret key of which nothing is shown. Throws ValueError as check(), FileError,
/// Interrupted when `stop` becomes true while pictures are read; on_progress throws to stop the attacks.
std::vector<Cell> run_request(const AttackRequest& request, std::uint64_t seed, StopFlag stop,
                              std::function<void(double done, const std::string& what)> on_progress,
                              const Sharing& sharing = {});

} // namespace eg::attacks
