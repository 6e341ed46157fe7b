#include "distributed/shard_tree.h"

namespace eg::distributed {

ShardRange shards_of(int rank, int size, int shards) {
  const auto begin = [&](long long r) { return static_cast<int>(r * shards / size); };
  return {begin(rank), begin(rank + 1LL)};
}

std::vector<TreeNode> roots_of(ShardRange range) {
  std::vector<TreeNode> roots;
  for (int k = range.first; k < range.last; ++k) {
    roots.push_back({0, k});
    while (roots.size() > 1 && roots.back().is_sibling_of(roots[roots.size() - 2])) {
      roots.pop_back();
      roots.back() = roots.back().parent();
    }
  }
  return roots;
}

} // namespace eg::distributed
