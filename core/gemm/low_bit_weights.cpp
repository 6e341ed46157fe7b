#include "core/gemm/low_bit_weights.h"

#include "core/tensor.h"
#include "core/threads/parallel.h"

#include <algorithm>
#include <type_traits>

namespace eg::low_bit_weights {
namespace {

/// B in place, in pieces of about 64 KiB: enough of them to share out one of 768 x 768.
template <class B>
void skinny_tiled(std::int64_t m, std::int64_t n, const skinny_gemm::Operands<float, B>& p,
                  const blas::Addends<float>& plus) {
  const std::int64_t grain = parallel::grain_for_bytes(p.k * static_cast<std::int64_t>(sizeof(B)));
  parallel::for_each(n, (grain + 3) / 4 * 4, [&](std::int64_t begin, std::int64_t end) {
    skinny_gemm::Operands<float, B> part = p;
    part.beta = plus.any() ? 1.0F : 0.0F;
    part.b += begin * p.ldb;
    part.c += begin;
    if (p.scales != nullptr) part.scales += begin;
    plus.from(0, begin).fill(m, end - begin, part.c, part.ldc);
    skinny_gemm::product(m, end - begin, part);
  });
}

/// B widened to T, at most 4 MiB of it at a time.
template <class T, class B>
void widened_tiled(std::int64_t m, std::int64_t n, const skinny_gemm::Operands<T, B>& p, const blas::Addends<T>& plus) {
  const std::int64_t most =
      std::min(n, parallel::grain_for_bytes(p.k * static_cast<std::int64_t>(sizeof(T)), std::int64_t{1} << 22));
  Tensor room = Tensor::empty({most, p.k}, dtype_of<T>);
  T* const wide = room.mutable_data<T>("narrow");
  for (std::int64_t begin = 0; begin < n; begin += most) {
    const std::int64_t columns = std::min(most, n - begin);
    widen<T, B>(columns, p.k, p.b + begin * p.ldb, p.ldb, p.scales != nullptr ? p.scales + begin : nullptr, wide);
    blas::gemm_tiled<T>(m, columns, p.k, p.alpha, {p.a, p.lda, false}, {wide, std::max<std::int64_t>(p.k, 1), true},
                        plus.from(0, begin), p.c + begin, p.ldc, [](const blas::Tile&) {});
  }
}

} // namespace

template <class T, class B>
void product(std::int64_t m, std::int64_t n, const skinny_gemm::Operands<T, B>& p, const blas::Addends<T>& plus) {
  if (m == 0 || n == 0) return;
  if constexpr (std::is_same_v<T, float>)
    if (m <= skinny_gemm::most) return skinny_tiled<B>(m, n, p, plus);
  widened_tiled<T, B>(m, n, p, plus);
}

#define EG_INSTANTIATE(T, B)                                                                                           \
  template void product<T, B>(std::int64_t, std::int64_t, const skinny_gemm::Operands<T, B>&, const blas::Addends<T>&);
EG_INSTANTIATE(float, std::int8_t)
EG_INSTANTIATE(float, BFloat16)
EG_INSTANTIATE(double, std::int8_t)
EG_INSTANTIATE(double, BFloat16)
#undef EG_INSTANTIATE

} // namespace eg::low_bit_weights
