#pragma once
// The attention kernels: one strided core under scaled_dot_product_attention and attention_qkv.

#include "core/function_ref.h"

#include <cstddef>
#include <cstdint>

namespace eg::attention_kernels {

/// Extents that all heads share: `heads` counts every leading index.
struct Extents {
  std::int64_t heads, queries, keys, head_dim, value_dim;
  double scale;
};

/// A matrix whose rows are `ld` elements apart and have unit stride within.
template <class T> struct Rows {
  T* data = nullptr;
  std::int64_t ld = 0;
};

/// One head: q [queries, head_dim], k [keys, head_dim], v [keys, value_dim] -> y [queries, value_dim], lse [queries].
template <class T> struct ForwardHead {
  Rows<const T> q, k, v;
  Rows<T> y;
  T* lse;
};

/// The gradients of one head. dlse, the cotangent of lse, may be null.
template <class T> struct BackwardHead {
  Rows<const T> q, k, v, y, g;
  const T* lse;
  const T* dlse;
  Rows<T> dq, dk, dv;
};

/// y = softmax(scale q k^T) v and lse = log sum exp(scale q k^T) per query, for every head, on all threads. Scores
/// exist for one tile of queries at a time, in scratch that stays in cache. Needs keys > 0 where there are queries.
template <class T> void forward(const Extents& extents, FunctionRef<ForwardHead<T>(std::int64_t)> head);

/// With S = exp(scale q k^T - lse), dS = g v^T, dE = S (dS - rowsum(g y) + dlse):
/// dq = scale dE k, dk = scale dE^T q, dv = S^T g, for every head. S is computed again tile by tile.
template <class T> void backward(const Extents& extents, FunctionRef<BackwardHead<T>(std::int64_t)> head);

/// Matrices of the head that comes next. The row loops ask for their rows ahead of time: rows of a packed projection
/// lie pages apart, where the processor's own prefetching does not reach (64x65 tokens, 8 heads of 64, one thread:
/// forward 8.3 to 6.9 ms, backward 6 % less; asking for the rows to be written as well gained nothing).
struct Ahead {
  struct Area {
    const std::byte* data = nullptr;
    std::int64_t stride = 0, bytes = 0, rows = 0;
  };
  static constexpr std::size_t most = 5;
  Area areas[most];
  std::size_t count = 0;

  template <class T> void add(Rows<T> m, std::int64_t rows, std::int64_t columns) {
    const auto size = static_cast<std::int64_t>(sizeof(T));
    areas[count++] = {reinterpret_cast<const std::byte*>(m.data), m.ld * size, columns * size, rows};
  }
  /// Asks for row `row` of areas [first, last).
  void touch(std::int64_t row, std::size_t first, std::size_t last) const {
    for (std::size_t i = first; i < last && i < count; ++i) {
      if (row >= areas[i].rows) continue;
      const std::byte* const at = areas[i].data + row * areas[i].stride;
      for (std::int64_t offset = 0; offset < areas[i].bytes; offset += 64) __builtin_prefetch(at + offset, 0, 2);
    }
  }
};

// --- tiles of scores, `rows` rows of `keys` packed elements ---

/// Each row becomes its softmax; lse_r = log sum_j exp(s_rj). Asks for row r of every area of `ahead`.
template <class T> void softmax_tile(T* s, std::int64_t rows, std::int64_t keys, T* lse, const Ahead& ahead);
/// s_rj = exp(s_rj - lse_r). Asks for the first three areas of `ahead`.
template <class T> void probability_tile(T* s, std::int64_t rows, std::int64_t keys, const T* lse, const Ahead& ahead);
/// ds_rj = s_rj (ds_rj - delta_r), delta_r = <g_r, y_r> - dlse_r. Asks for the other areas of `ahead`.
template <class T>
void score_gradient_tile(const T* s, T* ds, std::int64_t rows, std::int64_t keys, Rows<const T> g, Rows<const T> y,
                         std::int64_t value_dim, const T* dlse, const Ahead& ahead);

} // namespace eg::attention_kernels
