#pragma once
// Lists the calls of `bench ops`: inputs of the sizes that models use.

#include "core/op.h"
#include "core/ops.h"
#include "core/ops/list.h"

#include <cstdint>
#include <span>
#include <vector>

namespace eg::cli::bench {

/// Makes the inputs of a case.
struct Draw {
  DType dtype;
  RandomKey key;

  Tensor operator()(const Shape& shape) { return random_normal(shape, key = key.fold(1), 0.0, 1.0, dtype); }
  Tensor positive(const Shape& shape) { return random_uniform(shape, key = key.fold(1), 0.5, 2.0, dtype); }
  Tensor ids(const Shape& shape, std::int64_t count) { return random_integers(shape, key = key.fold(1), 0, count); }
  Tensor permutation(std::int64_t count) { return random_permutation(count, key = key.fold(1)); }
};

using Make = Sample (*)(Draw&);
using List = std::vector<std::int64_t>;

/// The token matrix of a ViT with 64 images of 65 tokens and MLP 2048, and with dim 512.
inline const Shape wide{4160, 2048};
inline const Shape tokens{4160, 512};
/// Attention of 64 images, 8 heads of 64.
inline const Shape heads{64, 8, 65, 64};
/// Scores of the same.
inline const Shape scores{64, 8, 65, 65};
/// What a convolutional layer sees: 16 images, 64 channels.
inline const Shape images{16, 64, 56, 56};

/// What one row of the registry is called with.
struct SizedRow {
  const OpDef* op;
  Make make;
};

/// Rows of a ViT: arithmetic, products, softmax, layer norm, indexing.
std::span<const SizedRow> basic_sizes();
/// Statistics, order, images, norms, backward rows, losses.
std::span<const SizedRow> further_sizes();
/// Moving elements: rearranging, masks, windows.
std::span<const SizedRow> moving_sizes();

/// Inputs for `op`: what the tables say; else a tensor [4160, 2048] for each input where the row has a sample whose
/// inputs all look alike and no attribute that counts axes or extents; else the row's own largest sample: for views,
/// whose cost does not depend on it.
Sample sample_of_model_size(const OpDef& op, Draw& draw);

} // namespace eg::cli::bench
