#include "nn/narrow_weight.h"

#include "core/base/error.h"
#include "core/base/named_values.h"
#include "core/call.h"
#include "core/device/transfer.h"

#include <fmt/format.h>

#include <algorithm>

namespace eg::nn {
namespace {

constexpr NamedValues<WeightStorage, 3> storages{
    {{"f32", WeightStorage::full}, {"bf16", WeightStorage::bf16}, {"int8", WeightStorage::int8}}};

/// `weight` in bf16. Throws ValueError for what is not finite there.
Tensor rounded_to_bf16(const Tensor& weight) {
  Tensor rounded = weight.to(DType::bf16);
  const Tensor here = device::on_cpu(rounded);
  const auto* first = here.data<BFloat16>();
  constexpr unsigned exponent = 0x7F80; // all ones: a NaN or an infinity
  const auto* bad =
      std::find_if(first, first + rounded.numel(), [](BFloat16 x) { return (x.bits & exponent) == exponent; });
  if (bad == first + rounded.numel()) return rounded;
  const std::int64_t row = (bad - first) / weight.size(1), column = (bad - first) % weight.size(1);
  const std::string place = current_place();
  throw ValueError(fmt::format("bf16: weight is {} at [{}, {}]{}", weight.at({row, column}), row, column,
                               place.empty() ? "" : fmt::format(" (at {})", place)));
}

} // namespace

WeightStorage weight_storage_named(std::string_view name) { return value_named(storages, "weights", name); }

std::string_view name_of(WeightStorage storage) { return name_in(storages, storage); }

NarrowWeight::NarrowWeight(const Tensor& weight, WeightStorage storage) : dtype_(weight.dtype()) {
  const PauseRecording pause;
  if (weight.rank() != 2)
    throw ShapeError(fmt::format("a narrow weight must be [out, in], it is {}", weight.shape().str()));
  if (storage == WeightStorage::full) throw ValueError("a narrow weight is bf16 or int8");
  if (storage == WeightStorage::bf16) {
    values_ = rounded_to_bf16(weight);
    return;
  }
  Int8Matrix matrix = quantize_int8(weight);
  values_ = std::move(matrix.codes);
  scales_ = std::move(matrix.scales);
}

WeightStorage NarrowWeight::storage() const {
  if (!defined()) return WeightStorage::full;
  return scales_.defined() ? WeightStorage::int8 : WeightStorage::bf16;
}

Tensor NarrowWeight::linear(const Tensor& x, const Tensor& bias, const Tensor& addend) const {
  return scales_.defined() ? linear_int8(x, values_, scales_, bias, addend) : linear_bf16(x, values_, bias, addend);
}

Tensor NarrowWeight::rows(const Tensor& ids) const {
  const Tensor flat = ids.reshape({ids.numel()});
  const Tensor taken = index_select(values_, 0, flat);
  const Tensor wide = scales_.defined() ? dequantize_int8(taken, index_select(scales_, 0, flat)) : taken.to(dtype_);
  Shape shape = ids.shape();
  shape.push_back(values_.size(1));
  return wide.reshape(shape);
}

} // namespace eg::nn
