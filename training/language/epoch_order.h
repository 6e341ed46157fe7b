#pragma once
// Selects the samples of a step, where samples are taken in passes.

#include "core/random.h"

#include <cstdint>
#include <span>
#include <vector>

namespace eg::training {

/// `samples` samples in passes of full batches; (key, epoch) alone draws the order of a pass, and a last batch that is
/// not full is left out.
class EpochOrder {
public:
  /// `samples` >= `batch` >= 1.
  EpochOrder(std::int64_t samples, std::int64_t batch, RandomKey key) : samples_(samples), batch_(batch), key_(key) {}

  std::int64_t batches() const { return samples_ / batch_; }
  /// The samples of a step; valid until the next call.
  std::span<const std::int64_t> batch(std::int64_t step);

private:
  std::int64_t samples_, batch_;
  RandomKey key_;
  std::int64_t epoch_ = -1;
  std::vector<std::int64_t> order_; ///< of that epoch
};

} // namespace eg::training
