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

} // namespace eg
