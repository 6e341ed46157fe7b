#pragma once
// Reads a tape and finds the points of every tensor. Not for users: they make a ModelSymmetries.

#include "core/call.h"
#include "permute/inference/points.h"

#include <unordered_map>
#include <vector>

namespace eg::permute {

/// Listens while a function runs. Tensors that it was not told of are constants: their values count.
class TapeReader : private Recorder {
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

  Points points_;
  std::unordered_map<std::uint64_t, TensorPoints> tensors_; // by Tensor::id
  std::vector<std::pair<Tensor, std::string>> constants_;   // kept for their values, with the place of their first use
  bool open_ = true;
};

} // namespace eg::permute
