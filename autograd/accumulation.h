#pragma once
// Computes gradients of a batch part by part: summed (gradient accumulation), or one for each sample.

#include "autograd/functional.h"

namespace eg {

/// The weighted mean of gradients that come one after another: sum_k (w_k / W) g_k with W = sum_k w_k. For a loss that
/// is a mean over samples and parts of w_k samples each, that is the whole batch's gradient up to rounding. One part
/// that is all of it keeps its bits.
class GradientAccumulator {
public:
  /// `total`: W. Throws ValueError unless positive.
  explicit GradientAccumulator(double total);
  /// Takes one part's gradients; undefined ones count as zero. Throws AutogradError when their number, shapes or types
  /// are not those of the part before, ValueError when the weights pass the total.
  void add(std::vector<Tensor> gradients, double weight);
  /// Throws AutogradError when the weights have not reached the total.
  std::vector<Tensor> mean() &&;

private:
  std::vector<Tensor> sums_;
  double total_, seen_ = 0.0;
  bool begun_ = false;
};

/// Value and gradient of a loss over a batch, computed in `parts` parts of (nearly) equal size along axis 0 of every
/// tensor of the batch, so that activations of one part at a time need memory. loss(part, k) is the mean over the
/// samples of part k and computes with `parameters`, which it captures. Equal to the whole batch's up to rounding.
/// Throws ShapeError when the tensors of the batch differ along axis 0 or are empty, ValueError unless 1 <= parts <=
/// samples, AutogradError like Tape::gradient. Tapes that are open do not record it.
ValueAndGradient accumulated_gradients(const std::function<Tensor(const std::vector<Tensor>&, std::int64_t)>& loss,
                                       const std::vector<Tensor>& parameters, const std::vector<Tensor>& batch,
                                       std::int64_t parts);

/// The gradient of every sample by itself: result[p] has the shape [B] + that of parameters[p], row i being d
/// loss(batch sample i)/d parameters[p]; loss gets every tensor of the batch cut to [i, i+1) along axis 0. Their mean
/// is the gradient of a mean loss over the batch. Sample by sample: B forward and backward passes of one sample, B
/// times the memory of the parameters. Tapes that are open do not record it. Throws like accumulated_gradients.
std::vector<Tensor> per_sample_gradients(const ScalarFunction& loss, const std::vector<Tensor>& parameters,
                                         const std::vector<Tensor>& batch);

} // namespace eg
