#pragma once
// Finds which axes of a parameter may be permuted differently at each index of its other axes. Not for users.

#include "core/tensor.h"
#include "permute/inference/recorded.h"

#include <cstdint>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace eg::permute {

/// Follows pairs of axes (a, b), "the permutation along a may depend on the index along b", through the calls of a
/// model. A pair of a parameter lives until some call lets it end: where a tensor lacks one of the axes, where an
/// operation mixes the indices of b, where axes are regrouped. A pair that lives promises nothing: it says that reading
/// the parameter so is worth the points.
class Dependences {
public:
  /// No pair of an input lives.
  void declare_input(const Tensor& input);
  /// All pairs of a parameter's axes live at first.
  void declare(const Tensor& parameter);
  void read(const RecordedCall& call);
  /// For each axis of a parameter those that it depends on, without circles; where both of two axes could depend on
  /// each other, the later one does. Axes that those depend on are among them.
  std::vector<std::vector<int>> of(const Tensor& parameter);

private:
  using Pair = std::uint32_t; ///< 0: it does not live
  /// Pairs of a tensor's axes, row a, column b.
  struct Pairs {
    int rank = 0;
    std::vector<Pair> all;
    Pair& at(int a, int b) { return all[static_cast<std::size_t>(a * rank + b)]; }
  };

  /// It has its values and comes from nothing that was declared.
  bool is_constant(const Tensor& t) const;
  Pair fresh();
  Pair find(Pair p);
  void unite(Pair a, Pair b);
  bool lives(Pair p) { return find(p) != 0; }
  void end(Pairs& pairs);
  void end_of(Pairs& pairs, int axis);
  Pairs none(const Tensor& t) const;
  /// What is known of a tensor: nothing lives of one that no parameter led to.
  Pairs of_input(const Tensor& t) const;
  void set(const Tensor& t, Pairs pairs);

  void read_symmetries(const RecordedCall& call, std::vector<Pairs>& in);
  void read_reshape(const RecordedCall& call, Pairs in);
  void read_picked(const RecordedCall& call, Pairs in, int axis);
  void read_joined(const RecordedCall& call, std::vector<Pairs>& in, int axis);

  std::vector<Pair> up_{0};
  std::unordered_map<std::uint64_t, Pairs> tensors_; // by Tensor::id
  std::unordered_set<std::uint64_t> varies_;         // likewise
};

} // namespace eg::permute
