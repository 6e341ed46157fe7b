#pragma once
// Reads a tape and finds the points of every tensor. Not for users: they make a ModelSymmetries.

#include "core/unpaused_recorder.h"
#include "permute/inference/dependence.h"
#include "permute/inference/points.h"
#include "permute/inference/rules.h"

#include <map>
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

  /// A tensor whose axes may be permuted: a parameter or an input. Numbers of an integer one may be changed alike. The
  /// permutation along an axis of a parameter may depend on the index along others, where calls allow that.
  void declare(const Tensor& leaf, bool is_parameter);
  /// Stops listening and takes the values of constants into account.
  void close();

  Points& points() { return points_; }
  /// A tensor that was declared or computed; any other one is a constant. Recorded calls are read first.
  const TensorPoints& of(const Tensor& t);

private:
  void record(const Event& event) override { calls_.emplace_back(event); }
  bool observes() const override { return true; }
  bool records_whole(const OpDef& op) const override { return is_read_whole(op); }
  void read_all();
  void read(const RecordedCall& call);
  TensorPoints points_of_leaf(const Tensor& leaf, bool is_parameter);
  const TensorPoints& known(const Tensor& t);
  const TensorPoints& add(const Tensor& t, TensorPoints known);

  Points points_;
  std::vector<RecordedCall> calls_; // not read yet
  Dependences dependences_;
  std::vector<std::pair<Tensor, bool>> declared_;           // not given points yet; true: a parameter
  std::unordered_map<std::uint64_t, TensorPoints> tensors_; // by Tensor::id
  std::map<std::uint64_t, Tensor> constants_;               // by Tensor::id: those whose values count
  std::vector<std::pair<TensorPoints, Shape>> leaves_;
  bool open_ = true;
};

} // namespace eg::permute
