#pragma once
// Finds the automorphisms of a small graph with colours and labels. Not for users.

#include "permute/automorphisms.h"

#include <cstdint>
#include <vector>

namespace eg::permute {

/// Vertices with colours, and labels of ordered pairs. What is added to one place counts as a multiset.
class LabelledGraph {
public:
  explicit LabelledGraph(std::size_t vertices);
  void colour(std::size_t vertex, std::uint64_t value) { add(vertex, vertex, value); }
  void label(std::size_t from, std::size_t to, std::uint64_t value) { add(from, to, value); }

  /// Automorphisms as permutations of the first `count` vertices, which must determine where the others go. Throws
  /// ValueError when the search takes too long.
  PermutationGroup automorphisms(std::size_t count) const;
  /// Classes of vertices: two of one class can be exchanged while all others stay.
  std::vector<std::vector<std::int32_t>> twins() const;

private:
  void add(std::size_t from, std::size_t to, std::uint64_t value);
  Tensor matrix() const;

  std::size_t vertices_;
  std::vector<std::uint64_t> sums_; // [vertices, vertices]: hashes added up
};

} // namespace eg::permute
