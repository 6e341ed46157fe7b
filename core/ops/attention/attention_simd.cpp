#include "core/ops/attention/kernels.h"

#include <cmath>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/ops/attention/attention_simd.cpp"
#include "core/ops/softmax/rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace eg {
namespace HWY_NAMESPACE {
namespace {

using attention_kernels::Ahead;
using attention_kernels::Rows;

template <class T> void SoftmaxTile(T* s, std::int64_t rows, std::size_t keys, T* lse, const Ahead& ahead) {
  for (std::int64_t r = 0; r < rows; ++r, s += keys) {
    ahead.touch(r, 0, Ahead::most);
    const T largest = RowMax(s, keys);
    const T total = RowExpSum<true>(s, s, keys, largest);
    RowScale(s, s, keys, T{1} / total);
    lse[r] = largest + std::log(total);
  }
}

template <class T> void ProbabilityTile(T* s, std::int64_t rows, std::size_t keys, const T* lse, const Ahead& ahead) {
  for (std::int64_t r = 0; r < rows; ++r, s += keys) {
    ahead.touch(r, 0, 3);
    RowExp(s, s, keys, lse[r]);
  }
}

template <class T>
void ScoreGradientTile(const T* s, T* ds, std::int64_t rows, std::size_t keys, Rows<const T> g, Rows<const T> y,
                       std::size_t value_dim, const T* dlse, const Ahead& ahead) {
  for (std::int64_t r = 0; r < rows; ++r, s += keys, ds += keys) {
    ahead.touch(r, 3, Ahead::most);
    const T delta = RowDot(g.data + r * g.ld, y.data + r * y.ld, value_dim) - (dlse ? dlse[r] : T{0});
    RowWeighShifted(s, ds, ds, keys, delta);
  }
}

#define EG_TILE_KERNELS(SUFFIX, T)                                                                                     \
  void Softmax##SUFFIX(T* s, std::int64_t rows, std::size_t keys, T* lse, const Ahead& ahead) {                        \
    SoftmaxTile(s, rows, keys, lse, ahead);                                                                            \
  }                                                                                                                    \
  void Probability##SUFFIX(T* s, std::int64_t rows, std::size_t keys, const T* lse, const Ahead& ahead) {              \
    ProbabilityTile(s, rows, keys, lse, ahead);                                                                        \
  }                                                                                                                    \
  void ScoreGradient##SUFFIX(const T* s, T* ds, std::int64_t rows, std::size_t keys, Rows<const T> g, Rows<const T> y, \
                             std::size_t value_dim, const T* dlse, const Ahead& ahead) {                               \
    ScoreGradientTile(s, ds, rows, keys, g, y, value_dim, dlse, ahead);                                                \
  }
EG_TILE_KERNELS(F32, float)
EG_TILE_KERNELS(F64, double)
#undef EG_TILE_KERNELS

} // namespace
} // namespace HWY_NAMESPACE
} // namespace eg
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace eg {

#define EG_TILE_ENTRIES(SUFFIX, T)                                                                                     \
  template <> void softmax_tile<T>(T * s, std::int64_t rows, std::int64_t keys, T * lse, const Ahead& ahead) {         \
    HWY_DYNAMIC_DISPATCH(Softmax##SUFFIX)(s, rows, static_cast<std::size_t>(keys), lse, ahead);                        \
  }                                                                                                                    \
  template <>                                                                                                          \
  void probability_tile<T>(T * s, std::int64_t rows, std::int64_t keys, const T* lse, const Ahead& ahead) {            \
    HWY_DYNAMIC_DISPATCH(Probability##SUFFIX)(s, rows, static_cast<std::size_t>(keys), lse, ahead);                    \
  }                                                                                                                    \
  template <>                                                                                                          \
  void score_gradient_tile<T>(const T* s, T* ds, std::int64_t rows, std::int64_t keys, Rows<const T> g,                \
                              Rows<const T> y, std::int64_t value_dim, const T* dlse, const Ahead& ahead) {            \
    HWY_DYNAMIC_DISPATCH(ScoreGradient##SUFFIX)                                                                        \
    (s, ds, rows, static_cast<std::size_t>(keys), g, y, static_cast<std::size_t>(value_dim), dlse, ahead);             \
  }

HWY_EXPORT(SoftmaxF32);
HWY_EXPORT(SoftmaxF64);
HWY_EXPORT(ProbabilityF32);
HWY_EXPORT(ProbabilityF64);
HWY_EXPORT(ScoreGradientF32);
HWY_EXPORT(ScoreGradientF64);

namespace attention_kernels {
EG_TILE_ENTRIES(F32, float)
EG_TILE_ENTRIES(F64, double)
} // namespace attention_kernels
} // namespace eg
#undef EG_TILE_ENTRIES
#endif
