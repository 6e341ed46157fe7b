#pragma once
// Stores up to eight extents inline: shapes and strides.

#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

namespace eg {

/// Most axes a tensor can have.
inline constexpr int max_rank = 8;

/// A short list of extents (or strides, in elements), one per axis; axis -1 is the last one.
class Shape {
public:
  Shape() = default;
  Shape(std::initializer_list<std::int64_t> dims) : Shape(std::span<const std::int64_t>(dims.begin(), dims.size())) {}
  /// Throws ShapeError for more than max_rank axes.
  explicit Shape(std::span<const std::int64_t> dims);

  int rank() const { return rank_; }
  std::int64_t operator[](int axis) const { return dims_[static_cast<std::size_t>(axis < 0 ? axis + rank_ : axis)]; }
  std::int64_t& operator[](int axis) { return dims_[static_cast<std::size_t>(axis < 0 ? axis + rank_ : axis)]; }
  const std::int64_t* begin() const { return dims_.data(); }
  const std::int64_t* end() const { return dims_.data() + rank_; }
  std::span<const std::int64_t> dims() const { return {dims_.data(), static_cast<std::size_t>(rank_)}; }

  /// Appends an axis at the end. Throws ShapeError beyond max_rank.
  void push_back(std::int64_t extent);
  void insert(int axis, std::int64_t extent);
  void erase(int axis);

  /// Product of the extents; 1 for a scalar. Throws ShapeError for a negative extent or when the product overflows.
  std::int64_t numel() const;
  /// "[4, 3]".
  std::string str() const;

  friend bool operator==(const Shape& a, const Shape& b) {
    if (a.rank_ != b.rank_) return false;
    for (int i = 0; i < a.rank_; ++i)
      if (a[i] != b[i]) return false;
    return true;
  }

private:
  std::array<std::int64_t, max_rank> dims_{};
  int rank_ = 0;
};

/// Strides, in elements, of a densely packed row-major tensor.
Shape contiguous_strides(const Shape& shape);

/// NumPy's rule: aligned at the last axis, extents equal or 1. Throws ShapeError that names `op` and both shapes.
Shape broadcast_shapes(const char* op, const Shape& a, const Shape& b);

/// axis in [-rank, rank) to [0, rank). Throws IndexError that names `op`.
int normalize_axis(const char* op, std::int64_t axis, int rank);

} // namespace eg
