#include "autograd/accumulation.h"

#include "autograd/accumulate.h"
#include "autograd/tape.h"
#include "core/call.h"
#include "core/device/update_launch.h"
#include "core/ops.h"
#include "core/reduction.h"

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

/// Sums of gradients on devices, unrecorded and many in one launch. The bits are those of affine() and add().
class DeviceSums {
public:
  explicit DeviceSums(double share)
      : share_(share), began_(recording() ? Clock::now() : Clock::time_point()),
        first_(name, &device::Table::scaled_sum, {share, share != 1.0, false, {}}),
        later_(name, &device::Table::scaled_sum, {share, share != 1.0, true, {}}) {}

  /// sum += share g, where g is on a device and the sum may be formed in place; false where it is not done.
  bool added(Tensor& sum, const Tensor& g) {
    if (g.device().is_cpu() || reduction() != Reduction::fast || values_recording()) return false;
    if (!sum.defined()) {
      if (share_ == 1.0) return false; // g itself
      Tensor scaled = Tensor::empty(g.shape(), g.dtype(), g.device());
      first_.add(packed(g), scaled.mutable_device_bytes(name));
      sum = std::move(scaled);
    } else {
      if (!sum.exclusive() || !sum.is_contiguous() || sum.device() != g.device()) return false;
      later_.add(packed(g), sum.mutable_device_bytes(name));
    }
    bytes_ += 3.0 * static_cast<double>(g.nbytes());
    return true;
  }
  void finish() {
    first_.finish();
    later_.finish();
    if (bytes_ > 0 && recording()) notify_recorders(Activity{name, {.flops = 0, .bytes = bytes_}, began_});
  }

private:
  static constexpr const char* name = "gradient accumulation";
  static Tensor packed(const Tensor& g) {
    const PauseRecording pause;
    return g.contiguous();
  }
  double share_, bytes_ = 0;
  Clock::time_point began_;
  device::UpdateLaunches<device::ScaledSumJob> first_, later_;
};

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
  DeviceSums there(share);
  for (std::size_t i = 0; i < sums_.size(); ++i) {
    Tensor g = std::exchange(gradients[i], Tensor{});
    if (!g.defined() || there.added(sums_[i], g)) continue;
    if (share != 1.0) g = affine(g, share, 0.0);
    accumulate(sums_[i], std::move(g));
  }
  there.finish();
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
