// Tensors made from numbers alone: functions without a row, there is nothing to differentiate.

#include "core/ops/rearrange/constructors.h"

#include "core/device/device.h"
#include "core/device/transfer.h"
#include "core/element.h"
#include "core/ops.h"
#include "core/strided.h"

#include <cmath>
#include <fmt/format.h>
#include <optional>

namespace eg {

namespace {

/// A tensor on the CPU for the numbers of one that brought_here() moves to where this thread makes tensors.
Tensor unwritten_on_cpu(const Shape& shape, DType dtype) { return Tensor::empty(shape, dtype, Device::cpu()); }

Tensor brought_here(const Tensor& x) {
  return x.has_storage() && !current_device().is_cpu() ? device::transferred(x, current_device()) : x;
}

constexpr double most = 1e15; // elements: more fit into no memory

/// The number as a whole one of 64 bits, where it is one.
std::optional<std::int64_t> whole(double value) {
  return holds<std::int64_t>(value) ? std::optional(static_cast<std::int64_t>(value)) : std::nullopt;
}

bool is_whole_type(DType dtype) { return dtype == DType::i64 || dtype == DType::u8 || dtype == DType::boolean; }

/// Numbers in start, start + step, ... before stop; their difference is taken modulo 2^64, where it is exact.
std::uint64_t count_of(std::int64_t start, std::int64_t stop, std::int64_t step) {
  if (step == 0 || (start != stop && (stop > start) != (step > 0)))
    throw ValueError(fmt::format("arange: step {} does not lead from {} to {}", step, start, stop));
  if (start == stop) return 0;
  const auto first = static_cast<std::uint64_t>(start), last = static_cast<std::uint64_t>(stop);
  const auto stride = static_cast<std::uint64_t>(step);
  const std::uint64_t count = step > 0 ? (last - first - 1) / stride + 1 : (first - last - 1) / (0 - stride) + 1;
  if (count > static_cast<std::uint64_t>(most)) throw ValueError(fmt::format("arange: {} numbers are too many", count));
  return count;
}

} // namespace

Tensor arange_whole(std::int64_t start, std::int64_t stop, std::int64_t step, DType dtype) {
  if (!is_whole_type(dtype))
    throw DTypeError(fmt::format("arange: whole numbers are i64, u8 or bool, not {}", name_of(dtype)));
  const std::uint64_t count = count_of(start, stop, step);
  const auto number = [&](std::uint64_t i) {
    return static_cast<std::int64_t>(static_cast<std::uint64_t>(start) + i * static_cast<std::uint64_t>(step));
  };
  Tensor y = unwritten_on_cpu({static_cast<std::int64_t>(count)}, dtype);
  visit_dtype(dtype, [&]<class T>() {
    if (count > 0 && !std::is_same_v<T, std::int64_t>) // the others are between these
      for (const std::int64_t end : {start, number(count - 1)}) element_of<T>("arange", static_cast<double>(end));
    T* at = y.mutable_data<T>("arange");
    for (std::uint64_t i = 0; i < count; ++i) at[i] = static_cast<T>(number(i));
  });
  return brought_here(y);
}

Tensor arange(double start, double stop, double step, DType dtype) {
  if (is_whole_type(dtype))
    if (const auto first = whole(start), last = whole(stop), stride = whole(step); first && last && stride)
      return arange_whole(*first, *last, *stride, dtype);
  const double count = std::ceil((stop - start) / step);
  if (step == 0 || !std::isfinite(count) || !(count >= 0))
    throw ValueError(fmt::format("arange: step {} does not lead from {} to {}", step, start, stop));
  if (count > most) throw ValueError(fmt::format("arange: {} numbers are too many", count));
  Tensor y = unwritten_on_cpu({static_cast<std::int64_t>(count)}, dtype);
  visit_dtype(dtype, [&]<class T>() {
    if (std::is_integral_v<T> && y.numel() > 0) // the last number is between these
      for (const double each : {start, step, start + (count - 1) * step})
        if (each != std::floor(each))
          throw ValueError(fmt::format("arange: {} is not a whole number, and {} holds no other; name a floating dtype",
                                       each, name_of(dtype)));
    T* at = y.mutable_data<T>("arange");
    for (std::int64_t i = 0; i < y.numel(); ++i) at[i] = element_of<T>("arange", start + static_cast<double>(i) * step);
  });
  return brought_here(y);
}

Tensor linspace(double start, double stop, std::int64_t steps, DType dtype) {
  if (steps < 0) throw ValueError(fmt::format("linspace: steps is {}; it must not be negative", steps));
  Tensor y = unwritten_on_cpu({steps}, dtype);
  const double step = steps > 1 ? (stop - start) / static_cast<double>(steps - 1) : 0.0;
  visit_dtype(dtype, [&]<class T>() {
    T* at = y.mutable_data<T>("linspace");
    for (std::int64_t i = 0; i < steps; ++i) { // from the nearer end
      const bool first_half = i < (steps + 1) / 2;
      const double number =
          first_half ? start + static_cast<double>(i) * step : stop - static_cast<double>(steps - 1 - i) * step;
      at[i] = element_of<T>("linspace", std::is_integral_v<T> ? std::trunc(number) : number);
    }
  });
  return brought_here(y);
}

Tensor eye(std::int64_t rows, std::int64_t columns, DType dtype) {
  if (columns == -1) columns = rows;
  if (rows < 0 || columns < 0)
    throw ValueError(fmt::format("eye: rows is {}, columns is {}; they must not be negative", rows, columns));
  Tensor y = unwritten_on_cpu({rows, columns}, dtype);
  y.fill(0.0);
  visit_dtype(dtype, [&]<class T>() {
    T* at = y.mutable_data<T>("eye");
    for (std::int64_t i = 0; i < std::min(rows, columns); ++i) at[i * columns + i] = T(true);
  });
  return brought_here(y);
}

Tensor full(const Shape& shape, double value, DType dtype) { return Tensor::full(shape, value, dtype); }

} // namespace eg
