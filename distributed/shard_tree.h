#pragma once
// Lays out the balanced binary tree along which shards of a batch are summed.

#include <vector>

namespace eg::distributed {

/// Shards [first, last).
struct ShardRange {
  int first = 0, last = 0;
  int size() const { return last - first; }
};

/// A node of the tree over `shards` leaves, a power of two: it sums shards [index << level, (index + 1) << level).
struct TreeNode {
  int level = 0, index = 0;
  bool operator==(const TreeNode&) const = default;
  /// The left child of its parent has an even index; its sibling is the next one.
  bool is_sibling_of(const TreeNode& left) const {
    return level == left.level && left.index % 2 == 0 && index == left.index + 1;
  }
  TreeNode parent() const { return {level + 1, index / 2}; }
};

/// Which shards a process computes: [S r / N, S (r + 1) / N) for process r of N. 1 <= N <= S.
ShardRange shards_of(int rank, int size, int shards);

/// The fewest nodes that sum those shards, in order.
std::vector<TreeNode> roots_of(ShardRange range);

/// Where shard k of S begins in a batch: B k / S rounded down.
constexpr long long shard_begin(long long samples, int shard, int shards) { return samples * shard / shards; }

} // namespace eg::distributed
