// Computes the update rules that work element by element. Included after core/simd/simd-inl.h: by the CPU's
// kernels once per target, by the devices' with one lane.

#if defined(EQUIGRAD_UPDATE_KERNELS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef EQUIGRAD_UPDATE_KERNELS_INL_H
#undef EQUIGRAD_UPDATE_KERNELS_INL_H
#else
#define EQUIGRAD_UPDATE_KERNELS_INL_H
#endif

#include "core/simd/simd-inl.h"
#include "optim/kernels.h"

HWY_BEFORE_NAMESPACE();
namespace eg::optim::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
namespace simd = eg::HWY_NAMESPACE;

/// Runs step(first, lanes) over `count` elements. The last vector is partly filled but goes through the same code, so
/// that an element's new value does not depend on its position.
template <class D, class Step> HWY_INLINE void OverVectors(D d, std::int64_t count, Step step) {
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes) step(i, std::size_t{0});
  if (i < count) step(i, static_cast<std::size_t>(count - i));
}

/// `part` 0 stands for a full vector.
template <class D> HWY_INLINE hn::Vec<D> Read(D d, const hn::TFromD<D>* p, std::size_t part) {
  return part == 0 ? hn::LoadU(d, p) : simd::LoadUpTo(d, p, part);
}

template <class D> HWY_INLINE void Write(D d, hn::Vec<D> v, hn::TFromD<D>* p, std::size_t part) {
  if (part == 0)
    hn::StoreU(v, d, p);
  else
    simd::StoreUpTo(v, d, p, part);
}

template <class D> HWY_INLINE hn::Vec<D> Number(D d, double value) {
  return hn::Set(d, static_cast<hn::TFromD<D>>(value));
}

template <Reduction r, class T> HWY_INLINE void Sgd(const SgdNumbers& n, T* w, T* v, const T* g, std::int64_t count) {
  const simd::TagOf<T, r> d;
  const auto minus_rate = Number(d, -n.learning_rate);
  const auto decay = Number(d, n.weight_decay);
  const auto momentum = Number(d, n.momentum);
  OverVectors(d, count, [&](std::int64_t i, std::size_t part) HWY_ATTR {
    const auto weight = Read(d, w + i, part);
    const auto gradient = simd::MulAdd(d, decay, weight, Read(d, g + i, part));
    auto direction = gradient;
    if (v != nullptr) {
      const auto velocity = simd::MulAdd(d, momentum, Read(d, v + i, part), gradient);
      Write(d, velocity, v + i, part);
      direction = n.nesterov ? simd::MulAdd(d, momentum, velocity, gradient) : velocity;
    }
    Write(d, simd::MulAdd(d, minus_rate, direction, weight), w + i, part);
  });
}

template <Reduction r, class T>
HWY_INLINE void Adam(const AdamNumbers& n, T* w, T* m, T* v, const T* g, std::int64_t count) {
  const simd::TagOf<T, r> d;
  const auto keep = Number(d, n.keep);
  const auto decay = Number(d, n.weight_decay);
  const auto beta2 = Number(d, n.beta2);
  const auto rest1 = Number(d, 1.0 - n.beta1);
  const auto rest2 = Number(d, 1.0 - n.beta2);
  const auto minus_step = Number(d, -n.step_size);
  const auto root_scale = Number(d, n.root_scale);
  const auto eps = Number(d, n.eps);
  OverVectors(d, count, [&](std::int64_t i, std::size_t part) HWY_ATTR {
    const auto weight = hn::Mul(keep, Read(d, w + i, part));
    const auto gradient = simd::MulAdd(d, decay, weight, Read(d, g + i, part));
    const auto old_mean = Read(d, m + i, part);
    const auto mean = simd::MulAdd(d, rest1, hn::Sub(gradient, old_mean), old_mean);
    const auto square = simd::MulAdd(d, beta2, Read(d, v + i, part), hn::Mul(rest2, hn::Mul(gradient, gradient)));
    Write(d, mean, m + i, part);
    Write(d, square, v + i, part);
    const auto divisor = simd::MulAdd(d, hn::Sqrt(square), root_scale, eps);
    Write(d, simd::MulAdd(d, minus_step, hn::Div(mean, divisor), weight), w + i, part);
  });
}

template <Reduction r, class T>
HWY_INLINE void RmsProp(const RmsPropNumbers& n, T* w, T* v, T* b, const T* g, std::int64_t count) {
  const simd::TagOf<T, r> d;
  const auto minus_rate = Number(d, -n.learning_rate);
  const auto decay = Number(d, n.weight_decay);
  const auto alpha = Number(d, n.alpha);
  const auto rest = Number(d, 1.0 - n.alpha);
  const auto eps = Number(d, n.eps);
  const auto momentum = Number(d, n.momentum);
  OverVectors(d, count, [&](std::int64_t i, std::size_t part) HWY_ATTR {
    const auto weight = Read(d, w + i, part);
    const auto gradient = simd::MulAdd(d, decay, weight, Read(d, g + i, part));
    const auto square = simd::MulAdd(d, alpha, Read(d, v + i, part), hn::Mul(rest, hn::Mul(gradient, gradient)));
    Write(d, square, v + i, part);
    auto direction = hn::Div(gradient, hn::Add(hn::Sqrt(square), eps));
    if (b != nullptr) {
      direction = simd::MulAdd(d, momentum, Read(d, b + i, part), direction);
      Write(d, direction, b + i, part);
    }
    Write(d, simd::MulAdd(d, minus_rate, direction, weight), w + i, part);
  });
}

/// 1, -1, and for 0 and NaN x itself.
template <class D> HWY_INLINE hn::Vec<D> Sign(D d, hn::Vec<D> x) {
  const auto zero = hn::Zero(d);
  const auto negative = hn::IfThenElse(hn::Lt(x, zero), Number(d, -1.0), x);
  return hn::IfThenElse(hn::Gt(x, zero), Number(d, 1.0), negative);
}

template <Reduction r, class T> HWY_INLINE void Lion(const LionNumbers& n, T* w, T* m, const T* g, std::int64_t count) {
  const simd::TagOf<T, r> d;
  const auto minus_rate = Number(d, -n.learning_rate);
  const auto keep = Number(d, n.keep);
  const auto beta1 = Number(d, n.beta1);
  const auto rest1 = Number(d, 1.0 - n.beta1);
  const auto beta2 = Number(d, n.beta2);
  const auto rest2 = Number(d, 1.0 - n.beta2);
  OverVectors(d, count, [&](std::int64_t i, std::size_t part) HWY_ATTR {
    const auto gradient = Read(d, g + i, part);
    const auto mean = Read(d, m + i, part);
    const auto direction = Sign(d, simd::MulAdd(d, beta1, mean, hn::Mul(rest1, gradient)));
    Write(d, simd::MulAdd(d, beta2, mean, hn::Mul(rest2, gradient)), m + i, part);
    Write(d, simd::MulAdd(d, minus_rate, direction, hn::Mul(keep, Read(d, w + i, part))), w + i, part);
  });
}

} // namespace
} // namespace eg::optim::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
