#pragma once
// Builds resampling along one axis as a sparse matrix: the source pixels of each result pixel and their weights.

#include <cstdint>
#include <string_view>
#include <vector>

namespace eg::resample {

/// Row i holds weights[start[i] .. start[i + 1]) for the consecutive columns first[i], first[i] + 1, ...
struct Matrix {
  std::int64_t columns = 0;
  std::vector<std::int64_t> first;
  std::vector<std::int64_t> start;
  std::vector<double> weights;

  std::int64_t rows() const { return static_cast<std::int64_t>(first.size()); }
  std::int64_t count(std::int64_t i) const {
    return start[static_cast<std::size_t>(i) + 1] - start[static_cast<std::size_t>(i)];
  }
  const double* row(std::int64_t i) const { return weights.data() + start[static_cast<std::size_t>(i)]; }
};

enum class Filter : std::uint8_t { nearest, nearest_exact, bilinear, bicubic };

/// Interpolation at single places. Centres: place(i) = (i + 1/2) in / out - 1/2, or i (in - 1) / (out - 1) with
/// align_corners. bilinear: between the two neighbours, places before the first pixel are moved onto it; bicubic: Keys'
/// kernel with a = -0.75 on four neighbours, pixels beyond the edge are the edge's; nearest: floor(i in / out),
/// nearest_exact: floor((i + 1/2) in / out), both in single precision, as PyTorch does. `in` must be positive.
Matrix interpolation(Filter filter, std::int64_t in, std::int64_t out, bool align_corners);

/// Weighted means over all pixels covered, as Pillow does: triangle (bilinear) or Keys' kernel with a = -0.5 (bicubic),
/// stretched by in / out where that shrinks; the weights inside the image are scaled to sum 1. align_corners: the
/// scale is (in - 1) / (out - 1).
Matrix antialiased(Filter filter, std::int64_t in, std::int64_t out, bool align_corners = false);

/// A weight as a function of the distance from the centre; 0 beyond `support`.
struct Kernel {
  double support;
  double (*weight)(double distance);
};
/// The same with any kernel.
Matrix antialiased(const Kernel& kernel, std::int64_t in, std::int64_t out, bool align_corners = false);

/// Rows as columns.
Matrix transposed(const Matrix& a);

} // namespace eg::resample
