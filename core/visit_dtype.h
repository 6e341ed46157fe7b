#pragma once
// Turns a dtype tag into its C++ type, in the library and in device modules.

#include "core/dtype.h"

#include <cstdint>

namespace eg {

/// Calls f.template operator()<T>() with the C++ type of the dtype, and returns what it returns.
template <class F> auto visit_dtype(DType dtype, F&& f) {
  switch (dtype) {
  case DType::f32:
    return f.template operator()<float>();
  case DType::f64:
    return f.template operator()<double>();
  case DType::i64:
    return f.template operator()<std::int64_t>();
  case DType::u8:
    return f.template operator()<std::uint8_t>();
  case DType::boolean:
    return f.template operator()<bool>();
  case DType::bf16:
    break;
  }
  return f.template operator()<BFloat16>();
}

/// The same for f32 and f64 only; the caller has checked that the dtype is floating.
template <class F> auto visit_floating(DType dtype, F&& f) {
  return dtype == DType::f32 ? f.template operator()<float>() : f.template operator()<double>();
}

/// The same for i64, u8 and bool only; the caller has checked that the dtype is whole.
template <class F> auto visit_whole(DType dtype, F&& f) {
  if (dtype == DType::i64) return f.template operator()<std::int64_t>();
  return dtype == DType::u8 ? f.template operator()<std::uint8_t>() : f.template operator()<bool>();
}

/// The same for all types but bf16; the caller has checked.
template <class F> auto visit_number(DType dtype, F&& f) {
  return is_floating(dtype) ? visit_floating(dtype, f) : visit_whole(dtype, f);
}

} // namespace eg
