#pragma once
// Stores weights of products in fewer bits, for inference: decoding is bound by memory, so fewer bytes take less time.

#include "core/ops.h"

#include <array>
#include <cstdint>
#include <string_view>

namespace eg::nn {

/// How the matrices of products are stored.
enum class WeightStorage : std::uint8_t {
  full, ///< f32 (or f64), as trained
  bf16, ///< rounded to 8 significant bits: half the bytes
  int8, ///< whole numbers -127 to 127 with a scale for each row (quantize_int8): a quarter of the bytes
};
/// By "f32", "bf16", "int8". Throws ValueError that lists them.
WeightStorage weight_storage_named(std::string_view name);
std::string_view name_of(WeightStorage storage);

/// A matrix [out, in] in bf16 or 8 bits, of which no f32 copy is kept; or nothing. What is computed with it is summed
/// in the type of the matrix that it was made from.
class NarrowWeight {
public:
  NarrowWeight() = default;
  /// `weight` f32 or f64; `storage` bf16 or int8. Throws ValueError, naming an element, where it holds a NaN, an
  /// infinity, or, for bf16, a number beyond the largest.
  NarrowWeight(const Tensor& weight, WeightStorage storage);

  bool defined() const { return values_.defined(); }
  WeightStorage storage() const;
  /// x W^T + bias + addend as eg::linear; bias and addend may be undefined.
  Tensor linear(const Tensor& x, const Tensor& bias = {}, const Tensor& addend = {}) const;
  /// Rows of the matrix by ids [...] i64 -> [..., in].
  Tensor rows(const Tensor& ids) const;
  /// What it is made of, for a module that moves it to a device; undefined where there is none.
  std::array<Tensor*, 2> parts() { return {&values_, &scales_}; }

private:
  Tensor values_; ///< codes u8, or bf16
  Tensor scales_; ///< undefined for bf16
  DType dtype_ = DType::f32;
};

} // namespace eg::nn
