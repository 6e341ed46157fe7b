#pragma once
// Generates faces, a substitute where CelebA is missing.

#include "core/base/interrupt.h"
#include "data/dataset.h"

namespace eg::data {

/// Drawn faces in the manner of CelebA, RGB, with twelve of its attributes ("Bangs", "Eyeglasses", "Smiling", ...),
/// each drawn by itself and true of a quarter to half of the faces. Image i of a split depends on (seed, split, i,
/// side) alone. Throws ValueError for a side below 8.
ImageDataset generate_faces(std::int64_t count, Split split, std::uint64_t seed = 0, std::int64_t side = 32,
                            StopFlag stop = nullptr);

} // namespace eg::data
