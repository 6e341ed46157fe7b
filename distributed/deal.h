#pragma once
// Deals items of work to the processes of a run, each item to one that has time for it.

#include "distributed/communicator.h"

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

namespace eg::distributed {

/// What deal() calls beside its work. All may be empty.
struct DealOptions {
  /// Estimates, in any unit: with several processes the dearest items go first. Empty: in their order.
  std::vector<double> costs = {};
  /// On process 0: each result, in the order of the items, once those before it are there.
  std::function<void(std::size_t item, const std::string& result)> on_result = {};
  /// On process 0, before each of its items and ten times a second while it waits: how many results are there.
  std::function<void(std::size_t done)> on_progress = {};
  /// On each process while it waits for others; throws to end all.
  std::function<void()> check = {};
  /// When the work ends early: what a process is at is wanted no more. Called by another thread, and may be called
  /// again.
  std::function<void()> stop = {};
};

/// Calls `run` once for every item, on some process, and returns all results, in the order of the items, on every
/// process. What `run` returns must not depend on the process. Called by all processes with as many items. One process
/// alone computes the items in their order, and what they throw passes through.
/// With several, the first item that throws ends the work: no other is begun, those that have begun are asked to stop.
/// All processes then throw Interrupted if that item did, else DistributedError with the name of its process and host.
std::vector<std::string> deal(Communicator& processes, std::size_t items,
                              const std::function<std::string(std::size_t item)>& run, const DealOptions& options = {});

} // namespace eg::distributed
