#pragma once
// Declares the attention kernels: one strided core for scaled_dot_product_attention and attention_qkv.

#include "core/base/function_ref.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace eg::attention_kernels {

/// Extents that all heads share: `heads` counts every leading index of the queries.
struct Extents {
  std::int64_t heads, queries, keys, head_dim, value_dim;
  double scale;
  bool causal = false;    ///< query i sees the keys j <= i + keys - queries
  std::int64_t group = 1; ///< consecutive heads that share their keys and values

  /// Keys that a query sees when it is causal; 0 or less for none.
  std::int64_t seen_by(std::int64_t query) const { return query + 1 + keys - queries; }
};

/// A matrix whose rows are `ld` elements apart and have unit stride within.
template <class T> struct Rows {
  T* data = nullptr;
  std::int64_t ld = 0;
};

/// What is added to the scores of a head: element (i, j) at data[i row + j column], strides of 0 repeat, column is 0 or
/// 1; -infinity hides a key. No data: nothing is added.
template <class T> struct Mask {
  const T* data = nullptr;
  std::int64_t row = 0, column = 0;
};

/// Where the gradient of the masks is stored: `elements` numbers, of which head h writes those from offset(h), with the
/// strides of its mask. shared: several heads add to the same ones.
template <class T> struct MaskGradient {
  T* data = nullptr;
  std::int64_t elements = 0;
  std::int64_t row = 0, column = 0;
  bool shared = false;
};

/// One head: q [queries, head_dim], k [keys, head_dim], v [keys, value_dim] -> y [queries, value_dim], lse [queries].
template <class T> struct ForwardHead {
  Rows<const T> q, k, v;
  Rows<T> y;
  T* lse;
  Mask<T> mask = {};
};

/// The gradients of one head. dlse, the cotangent of lse, may be null.
template <class T> struct BackwardHead {
  Rows<const T> q, k, v, y, g;
  const T* lse;
  const T* dlse;
  Rows<T> dq, dk, dv;
  Mask<T> mask = {};
  std::int64_t dmask_offset = 0; ///< of this head in the gradient of the masks
};

/// y = softmax(E) v and lse = log sum exp(E) per query, E = scale q k^T + mask, for every head, on all threads. Scores
/// exist for one block of queries and keys at a time, in scratch that stays in cache; blocks of hidden keys above the
/// diagonal are skipped. A query that sees no key gives y = 0 and lse = 0. Needs keys > 0 where there are queries.
template <class T> void forward(const Extents& extents, FunctionRef<ForwardHead<T>(std::int64_t)> head);

/// With S = exp(E - lse), dS = g v^T, dE = S (dS - rowsum(g y) + dlse):
/// dq = scale dE k, dk = scale dE^T q, dv = S^T g, dmask = dE summed over what the mask repeats, for every head. S is
/// computed again block by block. Heads of one group add to the same dk and dv, in order.
template <class T>
void backward(const Extents& extents, FunctionRef<BackwardHead<T>(std::int64_t)> head,
              const MaskGradient<T>& dmask = {});

/// Matrices of the head that comes next. The row loops prefetch their rows: rows of a packed projection are pages
/// apart, where the processor's own prefetching does not reach (64x65 tokens, 8 heads of 64, one thread: forward 8.3 to
/// 6.9 ms, backward 6 % less; asking for the rows to be written as well gained nothing).
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

// --- tiles of scores, `rows` rows of `keys` elements ---

/// What hides keys of a tile: the mask of its first row, and how many keys that row sees when the tile is causal (each
/// further row sees one more).
template <class T> struct TileMask {
  Mask<T> mask = {};
  bool causal = false;
  std::int64_t seen = 0;

  bool any() const { return causal || mask.data != nullptr; }
  std::int64_t keys_of(std::int64_t row, std::int64_t keys) const {
    return causal ? std::clamp<std::int64_t>(seen + row, 0, keys) : keys;
  }
};

/// Each packed row gains its mask and becomes its softmax. Rows that see nothing become 0.
template <class T> void softmax_tile(T* s, std::int64_t rows, std::int64_t keys, const TileMask<T>& mask);

/// Softmax of rows whose keys come tile by tile, for one element a row: the largest score so far (-infinity at first)
/// and the sum of exp(score - largest).
template <class T> struct RunningSoftmax { T *largest, *total; };
/// Each row gains its mask and becomes exp(s_rj - largest_r), 0 where it is hidden. Where it raises `largest`, what row
/// r of y [rows, value_dim] has gathered with the earlier one is scaled to the new one. Asks for row r of every area of
/// `ahead`.
template <class T>
void running_softmax_tile(Rows<T> s, std::int64_t rows, std::int64_t keys, const RunningSoftmax<T>& so_far, Rows<T> y,
                          std::int64_t value_dim, const TileMask<T>& mask, const Ahead& ahead);
/// Behind the last tile: y_r becomes y_r / total_r, and largest_r log sum_j exp(s_rj). Where all scores of a row are
/// -infinity, both become 0 where `masked`, else NaN.
template <class T>
void finish_softmax(const RunningSoftmax<T>& all, std::int64_t rows, Rows<T> y, std::int64_t value_dim, bool masked);

/// s_rj = exp(s_rj + mask_rj - lse_r), 0 where it is hidden. Asks for the first three areas of `ahead`.
template <class T>
void probability_tile(Rows<T> s, std::int64_t rows, std::int64_t keys, const T* lse, const TileMask<T>& mask,
                      const Ahead& ahead);
/// ds_rj = s_rj (ds_rj - delta_r), delta_r = <g_r, y_r> - dlse_r. Asks for the other areas of `ahead`.
template <class T>
void score_gradient_tile(Rows<const T> s, Rows<T> ds, std::int64_t rows, std::int64_t keys, Rows<const T> g,
                         Rows<const T> y, std::int64_t value_dim, const T* dlse, const Ahead& ahead);

} // namespace eg::attention_kernels
