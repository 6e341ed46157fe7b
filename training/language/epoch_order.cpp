#include "training/language/epoch_order.h"

#include "core/tensor.h"

namespace eg::training {

std::span<const std::int64_t> EpochOrder::batch(std::int64_t step) {
  const std::int64_t epoch = step / batches(), first = step % batches() * batch_;
  if (epoch != epoch_) {
    order_ = random_permutation(samples_, key_.fold(static_cast<std::uint64_t>(epoch))).to_vector<std::int64_t>();
    epoch_ = epoch;
  }
  return std::span<const std::int64_t>(order_).subspan(static_cast<std::size_t>(first),
                                                       static_cast<std::size_t>(batch_));
}

} // namespace eg::training
