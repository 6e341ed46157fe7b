#include "core/simd/transpose.h"

#include <cstddef>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/simd/transpose_simd.cpp"
#include "core/simd/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace eg::HWY_NAMESPACE {
namespace {

template <class T>
HWY_INLINE void TransposePlainly(const T* HWY_RESTRICT from, std::int64_t from_step, T* HWY_RESTRICT to,
                                 std::int64_t to_step, std::int64_t rows, std::int64_t columns) {
  for (std::int64_t c = 0; c < columns; ++c)
    for (std::int64_t r = 0; r < rows; ++r) to[c * to_step + r] = from[r * from_step + c];
}

#if HWY_TARGET == HWY_SCALAR || HWY_TARGET == HWY_EMU128
constexpr std::int64_t square_of_floats = 0, square_of_doubles = 0; // squares that vectors transpose: none
template <class T> HWY_INLINE void TransposeSquare(const T*, std::int64_t, T*, std::int64_t) {}
#else
constexpr std::int64_t square_of_floats = 4, square_of_doubles = 2;
HWY_INLINE void TransposeSquare(const float* HWY_RESTRICT from, std::int64_t from_step, float* HWY_RESTRICT to,
                                std::int64_t to_step) {
  const hn::FixedTag<float, 4> d;
  const hn::RepartitionToWide<decltype(d)> wide;
  const auto a = hn::LoadU(d, from), b = hn::LoadU(d, from + from_step);
  const auto c = hn::LoadU(d, from + 2 * from_step), e = hn::LoadU(d, from + 3 * from_step);
  const auto ab_low = hn::BitCast(wide, hn::InterleaveLower(d, a, b)); // a0 b0 a1 b1
  const auto ab_high = hn::BitCast(wide, hn::InterleaveUpper(d, a, b));
  const auto ce_low = hn::BitCast(wide, hn::InterleaveLower(d, c, e));
  const auto ce_high = hn::BitCast(wide, hn::InterleaveUpper(d, c, e));
  hn::StoreU(hn::BitCast(d, hn::InterleaveLower(wide, ab_low, ce_low)), d, to);
  hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(wide, ab_low, ce_low)), d, to + to_step);
  hn::StoreU(hn::BitCast(d, hn::InterleaveLower(wide, ab_high, ce_high)), d, to + 2 * to_step);
  hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(wide, ab_high, ce_high)), d, to + 3 * to_step);
}
HWY_INLINE void TransposeSquare(const double* HWY_RESTRICT from, std::int64_t from_step, double* HWY_RESTRICT to,
                                std::int64_t to_step) {
  const hn::FixedTag<double, 2> d;
  const auto a = hn::LoadU(d, from), b = hn::LoadU(d, from + from_step);
  hn::StoreU(hn::InterleaveLower(d, a, b), d, to);
  hn::StoreU(hn::InterleaveUpper(d, a, b), d, to + to_step);
}
#endif

template <class T>
void Transpose(const T* from, std::int64_t from_step, T* to, std::int64_t to_step, std::int64_t rows,
               std::int64_t columns) {
  constexpr std::int64_t square = sizeof(T) == 4 ? square_of_floats : square_of_doubles;
  if constexpr (square == 0) {
    TransposePlainly(from, from_step, to, to_step, rows, columns);
  } else {
    const std::int64_t whole_rows = rows / square * square, whole_columns = columns / square * square;
    for (std::int64_t r = 0; r < whole_rows; r += square)
      for (std::int64_t c = 0; c < whole_columns; c += square)
        TransposeSquare(from + r * from_step + c, from_step, to + c * to_step + r, to_step);
    TransposePlainly(from + whole_columns, from_step, to + whole_columns * to_step, to_step, whole_rows,
                     columns - whole_columns);
    TransposePlainly(from + whole_rows * from_step, from_step, to + whole_rows, to_step, rows - whole_rows, columns);
  }
}

void TransposeF32(const float* from, std::int64_t from_step, float* to, std::int64_t to_step, std::int64_t rows,
                  std::int64_t columns) {
  Transpose(from, from_step, to, to_step, rows, columns);
}
void TransposeF64(const double* from, std::int64_t from_step, double* to, std::int64_t to_step, std::int64_t rows,
                  std::int64_t columns) {
  Transpose(from, from_step, to, to_step, rows, columns);
}

} // namespace
} // namespace eg::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace eg {

HWY_EXPORT(TransposeF32);
HWY_EXPORT(TransposeF64);

namespace simd {

template <>
void transpose(const float* from, std::int64_t from_step, float* to, std::int64_t to_step, std::int64_t rows,
               std::int64_t columns) {
  HWY_DYNAMIC_DISPATCH(TransposeF32)(from, from_step, to, to_step, rows, columns);
}
template <>
void transpose(const double* from, std::int64_t from_step, double* to, std::int64_t to_step, std::int64_t rows,
               std::int64_t columns) {
  HWY_DYNAMIC_DISPATCH(TransposeF64)(from, from_step, to, to_step, rows, columns);
}

} // namespace simd
} // namespace eg
#endif
