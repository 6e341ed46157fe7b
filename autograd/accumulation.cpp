#include "autograd/accumulation.h"

#include "autograd/accumulate.h"
#include "autograd/tape.h"
#include "core/ops.h"

#include <fmt/format.h>
#include <utility>

namespace eg {
namespace {

using Tensors = std::vector<Tensor>;

/// Number of samples: the extent that all tensors of the batch have along axis 0.
std::int64_t samples_of(const char* who, const Tensors& batch) {
  if (batch.empty()) throw ShapeError(fmt::format("{}: the batch has no tensors", who));
  for (const Tensor& t : batch)
    if (!t.defined() || t.rank() == 0 || t.size(0) == 0 || t.size(0) != batch[0].size(0))
      throw ShapeError(fmt::format("{}: every tensor of the batch needs the same samples along axis 0: one is {}, the "
                                   "first is {}",
                                   who, t.defined() ? t.shape().str() : "undefined",
                                   batch[0].defined() ? batch[0].shape().str() : "undefined"));
  return batch[0].size(0);
}

Tensors cut(const Tensors& batch, std::int64_t first, std::int64_t last) {
  Tensors part;
  for (const Tensor& t : batch) part.push_back(t.slice(0, first, last));
  return part;
}

} // namespace

GradientAccumulator::GradientAccumulator(double total) : total_(total) {
  if (!(total > 0.0)) throw ValueError(fmt::format("GradientAccumulator: the total must be positive, not {}", total));
}

void GradientAccumulator::add(Tensors gradients, double weight) {
  if (!(weight > 0.0) || seen_ + weight > total_ * (1.0 + 1e-12))
    throw ValueError(
        fmt::format("GradientAccumulator: weight {} on top of {} does not fit into {}", weight, seen_, total_));
  if (begun_ && gradients.size() != sums_.size())
    throw AutogradError(
        fmt::format("GradientAccumulator: {} gradients after {} of the part before", gradients.size(), sums_.size()));
  for (std::size_t i = 0; begun_ && i < sums_.size(); ++i) {
    const Tensor &sum = sums_[i], &g = gradients[i];
    if (sum.defined() && g.defined() && (sum.shape() != g.shape() || sum.dtype() != g.dtype()))
      throw AutogradError(fmt::format("GradientAccumulator: gradient {} is {} {}, that of the part before is {} {}", i,
                                      name_of(g.dtype()), g.shape().str(), name_of(sum.dtype()), sum.shape().str()));
  }
  const double share = weight / total_;
  sums_.resize(gradients.size());
  begun_ = true;
  seen_ += weight;
  for (std::size_t i = 0; i < sums_.size(); ++i) {
    Tensor g = std::exchange(gradients[i], Tensor{});
    if (!g.defined()) continue;
    if (share != 1.0) g = affine(g, share, 0.0);
    accumulate(sums_[i], std::move(g));
  }
}

Tensors GradientAccumulator::mean() && {
  if (seen_ < total_ * (1.0 - 1e-12))
    throw AutogradError(fmt::format("GradientAccumulator: parts of weight {} have come, {} are due", seen_, total_));
  return std::move(sums_);
}

ValueAndGradient accumulated_gradients(const std::function<Tensor(const Tensors&, std::int64_t)>& loss,
                                       const Tensors& parameters, const Tensors& batch, std::int64_t parts) {
  const std::int64_t samples = samples_of("accumulated_gradients", batch);
  if (parts < 1 || parts > samples)
    throw ValueError(fmt::format("accumulated_gradients: {} samples do not make {} parts", samples, parts));
  const PauseRecording pause;
  GradientAccumulator gradients(static_cast<double>(samples)), values(static_cast<double>(samples));
  for (std::int64_t k = 0; k < parts; ++k) {
    const std::int64_t first = samples * k / parts, last = samples * (k + 1) / parts;
    const Tensors part = cut(batch, first, last);
    Tape tape;
    const Tensor value = loss(part, k);
    gradients.add(tape.gradient(value, parameters), static_cast<double>(last - first));
    values.add({value}, static_cast<double>(last - first));
  }
  return {std::move(values).mean().front(), std::move(gradients).mean()};
}

Tensors per_sample_gradients(const ScalarFunction& loss, const Tensors& parameters, const Tensors& batch) {
  const std::int64_t samples = samples_of("per_sample_gradients", batch);
  const PauseRecording pause;
  Tensors all(parameters.size());
  for (std::int64_t i = 0; i < samples; ++i) {
    const Tensors sample = cut(batch, i, i + 1);
    Tape tape;
    const Tensor value = loss(sample);
    const Tensors gradients = tape.gradient(value, parameters);
    for (std::size_t p = 0; p < all.size(); ++p) {
      Shape shape = gradients[p].shape();
      shape.insert(0, samples);
      if (!all[p].defined()) all[p] = Tensor::empty(shape, gradients[p].dtype());
      all[p].select(0, i).copy_from(gradients[p]);
    }
  }
  return all;
}

} // namespace eg
