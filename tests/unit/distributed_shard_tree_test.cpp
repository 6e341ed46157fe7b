// Who computes which shards, and the tree that joins them: against enumeration.

#include "distributed/shard_tree.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

using namespace eg::distributed;

namespace {

/// "((0+1)+(2+3))": the sum of shards [first, last) that one process computes alone.
std::string balanced(int first, int last) {
  if (last - first == 1) return std::to_string(first);
  const int middle = (first + last) / 2;
  return "(" + balanced(first, middle) + "+" + balanced(middle, last) + ")";
}

std::string sum_of(TreeNode node) { return balanced(node.index << node.level, (node.index + 1) << node.level); }

/// Fewest blocks [k 2^l, (k + 1) 2^l) that fill [first, last), by trying all.
int fewest_blocks(int first, int last) {
  std::vector<int> fewest(static_cast<std::size_t>(last) + 1, 1 << 20);
  fewest[static_cast<std::size_t>(first)] = 0;
  for (int begin = first; begin < last; ++begin)
    for (int size = 1; begin + size <= last; size *= 2)
      if (begin % size == 0) {
        int& there = fewest[static_cast<std::size_t>(begin + size)];
        there = std::min(there, fewest[static_cast<std::size_t>(begin)] + 1);
      }
  return fewest[static_cast<std::size_t>(last)];
}

/// What owners do: take the roots in order, and join a node with its sibling as soon as both are there.
template <class IsSibling> std::string joined(int processes, int shards, IsSibling is_sibling) {
  struct Entry {
    TreeNode node;
    std::string sum;
  };
  std::vector<Entry> stack;
  for (int p = 0; p < processes; ++p)
    for (const TreeNode& node : roots_of(shards_of(p, processes, shards))) {
      stack.push_back({node, sum_of(node)});
      while (stack.size() > 1 && is_sibling(stack[stack.size() - 2].node, stack.back().node)) {
        const Entry right = stack.back();
        stack.pop_back();
        stack.back() = {stack.back().node.parent(), "(" + stack.back().sum + "+" + right.sum + ")"};
      }
    }
  return stack.size() == 1 ? stack.front().sum : "not joined";
}

bool siblings(TreeNode left, TreeNode right) { return right.is_sibling_of(left); }

} // namespace

TEST_CASE("processes share all shards evenly, in order") {
  for (int shards = 1; shards <= 64; shards *= 2)
    for (int processes = 1; processes <= shards; ++processes) {
      CAPTURE(shards);
      CAPTURE(processes);
      int next = 0;
      for (int p = 0; p < processes; ++p) {
        const ShardRange range = shards_of(p, processes, shards);
        CHECK(range.first == next);
        CHECK(range.size() >= shards / processes);
        CHECK(range.size() <= (shards + processes - 1) / processes);
        next = range.last;
      }
      CHECK(next == shards);
    }
}

TEST_CASE("roots are the fewest blocks that fill a range") {
  int longest = 0;
  for (int first = 0; first <= 64; ++first)
    for (int last = first; last <= 64; ++last) {
      CAPTURE(first);
      CAPTURE(last);
      const std::vector<TreeNode> roots = roots_of({first, last});
      CHECK(static_cast<int>(roots.size()) == fewest_blocks(first, last));
      int next = first;
      for (const TreeNode& node : roots) {
        CHECK((node.index << node.level) == next);
        next = (node.index + 1) << node.level;
      }
      CHECK(next == last);
      longest = std::max(longest, static_cast<int>(roots.size()));
    }
  CHECK(longest == 10); // 2 log2(64) - 2, of [1, 63): what README.md says is the most
}

TEST_CASE("shards are joined along one tree whatever the number of processes is") {
  for (int shards = 1; shards <= 32; shards *= 2)
    for (int processes = 1; processes <= shards; ++processes) {
      CAPTURE(processes);
      CHECK(joined(processes, shards, siblings) == balanced(0, shards));
    }
}

TEST_CASE("negative control: nodes that are joined as they come give other trees") {
  const auto always = [](TreeNode, TreeNode) { return true; };
  for (int processes = 3; processes <= 8; ++processes) CHECK(joined(processes, 8, always) != balanced(0, 8));
}

TEST_CASE("every sample is in one shard") {
  for (const long long samples : {1LL, 7LL, 8LL, 9LL, 1000LL, 1LL << 40})
    for (int shards = 1; shards <= 64; shards *= 2) {
      CHECK(shard_begin(samples, 0, shards) == 0);
      CHECK(shard_begin(samples, shards, shards) == samples);
      for (int k = 0; k < shards; ++k) {
        const long long size = shard_begin(samples, k + 1, shards) - shard_begin(samples, k, shards);
        CHECK(size >= samples / shards);
        CHECK(size <= (samples + shards - 1) / shards);
      }
    }
}
