#pragma once
// Defines permutations as gathers, in the one convention of docs/theory.md: (P_R X)[i] = X[r[i]], (X P_C)[:, j] = X[:,
// c[j]].

#include "core/random.h"

#include <cstdint>
#include <vector>

namespace eg::permute {

/// A permutation p of 0..size-1, used as a gather: y[i] = x[p[i]] along an axis. Its entries are overwritten when it
/// goes or is assigned to, since it may be secret; they are in ordinary memory, which the system may write to swap or
/// to a core dump, and tensor() and copies of gather() are not overwritten.
class Permutation {
public:
  Permutation() = default;
  ~Permutation() { wipe(); }
  Permutation(const Permutation&) = default;
  Permutation(Permutation&&) noexcept = default;
  Permutation& operator=(Permutation other) noexcept {
    gather_.swap(other.gather_); // what was here is wiped with `other`
    return *this;
  }
  /// Throws ValueError when `gather` is not a permutation.
  explicit Permutation(std::vector<std::int64_t> gather);
  static Permutation identity(std::int64_t size);
  /// Uniform from a counter-based key (not secret; see permute/key.h for secret ones).
  static Permutation random(std::int64_t size, RandomKey key);
  /// Uniform among all but the identity. Throws ValueError for a size below 2.
  static Permutation random_nonidentity(std::int64_t size, RandomKey key);

  std::int64_t size() const { return static_cast<std::int64_t>(gather_.size()); }
  std::int64_t operator[](std::int64_t i) const { return gather_[static_cast<std::size_t>(i)]; }
  const std::vector<std::int64_t>& gather() const { return gather_; }
  bool is_identity() const;
  /// Overwrites the entries with zeros and becomes the permutation of nothing.
  void wipe() noexcept;
  Permutation inverse() const;
  /// Gathering with the result equals gathering with *this and then with `next`: r[i] = (*this)[next[i]]. Throws
  /// ShapeError when the sizes differ.
  Permutation then(const Permutation& next) const;
  /// The index tensor, i64 [size], for permute_rows and permute_columns.
  Tensor tensor() const;
  /// x gathered along one axis; a negative one counts from the end. Throws ShapeError when its extent is not size().
  Tensor apply(const Tensor& x, int axis) const;

  friend bool operator==(const Permutation&, const Permutation&) = default;

private:
  std::vector<std::int64_t> gather_;
};

/// A column permutation of "Shuffled Transformers for Blind Training" (Z P^-1, W_(P) = P W P^-1, b_(P) = b P^-1), given
/// as the gather (X P)[:, j] = X[:, p[j]], in this library's convention (Z P_C, P_C^T W P_C, b P_C): P_C = P^-1.
Permutation from_paper001(const Permutation& p);

} // namespace eg::permute
