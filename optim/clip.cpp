#include "optim/optimizer.h"

#include "core/call.h"
#include "core/device/update_launch.h"
#include "core/ops.h"
#include "core/reduction.h"
#include "core/threads/parallel.h"

#include <fmt/format.h>

#include <cmath>
#include <utility>

namespace eg::optim {
namespace {

template <class T> double sum_of_squares(const T* x, std::int64_t count) {
  double lanes[8] = {}; // fixed partial sums: independent of the processor's vector width
  std::int64_t i = 0;
  for (; i + 8 <= count; i += 8)
    for (int k = 0; k < 8; ++k) lanes[k] += static_cast<double>(x[i + k]) * static_cast<double>(x[i + k]);
  for (int k = 0; i < count; ++i, ++k) lanes[k] += static_cast<double>(x[i]) * static_cast<double>(x[i]);
  return ((lanes[0] + lanes[4]) + (lanes[1] + lanes[5])) + ((lanes[2] + lanes[6]) + (lanes[3] + lanes[7]));
}

template <class T> std::vector<double> squares_of_chunks(const Tensor& packed) {
  const T* x = packed.data<T>();
  std::vector<double> parts(static_cast<std::size_t>(parallel::chunks(packed.numel(), norm_chunk)));
  parallel::for_each(packed.numel(), norm_chunk, [&](std::int64_t begin, std::int64_t end) {
    parts[static_cast<std::size_t>(begin / norm_chunk)] = sum_of_squares(x + begin, end - begin);
  });
  return parts;
}

/// Sums of squares of tensors on one device: its kernel computes the chunks' sums of many tensors at a time, and one
/// copy brings those of all.
class SquaresThere {
public:
  /// Starts the sums of all gradients that are on a device. Throws DeviceError for two devices.
  explicit SquaresThere(const std::vector<Tensor>& gradients) {
    std::int64_t chunks = 0;
    Device device;
    for (const Tensor& g : gradients) {
      if (!g.defined() || g.device().is_cpu()) continue;
      if (!device.is_cpu() && g.device() != device)
        throw DeviceError(fmt::format("gradient_norm: gradients are on {} and on {}", device.str(), g.device().str()));
      device = g.device();
      chunks += chunks_of(g);
    }
    if (device.is_cpu()) return;
    parts_ = Tensor::empty({chunks}, DType::f64, device);
    auto* to = reinterpret_cast<double*>(parts_.mutable_device_bytes("gradient_norm"));
    device::UpdateLaunches<Job> launches("gradient_norm", &device::Table::squares, {});
    for (const Tensor& g : gradients) {
      if (!g.defined() || g.device().is_cpu()) continue;
      launches.add(g.contiguous(), to);
      to += chunks_of(g);
    }
    launches.finish();
  }
  /// The sum of the next gradient that is on the device.
  double next(const Tensor& gradient) {
    if (values_.empty()) values_ = parts_.to_vector<double>();
    double total = 0.0;
    for (std::int64_t k = chunks_of(gradient); k > 0; --k) total += values_[taken_++];
    return total;
  }

private:
  using Job = device::SquaresJob;
  static std::int64_t chunks_of(const Tensor& x) { return (x.numel() + Job::chunk - 1) / Job::chunk; }

  Tensor parts_;
  std::vector<double> values_;
  std::size_t taken_ = 0;
};

/// Multiplies gradients, on a device many at a time. They are new tensors, because two gradients may share storage with
/// each other or with a value of the caller's.
void scale(std::vector<Tensor>& gradients, double factor) {
  const bool many = reduction() == Reduction::fast;
  device::UpdateLaunches<device::ScaledSumJob> there("clip_gradients", &device::Table::scaled_sum,
                                                     {factor, true, false, {}});
  for (Tensor& g : gradients) {
    if (!g.defined()) continue;
    if (g.device().is_cpu() || !many) {
      g = affine(g, factor, 0.0);
      continue;
    }
    Tensor scaled = Tensor::empty(g.shape(), g.dtype(), g.device());
    there.add(g.contiguous(), scaled.mutable_device_bytes("clip_gradients"));
    g = std::move(scaled);
  }
  there.finish();
}

/// The norm, with the bits of permuted gradients.
double exact_norm(const std::vector<Tensor>& gradients) {
  double total = 0.0;
  for (const Tensor& g : gradients) {
    if (!g.defined()) continue;
    const Tensor wide = g.to(DType::f64);
    total += sum(wide * wide).item();
  }
  return std::sqrt(total);
}

} // namespace

double gradient_norm(const std::vector<Tensor>& gradients) {
  const PauseRecording pause;
  for (const Tensor& g : gradients)
    if (g.defined() && !is_floating(g.dtype()))
      throw DTypeError(fmt::format("gradient_norm: a gradient is f32 or f64, not {}", name_of(g.dtype())));
  if (reduction() == Reduction::exact) return exact_norm(gradients);
  SquaresThere there(gradients);
  double total = 0.0;
  for (const Tensor& g : gradients) {
    if (!g.defined()) continue;
    if (!g.device().is_cpu()) {
      total += there.next(g);
      continue;
    }
    double sum = 0.0;
    for (const double part : chunk_squares(g)) sum += part;
    total += sum;
  }
  return std::sqrt(total);
}

std::vector<double> chunk_squares(const Tensor& gradient) {
  const Tensor packed = gradient.contiguous();
  return packed.dtype() == DType::f32 ? squares_of_chunks<float>(packed) : squares_of_chunks<double>(packed);
}

double clip_factor(double norm, double max_norm) {
  const double factor = max_norm / (norm + 1e-6);
  return factor >= 1.0 ? 1.0 : factor;
}

double clip_gradients(std::vector<Tensor>& gradients, double max_norm) {
  if (!(max_norm > 0.0)) throw ValueError(fmt::format("clip_gradients: max_norm must be positive, not {}", max_norm));
  const double norm = gradient_norm(gradients);
  const double factor = clip_factor(norm, max_norm);
  if (factor == 1.0) return norm;
  const PauseRecording pause;
  scale(gradients, factor);
  return norm;
}

} // namespace eg::optim
