#pragma once
// Permutes the patches of images.

#include "core/tensor.h"
#include "permute/permutation.h"

namespace eg::report {

/// The image [C, H, W] with its patches permuted by `rows` and the elements within each patch by `columns` (either may
/// have size 0: left alone), as paper 001's Fig. 7 draws them. Throws ShapeError when sizes do not fit.
Tensor shuffle_image(const Tensor& image, std::int64_t patch, const permute::Permutation& rows,
                     const permute::Permutation& columns);

} // namespace eg::report
