#include "optim/average.h"

#include "core/base/error.h"
#include "core/device/update_launch.h"
#include "core/ops/views/strided_copy.h"
#include "core/threads/parallel.h"

#include <fmt/format.h>

#include <algorithm>

namespace eg::optim {
namespace {

/// a += share (w - a)
template <class T> void approach(Tensor& average, const Tensor& weights, double share) {
  constexpr std::int64_t grain = 32768;
  T* a = average.mutable_data<T>("average of weights");
  const T* w = weights.data<T>();
  const auto factor = static_cast<T>(share);
  parallel::for_each(average.numel(), grain, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) a[i] += factor * (w[i] - a[i]);
  });
}

} // namespace

WeightAverage::WeightAverage(const std::vector<Tensor>& parameters, double decay)
    : parameters_(parameters), decay_(decay) {
  if (!(decay > 0.0 && decay < 1.0))
    throw ValueError(fmt::format("weight average: decay must be in (0, 1), not {}", decay));
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const Tensor& p = parameters_[i];
    if (!p.defined() || !is_floating(p.dtype()) || !p.is_contiguous())
      throw ValueError(fmt::format("weight average: parameter {} must be f32 or f64 and densely packed", i));
    values_.push_back(packed_copy(p));
  }
}

void WeightAverage::update(std::int64_t step) {
  const auto t = static_cast<double>(step);
  const double share = 1.0 - std::min(decay_, (1.0 + t) / (10.0 + t));
  device::UpdateLaunches<device::ApproachJob> there("average of weights", &device::Table::approach, {share, {}});
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (!values_[i].device().is_cpu())
      there.add(parameters_[i], values_[i].mutable_device_bytes("average of weights"));
    else if (parameters_[i].dtype() == DType::f32)
      approach<float>(values_[i], parameters_[i], share);
    else
      approach<double>(values_[i], parameters_[i], share);
  }
  there.finish();
}

} // namespace eg::optim
