#pragma once
// Defines bfloat16, which keeps f32's exponent and 8 of its 24 significant bits: a type for storage, not for computing.

#include <bit>
#include <cstdint>

namespace eg {

/// One bf16 number. Conversions to it round to nearest, ties to even, also from double (no rounding twice); a NaN stays
/// a NaN; beyond the largest, 3.39e38, it becomes infinite. Conversions from it are exact.
struct BFloat16 {
  std::uint16_t bits = 0;

  BFloat16() = default;
  constexpr explicit BFloat16(float value) : bits(rounded(std::bit_cast<std::uint32_t>(value))) {}
  constexpr explicit BFloat16(double value) : BFloat16(to_odd(value)) {}
  constexpr explicit BFloat16(std::int64_t value) : BFloat16(static_cast<double>(value)) {}
  constexpr explicit BFloat16(bool value) : BFloat16(value ? 1.0F : 0.0F) {}
  constexpr explicit BFloat16(std::uint8_t value) : BFloat16(static_cast<float>(value)) {}

  constexpr operator float() const { return std::bit_cast<float>(std::uint32_t{bits} << 16); }

private:
  static constexpr std::uint16_t rounded(std::uint32_t f32) {
    if ((f32 & 0x7FFFFFFFU) > 0x7F800000U) return static_cast<std::uint16_t>(f32 >> 16 | 0x40U); // a quiet NaN
    const std::uint32_t odd = f32 >> 16 & 1U;
    return static_cast<std::uint16_t>((f32 + 0x7FFFU + odd) >> 16);
  }

  /// The f32 next to value towards zero, its last bit set where that is not value itself: rounding it to 8 bits then
  /// gives what rounding value would.
  static constexpr float to_odd(double value) {
    const auto nearest = static_cast<float>(value);
    if (value != value || static_cast<double>(nearest) == value) return nearest;
    auto f32 = std::bit_cast<std::uint32_t>(nearest);
    const double wide = nearest;
    if (value < 0 ? wide < value : wide > value) --f32;
    return std::bit_cast<float>(f32 | 1U);
  }
};

} // namespace eg
