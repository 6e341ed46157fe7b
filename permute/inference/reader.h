#pragma once
// Reads a tape and finds the points of every tensor. Not for users: they make a ModelSymmetries.

#include "core/unpaused_recorder.h"
#include "permute/inference/points.h"

#include <unordered_map>
#include <vector>

namespace eg::permute {

/// Records while a function runs, through pauses too. A tensor whose computation was not recorded is a constant, and
/// its values count. If it has no values either, it could come from any leaf, and all leaves are fixed.
class TapeReader : private UnpausedRecorder {
public:
  TapeReader();
  ~TapeReader() override;
  TapeReader(const TapeReader&) = delete;
  TapeReader& operator=(const TapeReader&) = delete;

  /// A tensor whose axes may be permuted: a parameter or an input. Numbers of an integer one may be changed alike.
  void declare(const Tensor& leaf);
  /// Stops listening and takes the values of constants into account.
  void close();

  Points& points() { return points_; }
  /// A tensor that was declared or computed; any other one is a constant.
  const TensorPoints& of(const Tensor& t);

private:
  void record(const Event& event) override;
  bool observes() const override { return true; }
  const TensorPoints& add(const Tensor& t, TensorPoints known);
  void settle(const Tensor& constant);
  /// The list moves by automorphisms of the mask, or not at all where those cannot be found.
  void keep_to_mask(const PointsPtr& list, const Tensor& mask);

  Points points_;
  std::unordered_map<std::uint64_t, TensorPoints> tensors_; // by Tensor::id
  std::vector<std::pair<Tensor, std::string>> constants_;   // kept for their values, with the place of their first use
  std::vector<std::pair<TensorPoints, Shape>> leaves_;
  bool open_ = true;
};

} // namespace eg::permute
