#pragma once
// Defines the arguments of the device kernels of quantize_int8 and dequantize_int8.

#include "core/dtype.h"

#include <cstdint>

namespace eg::device {

/// Codes and scales of the rows of a packed [rows, columns] weight, as the row quantize_int8 defines them. A number
/// that is not finite is reported.
struct QuantizeJob {
  DType type; ///< of weight and scales: f32 or f64
  const void* weight;
  std::uint8_t* codes;
  void* scales;
  std::int64_t rows, columns;
};

/// weight[r, i] = scales[r] codes[r, i], the codes as signed numbers; packed.
struct DequantizeJob {
  DType type; ///< of weight and scales: f32 or f64
  void* weight;
  const std::uint8_t* codes;
  const void* scales;
  std::int64_t rows, columns;
};

} // namespace eg::device
