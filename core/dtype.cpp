#include "core/dtype.h"

#include "core/base/error.h"

#include <fmt/format.h>

namespace eg {

std::size_t size_of(DType dtype) {
  switch (dtype) {
  case DType::f32:
    return 4;
  case DType::f64:
  case DType::i64:
    return 8;
  case DType::bf16:
    return 2;
  case DType::u8:
  case DType::boolean:
    return 1;
  }
  return 0;
}

std::string_view name_of(DType dtype) {
  switch (dtype) {
  case DType::f32:
    return "f32";
  case DType::f64:
    return "f64";
  case DType::i64:
    return "i64";
  case DType::u8:
    return "u8";
  case DType::boolean:
    return "bool";
  case DType::bf16:
    return "bf16";
  }
  return "";
}

DType dtype_named(std::string_view name) {
  for (const DType dtype : {DType::f32, DType::f64, DType::i64, DType::u8, DType::boolean, DType::bf16})
    if (name_of(dtype) == name) return dtype;
  throw ValueError(fmt::format("dtype: '{}' is none of f32, f64, i64, u8, bool, bf16", name));
}

} // namespace eg
