#include "optim/optimizer.h"

#include "core/call.h"
#include "core/ops.h"
#include "core/reduction.h"
#include "core/threads/parallel.h"

#include <fmt/format.h>

#include <cmath>

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

template <class T> double sum_of_squares(const Tensor& packed) {
  constexpr std::int64_t grain = 32768;
  const T* x = packed.data<T>();
  std::vector<double> parts(static_cast<std::size_t>(parallel::chunks(packed.numel(), grain)));
  parallel::for_each(packed.numel(), grain, [&](std::int64_t begin, std::int64_t end) {
    parts[static_cast<std::size_t>(begin / grain)] = sum_of_squares(x + begin, end - begin);
  });
  double total = 0.0;
  for (const double part : parts) total += part;
  return total;
}

} // namespace

double gradient_norm(const std::vector<Tensor>& gradients) {
  const PauseRecording pause;
  double total = 0.0;
  for (const Tensor& g : gradients) {
    if (!g.defined()) continue;
    if (!is_floating(g.dtype()))
      throw DTypeError(fmt::format("gradient_norm: a gradient is f32 or f64, not {}", name_of(g.dtype())));
    if (reduction() == Reduction::exact) { // the same for permuted gradients
      const Tensor wide = g.to(DType::f64);
      total += sum(wide * wide).item();
      continue;
    }
    const Tensor packed = g.contiguous();
    total += g.dtype() == DType::f32 ? sum_of_squares<float>(packed) : sum_of_squares<double>(packed);
  }
  return std::sqrt(total);
}

double clip_gradients(std::vector<Tensor>& gradients, double max_norm) {
  if (!(max_norm > 0.0)) throw ValueError(fmt::format("clip_gradients: max_norm must be positive, not {}", max_norm));
  const double norm = gradient_norm(gradients);
  const double factor = max_norm / (norm + 1e-6);
  if (factor >= 1.0) return norm;
  const PauseRecording pause;
  // New tensors, because two gradients may share storage with each other or with a value of the caller's.
  for (Tensor& g : gradients)
    if (g.defined()) g = affine(g, factor, 0.0);
  return norm;
}

} // namespace eg::optim
