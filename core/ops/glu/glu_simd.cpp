#include "core/ops/glu/kernels.h"

#include <algorithm>
#include <cstddef>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/ops/glu/glu_simd.cpp"
#include "core/ops/glu/gates-inl.h"

HWY_BEFORE_NAMESPACE();
namespace eg::HWY_NAMESPACE {
namespace {

template <Gate kind, Reduction r, class T> void ForwardLoop(const T* gate, const T* up, T* y, std::size_t n) {
  const TagOf<T, r> d;
  const std::size_t lanes = hn::Lanes(d);
  std::size_t i = 0;
  for (; i + lanes <= n; i += lanes)
    hn::StoreU(hn::Mul(Act<kind>(d, hn::LoadU(d, gate + i)), hn::LoadU(d, up + i)), d, y + i);
  if (i < n)
    StoreUpTo(hn::Mul(Act<kind>(d, LoadUpTo(d, gate + i, n - i)), LoadUpTo(d, up + i, n - i)), d, y + i, n - i);
}

template <Gate kind, Reduction r, class T>
void BackwardLoop(const T* gate, const T* up, const T* g, T* dgate, T* dup, std::size_t n) {
  const TagOf<T, r> d;
  const std::size_t lanes = hn::Lanes(d);
  for (std::size_t i = 0; i < n; i += lanes) {
    const std::size_t count = std::min(lanes, n - i);
    const bool whole = count == lanes;
    const auto gi = whole ? hn::LoadU(d, g + i) : LoadUpTo(d, g + i, count);
    const auto act = ActBoth<kind>(d, whole ? hn::LoadU(d, gate + i) : LoadUpTo(d, gate + i, count));
    const auto to_up = hn::Mul(gi, act.value);
    const auto to_gate = hn::Mul(hn::Mul(gi, whole ? hn::LoadU(d, up + i) : LoadUpTo(d, up + i, count)), act.slope);
    if (whole) {
      hn::StoreU(to_gate, d, dgate + i);
      hn::StoreU(to_up, d, dup + i);
    } else {
      StoreUpTo(to_gate, d, dgate + i, count);
      StoreUpTo(to_up, d, dup + i, count);
    }
  }
}

/// Calls f<kind, r>() for a kind that is known when the program runs and the present reduction.
template <class F> void Visit(Gate kind, F&& f) {
  const auto with = [&]<Gate k>() {
    if (reduction() == Reduction::exact)
      f.template operator()<k, Reduction::exact>();
    else
      f.template operator()<k, Reduction::fast>();
  };
  switch (kind) {
  case Gate::sigmoid:
    return with.template operator()<Gate::sigmoid>();
  case Gate::relu:
    return with.template operator()<Gate::relu>();
  case Gate::silu:
    return with.template operator()<Gate::silu>();
  case Gate::gelu:
    return with.template operator()<Gate::gelu>();
  case Gate::gelu_tanh:
    return with.template operator()<Gate::gelu_tanh>();
  }
}

#define EG_GLU_KERNELS(SUFFIX, T)                                                                                      \
  void GluForward##SUFFIX(Gate kind, const T* gate, const T* up, T* y, std::size_t n) {                                \
    Visit(kind, [&]<Gate k, Reduction r>() { ForwardLoop<k, r>(gate, up, y, n); });                                    \
  }                                                                                                                    \
  void GluBackward##SUFFIX(Gate kind, const T* gate, const T* up, const T* g, T* dgate, T* dup, std::size_t n) {       \
    Visit(kind, [&]<Gate k, Reduction r>() { BackwardLoop<k, r>(gate, up, g, dgate, dup, n); });                       \
  }
EG_GLU_KERNELS(F32, float)
EG_GLU_KERNELS(F64, double)
#undef EG_GLU_KERNELS

} // namespace
} // namespace eg::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace eg {

HWY_EXPORT(GluForwardF32);
HWY_EXPORT(GluForwardF64);
HWY_EXPORT(GluBackwardF32);
HWY_EXPORT(GluBackwardF64);

namespace glu_kernels {

#define EG_GLU_ENTRIES(SUFFIX, T)                                                                                      \
  template <> void forward<T>(Gate kind, const T* gate, const T* up, T* y, std::int64_t n) {                           \
    HWY_DYNAMIC_DISPATCH(GluForward##SUFFIX)(kind, gate, up, y, static_cast<std::size_t>(n));                          \
  }                                                                                                                    \
  template <> void backward<T>(Gate kind, const T* gate, const T* up, const T* g, T* dgate, T* dup, std::int64_t n) {  \
    HWY_DYNAMIC_DISPATCH(GluBackward##SUFFIX)(kind, gate, up, g, dgate, dup, static_cast<std::size_t>(n));             \
  }
EG_GLU_ENTRIES(F32, float)
EG_GLU_ENTRIES(F64, double)
#undef EG_GLU_ENTRIES

} // namespace glu_kernels
} // namespace eg
#endif
