#pragma once
// Lists the element types of tensor files, more than tensors have: which are read, as what, and how they are converted.

#include "core/dtype.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace eg::data {

/// What one number of a file is. f8_*, f6_*, f4: the small floats of the safetensors format.
enum class ElementType : std::uint8_t {
  boolean, ///< a byte, 0 or 1
  u8,
  i8,
  u16,
  i16,
  f16,
  bf16,
  u32,
  i32,
  f32,
  u64,
  i64,
  f64,
  c64, ///< two f32
  f8_e5m2,
  f8_e4m3,
  f8_e8m0,
  f8_e5m2fnuz,
  f8_e4m3fnuz,
  f6_e2m3,
  f6_e3m2,
  f4,
};

/// The safetensors name: "F32", "BF16", "BOOL", ...
std::string_view name_of(ElementType type);
/// Inverse of name_of; nothing for any other word.
std::optional<ElementType> element_named(std::string_view name);
/// Bits of one element; elements of fewer than 8 are packed without gaps.
unsigned bits_of(ElementType type);

/// What elements of a file become in a tensor. Without `widen` those of the same type alone are read: F32, F64, BF16,
/// I64, U8 and BOOL. With it every value is kept in a larger type: F16 and BF16 become f32; I8, I16, I32, U16, U32 and
/// U64 become i64. Nothing for types that are not read.
std::optional<DType> tensor_type(ElementType type, bool widen);

/// Converts `count` elements at `from` (bytes in any alignment; `swapped`: big-endian) to tensor elements at `to`,
/// where `type` is tensor_type(from_type, ...). False when a value has no counterpart: a U64 beyond 2^63 - 1, a BOOL
/// other than 0 and 1.
bool convert_elements(ElementType from_type, bool swapped, const std::byte* from, std::size_t count, DType type,
                      std::byte* to);
/// The same for elements that are in place and need no conversion: only checks them.
bool valid_elements(ElementType type, const std::byte* at, std::size_t count);

/// An IEEE 754 half-precision number, exactly; a NaN keeps its sign and bits.
float half_to_float(std::uint16_t bits);

} // namespace eg::data
