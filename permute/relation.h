#pragma once
// Represents a mask as a square matrix of colours, for automorphisms.cpp. Not for users.

#include "core/tensor.h"

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace eg::permute {

/// Throws as automorphisms() does, unless a mask [..., T, T] can be represented.
void check_mask(const Tensor& mask);

/// Points 0..n-1, each with a colour, and a colour for each ordered pair of different points.
class Relation {
public:
  using Points = std::vector<std::int32_t>;

  /// Equal colours for pairs at which all slices of a mask [..., T, T] are equal. Throws as automorphisms() does.
  static Relation of(const Tensor& mask);

  std::size_t size() const { return colours_.size(); }
  const Points& colours() const { return colours_; }

  /// Point i to map[i] keeps all colours; map is a permutation.
  bool is_automorphism(const Points& map) const;

  /// Points by whether exchanging two of them is an automorphism, which is an equivalence; classes in order of their
  /// least points.
  std::vector<Points> twins() const;
  /// One point for each class of twins; its colour encodes the class's size, colour and inner pairs.
  Relation quotient(const std::vector<Points>& classes) const;

  /// Both colourings refined in step until each point's colour encodes how many points of which colour form which pair
  /// with it, as numbers from 0 on, all below n; nothing when they come out different, so that no automorphism carries
  /// one to the other.
  std::optional<std::pair<Points, Points>> refined(Points left, Points right) const;

private:
  struct Side;

  Relation(Points colours, std::vector<std::int32_t> pairs) : colours_(std::move(colours)), pairs_(std::move(pairs)) {}
  std::int32_t pair(std::size_t i, std::size_t j) const { return pairs_[i * size() + j]; }
  bool are_twins(std::size_t i, std::size_t j) const;

  Points colours_;
  std::vector<std::int32_t> pairs_; // [n, n]; the diagonal holds 0
};

} // namespace eg::permute
