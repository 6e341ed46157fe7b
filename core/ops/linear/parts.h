#pragma once
// What the rows of x W^T + b share.

#include "core/blas.h"
#include "core/op.h"

#include <algorithm>
#include <cstdint>

namespace eg {

/// Shape of x W^T from inputs 0 and 1, x [..., in] and a matrix [out, in] of any type. Throws ShapeError.
Shape shape_of_product(const OpArgs& args);
/// Throws ShapeError where input i, a bias, is given and not [out].
void check_bias(const OpArgs& args, std::size_t i);
/// Throws ShapeError where input i, an addend, is given and has not the output's shape.
void check_addend(const OpArgs& args, std::size_t i, const Shape& shape);

/// x W^T + bias + addend where the products are exact: x and the wide weight [out, in] multiplied, the rest (inputs
/// `more` and `more` + 1, where given) added element by element.
Tensor exact_linear(const OpArgs& args, const Tensor& weight, std::size_t more);

/// What a tile of C holds before the product is added: bias, addend, both or (beta 0) nothing.
template <class T> struct Prefill {
  const T* bias = nullptr;
  const T* addend = nullptr;
  std::int64_t columns = 0;
  T* out = nullptr;

  T beta() const { return bias != nullptr || addend != nullptr ? T(1) : T(0); }

  void operator()(const blas::Tile& tile) const {
    for (std::int64_t i = tile.row; i < tile.row + tile.rows; ++i) {
      T* y = out + i * columns + tile.col;
      const T* more = addend != nullptr ? addend + i * columns + tile.col : nullptr;
      if (bias != nullptr && more != nullptr)
        for (std::int64_t j = 0; j < tile.cols; ++j) y[j] = bias[tile.col + j] + more[j];
      else if (bias != nullptr)
        std::copy_n(bias + tile.col, tile.cols, y);
      else if (more != nullptr)
        std::copy_n(more, tile.cols, y);
    }
  }
};

} // namespace eg
