#pragma once
// Defines the element types and the run-time tag that names them.

#include "core/bf16.h"

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace eg {

/// Element type of a tensor.
enum class DType : std::uint8_t { f32, f64, i64, u8, boolean, bf16 };

/// Bytes of one element.
std::size_t size_of(DType dtype);

/// "f32", "f64", "i64", "u8", "bool" or "bf16".
std::string_view name_of(DType dtype);

/// Inverse of name_of. Throws ValueError for any other word.
DType dtype_named(std::string_view name);

/// True for f32 and f64: the types that have gradients and that operations compute in. bf16 is for storage: it is
/// moved, compared, printed and converted; matmul and linear() convert it to f32.
constexpr bool is_floating(DType dtype) { return dtype == DType::f32 || dtype == DType::f64; }

/// True for i64, u8 and bool: the types of whole numbers. Arithmetic computes them in i64.
constexpr bool is_whole(DType dtype) { return dtype == DType::i64 || dtype == DType::u8 || dtype == DType::boolean; }

/// The tag of a C++ element type: float, double, std::int64_t, std::uint8_t, bool or BFloat16.
template <class T>
inline constexpr DType dtype_of = [] {
  static_assert(sizeof(T) == 0, "not an element type: float, double, std::int64_t, std::uint8_t, bool or BFloat16");
  return DType{};
}();
template <> inline constexpr DType dtype_of<float> = DType::f32;
template <> inline constexpr DType dtype_of<double> = DType::f64;
template <> inline constexpr DType dtype_of<std::int64_t> = DType::i64;
template <> inline constexpr DType dtype_of<std::uint8_t> = DType::u8;
template <> inline constexpr DType dtype_of<bool> = DType::boolean;
template <> inline constexpr DType dtype_of<BFloat16> = DType::bf16;

} // namespace eg
