#pragma once
// Renders images for reports: matrices in colours.

#include "core/tensor.h"
#include "data/image.h"

namespace eg::report {

/// [C, H, W] with values in [0, 255] (clamped) as an image.
data::Image picture(const Tensor& image);

/// A matrix [rows, columns], dark for its least and bright for its largest entry. Throws ShapeError for an empty one.
data::Image heat_map(const Tensor& matrix);

/// The same in two colours around white: blue for -largest and less, red for largest and more. Throws ShapeError for an
/// empty matrix.
data::Image signed_map(const Tensor& matrix, double largest);

/// Cosine similarities of position embeddings [side * side, dim]: a grid of side x side maps, each of how one position
/// looks to all of them, with a light line between maps (paper 001, Fig. 9). Throws ShapeError when sizes do not fit.
data::Image position_map(const Tensor& embedding, std::int64_t side);

} // namespace eg::report
