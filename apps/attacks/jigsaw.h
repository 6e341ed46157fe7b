#pragma once
// Reassembles shuffled patches of an image by how their borders fit, as a server that sees patches can.

#include "core/base/interrupt.h"
#include "core/random.h"
#include "data/dataset.h"
#include "permute/permutation.h"

#include <cstdint>
#include <vector>

namespace eg::attacks {

/// A square image, planar [channels, side, side], with patch order[p] at place p.
Bytes shuffled_patches(ByteView pixels, std::int64_t channels, std::int64_t side, std::int64_t patch,
                       const permute::Permutation& order);

/// How badly two patches fit beside each other: over channels and border pixels, the sum of |2 x_1 - x_2 - y_1|^0.3 and
/// of the same from the other side, where x_1 is the border, x_2 the pixel behind it and y_1 the border across
/// (Pomeranz, Shemesh and Ben-Shahar, "A fully automated greedy square jigsaw puzzle solver", CVPR 2011).
struct BorderCosts {
  std::int64_t pieces = 0;
  std::vector<double> right, below; ///< [pieces, pieces]: the second one is right of or below the first
};
/// Of the patches of a square image, planar [channels, side, side], in row order. Throws ValueError unless patches of
/// at least 2 pixels tile it.
BorderCosts border_costs(ByteView pixels, std::int64_t channels, std::int64_t side, std::int64_t patch);

/// order[place] = piece: the cheapest arrangement in a square that was found. Up to four pieces: of all; more:
/// simulated annealing of exchanges from several random beginnings, then shifts of whole rows and columns.
std::vector<std::int64_t> solve_jigsaw(const BorderCosts& costs, RandomKey key);

/// The share of patches, in percent, that solve_jigsaw puts to their own place in the first `count` images, whose
/// patches were shuffled. Throws Interrupted.
double jigsaw_accuracy(const data::ImageDataset& images, std::int64_t patch, std::int64_t count, RandomKey key,
                       StopFlag stop);

} // namespace eg::attacks
