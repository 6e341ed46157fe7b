#pragma once
// Declares the kernels of the indexing ops: take slices from, and add slices to, indexed positions.

#include "core/ops/views/movement.h"

namespace eg {

/// x is seen as [outer, extent, inner]; the index names places on the middle axis and is [count], shared by all outer
/// slices, or [outer, count].
struct RowMove {
  std::int64_t outer = 1;
  std::int64_t extent = 0;
  std::int64_t count = 0;
  std::int64_t inner = 1;
  const std::int64_t* index = nullptr;
  bool shared = true;

  const std::int64_t* index_of(std::int64_t o) const { return shared ? index : index + o * count; }
};

/// The numbers of a packed i64 tensor, where they lie.
inline const std::int64_t* index_address(const Tensor& packed_index) {
  return reinterpret_cast<const std::int64_t*>(packed_index.device_bytes());
}

/// y[o, k, :] = x[o, index[k], :]; x and y packed.
void take_rows(DType dtype, const RowMove& move, const std::byte* x, std::byte* y);

/// y[o, index[k], :] += source[o, k, :] for k = 0, 1, ... in this order; y and source packed, f32, f64 or i64. Threads
/// share out slices and columns, so the order of a sum never depends on them.
void add_rows(DType dtype, const RowMove& move, const std::byte* source, std::byte* y);

/// y[o, t, :] = the sum of source[o, k, :] over the k whose index is t, in their order: all of y is written, and its
/// bits are those of add_rows to zeros. All slices share the index.
void sum_rows(DType dtype, const RowMove& move, const std::byte* source, std::byte* y);

/// add_rows with sums that do not depend on the order of k; what y held counts as a term. All slices share the index.
void add_rows_exact(DType dtype, const RowMove& move, const std::byte* source, std::byte* y);

/// y[o, k, j] = x[o, index[o, k, j], j]; everything packed.
void take_elements(DType dtype, const RowMove& move, const std::byte* x, std::byte* y);

/// Initial values of sums: packed numbers x, or the one that x points to, repeated.
struct Start {
  const std::byte* x;
  bool repeated;
};
/// y = start, then y[o, index[o, k, j], j] += source[o, k, j] for k = 0, 1, ... in this order.
void add_elements(DType dtype, const RowMove& move, Start start, const std::byte* source, std::byte* y);
/// The same of floats in y, which holds the start, with sums that do not depend on the order of k.
void add_elements_exact(DType dtype, const RowMove& move, const std::byte* source, std::byte* y);

// The same on a device, from kernels in take.cu and scatter.cu; by_element: take_elements, add_elements. They check the
// indices themselves. Sums have the bits of the CPU's.
void take_on_device(std::string_view op, const RowMove& move, bool by_element, const Tensor& x, Tensor& y);
void add_on_device(std::string_view op, const RowMove& move, bool by_element, const Tensor& source, Tensor& y);
/// inverse[.., rows[.., i]] = i; checks what check_permutations does.
void invert_on_device(std::string_view op, const Tensor& packed_rows, Tensor& inverse);

/// Throws IndexError `op: index 12 at position 3 is outside [0, 10)` for the first index that is out of range.
void check_indices(std::string_view op, const Tensor& packed_index, std::int64_t extent);

/// Throws unless every row (last axis) of a packed i64 tensor holds 0..n-1 once each: IndexError for a number out of
/// range, ValueError that names the number and both places for one that occurs twice.
void check_permutations(std::string_view op, const Tensor& packed_rows);

} // namespace eg
