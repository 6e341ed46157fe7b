#include "data/element_type.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>

namespace eg::data {

static_assert(std::endian::native == std::endian::little, "numbers of files are little-endian and copied as they lie");

namespace {

struct Row {
  std::string_view name;
  ElementType type;
  unsigned bits;
  std::optional<DType> same = {};  ///< the tensor type that is the same
  std::optional<DType> wider = {}; ///< the tensor type that holds every value
};

constexpr std::array rows{
    Row{"BOOL", ElementType::boolean, 8, DType::boolean, DType::boolean},
    Row{"U8", ElementType::u8, 8, DType::u8, DType::u8},
    Row{"I8", ElementType::i8, 8, {}, DType::i64},
    Row{"U16", ElementType::u16, 16, {}, DType::i64},
    Row{"I16", ElementType::i16, 16, {}, DType::i64},
    Row{"F16", ElementType::f16, 16, {}, DType::f32},
    Row{"BF16", ElementType::bf16, 16, DType::bf16, DType::f32},
    Row{"U32", ElementType::u32, 32, {}, DType::i64},
    Row{"I32", ElementType::i32, 32, {}, DType::i64},
    Row{"F32", ElementType::f32, 32, DType::f32, DType::f32},
    Row{"U64", ElementType::u64, 64, {}, DType::i64},
    Row{"I64", ElementType::i64, 64, DType::i64, DType::i64},
    Row{"F64", ElementType::f64, 64, DType::f64, DType::f64},
    Row{"C64", ElementType::c64, 64},
    Row{"F8_E5M2", ElementType::f8_e5m2, 8},
    Row{"F8_E4M3", ElementType::f8_e4m3, 8},
    Row{"F8_E8M0", ElementType::f8_e8m0, 8},
    Row{"F8_E5M2FNUZ", ElementType::f8_e5m2fnuz, 8},
    Row{"F8_E4M3FNUZ", ElementType::f8_e4m3fnuz, 8},
    Row{"F6_E2M3", ElementType::f6_e2m3, 6},
    Row{"F6_E3M2", ElementType::f6_e3m2, 6},
    Row{"F4", ElementType::f4, 4},
};

constexpr bool in_order() {
  for (std::size_t i = 0; i < rows.size(); ++i)
    if (static_cast<std::size_t>(rows[i].type) != i) return false;
  return true;
}
static_assert(in_order(), "rows are found by their place");

const Row& row_of(ElementType type) { return rows[static_cast<std::size_t>(type)]; }

/// The bits of the number at `at`, its bytes reversed where wanted.
template <class Bits> Bits bits_at(const std::byte* at, bool swapped) {
  std::array<std::byte, sizeof(Bits)> bytes;
  std::memcpy(bytes.data(), at, sizeof(Bits));
  if (swapped) std::reverse(bytes.begin(), bytes.end());
  return std::bit_cast<Bits>(bytes);
}

template <class Bits, class To, class Convert>
void each(const std::byte* from, bool swapped, std::size_t count, std::byte* to, Convert convert) {
  auto* out = reinterpret_cast<To*>(to);
  for (std::size_t i = 0; i < count; ++i) out[i] = convert(bits_at<Bits>(from + i * sizeof(Bits), swapped));
}

template <class Int> void to_i64(const std::byte* from, bool swapped, std::size_t count, std::byte* to) {
  each<Int, std::int64_t>(from, swapped, count, to, [](Int value) { return static_cast<std::int64_t>(value); });
}

/// Elements of the same type: as stored, or each with its bytes reversed.
void copy_elements(unsigned bytes, bool swapped, const std::byte* from, std::size_t count, std::byte* to) {
  if (count == 0) return;
  std::memcpy(to, from, count * bytes);
  if (!swapped) return;
  for (std::size_t i = 0; i < count; ++i) std::reverse(to + i * bytes, to + (i + 1) * bytes);
}

} // namespace

std::string_view name_of(ElementType type) { return row_of(type).name; }

std::optional<ElementType> element_named(std::string_view name) {
  const auto* row = std::find_if(rows.begin(), rows.end(), [&](const Row& known) { return known.name == name; });
  return row == rows.end() ? std::nullopt : std::optional(row->type);
}

unsigned bits_of(ElementType type) { return row_of(type).bits; }

std::optional<DType> tensor_type(ElementType type, bool widen) {
  return widen ? row_of(type).wider : row_of(type).same;
}

float half_to_float(std::uint16_t bits) {
  // The half's fields as a float with the same exponent field: 2^112 too small, and the scaling is exact, for
  // subnormal numbers too. What becomes 2^16 or more was infinite or NaN and gets the float's largest exponent.
  const std::uint32_t sign = (bits & 0x8000U) << 16;
  const std::uint32_t rest = (bits & 0x7FFFU) << 13;
  const float scaled = std::bit_cast<float>(rest) * 0x1p112F;
  const std::uint32_t finite = std::bit_cast<std::uint32_t>(scaled);
  return std::bit_cast<float>(sign | (rest >= 0x0F800000U ? rest | 0x7F800000U : finite));
}

bool valid_elements(ElementType type, const std::byte* at, std::size_t count) {
  if (type != ElementType::boolean) return true;
  return std::none_of(at, at + count, [](std::byte b) { return b > std::byte{1}; });
}

bool convert_elements(ElementType from_type, bool swapped, const std::byte* from, std::size_t count, DType type,
                      std::byte* to) {
  if (tensor_type(from_type, false) == type) {
    copy_elements(bits_of(from_type) / 8, swapped, from, count, to);
    return valid_elements(from_type, from, count);
  }
  switch (from_type) {
  case ElementType::f16:
    each<std::uint16_t, float>(from, swapped, count, to, half_to_float);
    return true;
  case ElementType::bf16:
    each<std::uint16_t, float>(from, swapped, count, to,
                               [](std::uint16_t bits) { return std::bit_cast<float>(std::uint32_t{bits} << 16); });
    return true;
  case ElementType::i8:
    to_i64<std::int8_t>(from, swapped, count, to);
    return true;
  case ElementType::i16:
    to_i64<std::int16_t>(from, swapped, count, to);
    return true;
  case ElementType::i32:
    to_i64<std::int32_t>(from, swapped, count, to);
    return true;
  case ElementType::u16:
    to_i64<std::uint16_t>(from, swapped, count, to);
    return true;
  case ElementType::u32:
    to_i64<std::uint32_t>(from, swapped, count, to);
    return true;
  case ElementType::u64:
    to_i64<std::int64_t>(from, swapped, count, to); // a value beyond is negative
    return std::all_of(reinterpret_cast<const std::int64_t*>(to), reinterpret_cast<const std::int64_t*>(to) + count,
                       [](std::int64_t value) { return value >= 0; });
  default:
    return false;
  }
}

} // namespace eg::data
