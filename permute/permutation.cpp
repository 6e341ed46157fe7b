#include "permute/permutation.h"

#include "core/device/device.h"
#include "core/ops.h"

#include <fmt/format.h>
#include <numeric>
#include <sodium.h>

namespace eg::permute {
namespace {

void check_gather(const std::vector<std::int64_t>& gather) {
  const auto size = static_cast<std::int64_t>(gather.size());
  std::vector<bool> seen(gather.size(), false);
  for (std::int64_t i = 0; i < size; ++i) {
    const std::int64_t from = gather[static_cast<std::size_t>(i)];
    if (from < 0 || from >= size)
      throw ValueError(fmt::format("permutation: entry {} is {}, which is outside 0..{}", i, from, size - 1));
    if (seen[static_cast<std::size_t>(from)])
      throw ValueError(
          fmt::format("permutation: {} stands twice, second at entry {}; every index must occur once", from, i));
    seen[static_cast<std::size_t>(from)] = true;
  }
}

} // namespace

Permutation::Permutation(std::vector<std::int64_t> gather) : gather_(std::move(gather)) { check_gather(gather_); }

void Permutation::wipe() noexcept {
  sodium_memzero(gather_.data(), gather_.size() * sizeof(std::int64_t));
  gather_.clear();
}

Permutation Permutation::identity(std::int64_t size) {
  if (size < 0) throw ValueError(fmt::format("permutation: size must not be negative: {}", size));
  std::vector<std::int64_t> gather(static_cast<std::size_t>(size));
  std::iota(gather.begin(), gather.end(), std::int64_t{0});
  return Permutation(std::move(gather));
}

Permutation Permutation::random(std::int64_t size, RandomKey key) {
  RandomStream stream(key);
  Permutation drawn = identity(size);
  fisher_yates(drawn.gather_, [&](std::uint64_t bound) { return stream.below(bound); });
  return drawn;
}

Permutation Permutation::random_nonidentity(std::int64_t size, RandomKey key) {
  if (size < 2)
    throw ValueError(
        fmt::format("permutation: only the identity permutes {} element(s); size must be at least 2", size));
  return Permutation(random_nonidentity_permutation(size, key).to_vector<std::int64_t>());
}

bool Permutation::is_identity() const {
  for (std::size_t i = 0; i < gather_.size(); ++i)
    if (gather_[i] != static_cast<std::int64_t>(i)) return false;
  return true;
}

Permutation Permutation::inverse() const {
  std::vector<std::int64_t> gather(gather_.size());
  for (std::size_t i = 0; i < gather_.size(); ++i)
    gather[static_cast<std::size_t>(gather_[i])] = static_cast<std::int64_t>(i);
  return Permutation(std::move(gather));
}

Permutation Permutation::then(const Permutation& next) const {
  if (next.size() != size())
    throw ShapeError(fmt::format("permutation: cannot compose sizes {} and {}", size(), next.size()));
  std::vector<std::int64_t> gather(gather_.size());
  for (std::size_t i = 0; i < gather_.size(); ++i) gather[i] = (*this)[next.gather_[i]];
  return Permutation(std::move(gather));
}

Tensor Permutation::tensor() const { return Tensor::from<std::int64_t>(gather_, Shape{size()}); }

Tensor Permutation::apply(const Tensor& x, int axis) const {
  const int at = normalize_axis("permutation", axis, x.rank());
  if (x.shape()[at] != size())
    throw ShapeError(fmt::format("permutation: size {} does not fit axis {} of {}", size(), at, x.shape().str()));
  const DeviceScope there(x.device()); // where the indices are made
  return index_select(x, at, tensor());
}

Permutation from_paper001(const Permutation& p) { return p.inverse(); }

} // namespace eg::permute
