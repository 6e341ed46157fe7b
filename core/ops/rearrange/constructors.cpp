// Tensors made from numbers alone: functions without a row, there is nothing to differentiate.

#include "core/ops.h"
#include "core/strided.h"

#include <cmath>
#include <fmt/format.h>

namespace eg {

Tensor arange(double start, double stop, double step, DType dtype) {
  const double count = std::ceil((stop - start) / step);
  if (step == 0 || !std::isfinite(count) || !(count >= 0))
    throw ValueError(fmt::format("arange: step {} does not lead from {} to {}", step, start, stop));
  if (count > 1e15) throw ValueError(fmt::format("arange: {} numbers are too many", count));
  Tensor y = Tensor::empty({static_cast<std::int64_t>(count)}, dtype);
  visit_dtype(dtype, [&]<class T>() {
    if (std::is_integral_v<T> && y.numel() > 0) // the last number lies between these
      for (const double each : {start, step, start + (count - 1) * step})
        if (each != std::floor(each))
          throw ValueError(fmt::format("arange: {} is not a whole number, and {} holds no other; name a floating dtype",
                                       each, name_of(dtype)));
    T* at = y.mutable_data<T>("arange");
    for (std::int64_t i = 0; i < y.numel(); ++i) at[i] = static_cast<T>(start + static_cast<double>(i) * step);
  });
  return y;
}

Tensor linspace(double start, double stop, std::int64_t steps, DType dtype) {
  if (steps < 0) throw ValueError(fmt::format("linspace: steps is {}; it must not be negative", steps));
  Tensor y = Tensor::empty({steps}, dtype);
  const double step = steps > 1 ? (stop - start) / static_cast<double>(steps - 1) : 0.0;
  visit_dtype(dtype, [&]<class T>() {
    T* at = y.mutable_data<T>("linspace");
    for (std::int64_t i = 0; i < steps; ++i) { // from the nearer end
      const bool first_half = i < (steps + 1) / 2;
      at[i] = static_cast<T>(first_half ? start + static_cast<double>(i) * step
                                        : stop - static_cast<double>(steps - 1 - i) * step);
    }
  });
  return y;
}

Tensor eye(std::int64_t rows, std::int64_t columns, DType dtype) {
  if (columns == -1) columns = rows;
  if (rows < 0 || columns < 0)
    throw ValueError(fmt::format("eye: rows is {}, columns is {}; they must not be negative", rows, columns));
  Tensor y = Tensor::zeros({rows, columns}, dtype);
  visit_dtype(dtype, [&]<class T>() {
    T* at = y.mutable_data<T>("eye");
    for (std::int64_t i = 0; i < std::min(rows, columns); ++i) at[i * columns + i] = T(true);
  });
  return y;
}

Tensor full(const Shape& shape, double value, DType dtype) { return Tensor::full(shape, value, dtype); }

} // namespace eg
