// Attention on a device, tile by tile. Scores are in shared memory and registers; device memory holds their gradients
// only where the gradient of a mask is wanted. Tiles above the diagonal of causal attention are skipped. There are no
// atomics, so every sum has one order. More than 64 columns of q, k or v are taken 64 at a time; each block computes
// the scores again for its 64 columns of the result.

#include "core/cuda/kernels.h"
#include "core/cuda/launch.h"

#include "core/bf16.h"

#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

// One lane of the CPU's vector functions: exp has the same bits there and here.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/ops/attention/attention.cu"
#include "core/simd/simd-inl.h"

namespace eg::cuda {
namespace {

using device::AttentionBackwardJob;
using device::AttentionHeads;
using device::AttentionJob;

constexpr int side = 16;                  ///< a block is side x side threads
constexpr unsigned threads = side * side; ///< thread (i, j): rows i, i + side, ... and columns j, j + side, ...
constexpr int columns = 64;               ///< columns of q, k, v, g that are staged at a time
constexpr int own_columns = columns / side;

/// Queries or keys of a tile.
template <class T> constexpr int tile_rows = sizeof(T) == 4 ? 64 : 32;
template <class T> constexpr int own_rows = tile_rows<T> / side;

// One element more a row: threads of neighbouring rows then read different banks.
template <class T> using Staged = T[tile_rows<T>][columns + 1];
template <class T> using TileScores = T[tile_rows<T>][tile_rows<T> + 1];
template <class T> using Scores = T[own_rows<T>][own_rows<T>];
template <class T> using Sums = T[own_rows<T>][own_columns];

__device__ int thread_row() { return static_cast<int>(threadIdx.x) / side; }
__device__ int thread_column() { return static_cast<int>(threadIdx.x) % side; }

template <class T> __device__ T exp_of(T x) {
  const hwy::HWY_NAMESPACE::ScalableTag<T> d;
  return HWY_NAMESPACE::Exp(d, x);
}
__device__ float log_of(float x) { return logf(x); }
__device__ double log_of(double x) { return log(x); }
__device__ float fused(float a, float b, float c) { return fmaf(a, b, c); }
__device__ double fused(double a, double b, double c) { return fma(a, b, c); }

/// An operand of a product.
template <bool rounds, class T> __device__ T operand(T x) {
  if constexpr (rounds)
    return static_cast<T>(static_cast<float>(BFloat16(x)));
  else
    return x;
}

/// Some rows of a matrix, from one on.
template <class T> struct RowsOf {
  const T* data;
  std::int64_t row_stride;
  int count;
};

__device__ int at_most(std::int64_t left, int most) { return left < most ? static_cast<int>(left) : most; }

/// Columns [first, first + width) of the rows; zeros where there is no row.
template <bool rounds, class T>
__device__ void stage(Staged<T>& to, const RowsOf<T>& from, std::int64_t first, int width) {
  const int c = static_cast<int>(threadIdx.x) % columns;
  if (c >= width) return;
  for (int r = static_cast<int>(threadIdx.x) / columns; r < tile_rows<T>; r += static_cast<int>(threads) / columns)
    to[r][c] = r < from.count ? operand<rounds>(from.data[r * from.row_stride + first + c]) : T(0);
}

/// What two products share: the operands of the tile in shared memory.
template <class T> struct Operands { Staged<T> left, right; };

/// s = a b^T, terms in the order of the columns. `keeps_left`: all of a is in room.left already, and stays there.
template <bool rounds, class T>
__device__ void multiply_rows(Scores<T>& s, Operands<T>& room, const RowsOf<T>& a, const RowsOf<T>& b,
                              std::int64_t depth, bool keeps_left) {
  GPU_UNROLL
  for (int i = 0; i < own_rows<T>; ++i) GPU_UNROLL
  for (int j = 0; j < own_rows<T>; ++j) s[i][j] = 0;
  const int row = thread_row(), column = thread_column();
  for (std::int64_t first = 0; first < depth; first += columns) {
    const int width = at_most(depth - first, columns);
    __syncthreads(); // what was staged before has been used
    if (!keeps_left) stage<rounds>(room.left, a, first, width);
    stage<rounds>(room.right, b, first, width);
    __syncthreads();
    if (row >= a.count || column >= b.count) continue;
    for (int d = 0; d < width; ++d) {
      T left[own_rows<T>], right[own_rows<T>];
      GPU_UNROLL
      for (int i = 0; i < own_rows<T>; ++i) left[i] = room.left[row + side * i][d];
      GPU_UNROLL
      for (int j = 0; j < own_rows<T>; ++j) right[j] = room.right[column + side * j][d];
      GPU_UNROLL
      for (int i = 0; i < own_rows<T>; ++i) GPU_UNROLL
      for (int j = 0; j < own_rows<T>; ++j) s[i][j] = fused(left[i], right[j], s[i][j]);
    }
  }
}

/// sums += p x over the first `terms` rows of x, or p^T x: p holds weights of the tile, x is staged.
template <bool rounds, bool transposed, class T>
__device__ void add_weighted(Sums<T>& sums, const TileScores<T>& p, const Staged<T>& x, int rows, int terms,
                             int width) {
  const int row = thread_row(), column = thread_column();
  if (row >= rows || column >= width) return;
  for (int term = 0; term < terms; ++term) {
    T weight[own_rows<T>], value[own_columns];
    GPU_UNROLL
    for (int i = 0; i < own_rows<T>; ++i) {
      const int r = row + side * i;
      weight[i] = operand<rounds>(transposed ? p[term][r] : p[r][term]);
    }
    GPU_UNROLL
    for (int c = 0; c < own_columns; ++c) value[c] = column + side * c < width ? x[term][column + side * c] : T(0);
    GPU_UNROLL
    for (int i = 0; i < own_rows<T>; ++i) GPU_UNROLL
    for (int c = 0; c < own_columns; ++c) sums[i][c] = fused(weight[i], value[c], sums[i][c]);
  }
}

/// Multiplies the sums of each row with its factor.
template <class T> __device__ void scale_rows(Sums<T>& sums, const T* factor, int rows) {
  GPU_UNROLL
  for (int i = 0; i < own_rows<T>; ++i) {
    const int row = thread_row() + side * i;
    if (row >= rows) break;
    GPU_UNROLL
    for (int c = 0; c < own_columns; ++c) sums[i][c] *= factor[row];
  }
}

/// to[r][c] = factor sums for the elements that exist.
template <class T>
__device__ void write_sums(T* to, std::int64_t row_stride, const Sums<T>& sums, int rows, int width, T factor) {
  GPU_UNROLL
  for (int i = 0; i < own_rows<T>; ++i) GPU_UNROLL
  for (int c = 0; c < own_columns; ++c) {
    const int r = thread_row() + side * i, column = thread_column() + side * c;
    if (r < rows && column < width) to[r * row_stride + column] = factor * sums[i][c];
  }
}

/// One head: its masks, and the scores of a tile.
template <class T> struct Head {
  const AttentionHeads& of;
  const T* mask;
  const bool* seen;

  __device__ Head(const AttentionHeads& all, std::int64_t head) : of(all), mask(nullptr), seen(nullptr) {
    if (of.mask == nullptr) return;
    const std::int64_t begin = offsets_at(of.mask_heads, head).at[0];
    if (of.mask_is_boolean)
      seen = static_cast<const bool*>(of.mask) + begin;
    else
      mask = static_cast<const T*>(of.mask) + begin;
  }
  __device__ bool hides() const { return of.causal || mask != nullptr || seen != nullptr; }
  /// The score of a key, given <q, k>; -infinity where the query does not see it.
  __device__ T score(T product, std::int64_t query, std::int64_t key) const {
    constexpr T hidden = -std::numeric_limits<T>::infinity();
    if (of.causal && key > query + of.keys - of.queries) return hidden;
    const T x = product * static_cast<T>(of.scale);
    const std::int64_t at = query * of.mask_row + key * of.mask_column;
    if (mask != nullptr) return x + mask[at];
    return seen != nullptr && !seen[at] ? x + hidden : x;
  }
};

/// The number of keys that the queries [0, queries) see: a prefix of them all.
__device__ std::int64_t seen_keys(const AttentionHeads& of, std::int64_t queries) {
  const std::int64_t count = queries + of.keys - of.queries;
  return !of.causal || count > of.keys ? of.keys : count < 0 ? 0 : count;
}

/// The tile, chunk of columns and head that a block works on.
template <class T> struct Share {
  std::int64_t first_row, first_column, head;
  int rows, width;

  __device__ Share(std::int64_t all_rows, std::int64_t all_columns) {
    const std::int64_t tiles = tiles_of(all_rows), chunks = chunks_of(all_columns), at = blockIdx.x;
    first_row = at % tiles * tile_rows<T>;
    first_column = at / tiles % chunks * columns;
    head = at / tiles / chunks;
    rows = at_most(all_rows - first_row, tile_rows<T>);
    width = at_most(all_columns - first_column, columns);
  }
  static std::int64_t blocks(std::int64_t all_rows, std::int64_t all_columns, std::int64_t heads) {
    return tiles_of(all_rows) * chunks_of(all_columns) * heads;
  }

private:
  EG_DEVICE_FUNCTION static std::int64_t tiles_of(std::int64_t rows) {
    return (rows + tile_rows<T> - 1) / tile_rows<T>;
  }
  EG_DEVICE_FUNCTION static std::int64_t chunks_of(std::int64_t all_columns) {
    return all_columns <= columns ? 1 : (all_columns + columns - 1) / columns;
  }
};

// --- forward ---

template <class T> struct ForwardRoom {
  Operands<T> operands;
  TileScores<T> p;
  T factor[tile_rows<T>]; ///< what a row's sums so far are multiplied with
};

/// The largest score of each row so far, and the sum of exp(score - largest): warp w has the rows w, w + 8, ...
template <class T> struct Softmax {
  static constexpr int warps = threads / gpu::warp_size, rows = tile_rows<T> / warps,
                       keys = tile_rows<T> / static_cast<int>(gpu::warp_size);
  T largest[rows], total[rows];

  __device__ static int row(int i) { return static_cast<int>(threadIdx.x / gpu::warp_size) + warps * i; }
  __device__ static int lane() { return static_cast<int>(threadIdx.x % gpu::warp_size); }

  __device__ Softmax() {
    GPU_UNROLL
    for (int i = 0; i < rows; ++i) {
      largest[i] = -std::numeric_limits<T>::infinity();
      total[i] = 0;
    }
  }

  /// Scores become their share of the softmax so far, which keeps sums of p v as small as v; factor: what earlier sums
  /// must be multiplied with.
  __device__ void add_tile(ForwardRoom<T>& room, int queries, int count) {
    constexpr T least = -std::numeric_limits<T>::infinity();
    GPU_UNROLL
    for (int i = 0; i < rows; ++i) {
      const int r = row(i);
      if (r >= queries) break; // the whole warp
      T x[keys], most = largest[i];
      GPU_UNROLL
      for (int e = 0; e < keys; ++e) {
        const int j = lane() + static_cast<int>(gpu::warp_size) * e;
        x[e] = j < count ? room.p[r][j] : least;
        most = x[e] > most ? x[e] : most; // a NaN is not larger; it makes the sum NaN
      }
      most = gpu::warp_butterfly(most, [](T a, T b) { return a > b ? a : b; });
      T sum = 0;
      GPU_UNROLL
      for (int e = 0; e < keys; ++e) {
        x[e] = x[e] == least ? T(0) : exp_of(x[e] - most);
        sum += x[e];
      }
      sum = gpu::warp_butterfly(sum, [](T a, T b) { return a + b; });
      const T before = most == largest[i] ? total[i] : total[i] * exp_of(largest[i] - most);
      total[i] = before + sum;
      largest[i] = most;
      const T share = total[i] == 0 ? T(0) : T(1) / total[i];
      GPU_UNROLL
      for (int e = 0; e < keys; ++e) {
        const int j = lane() + static_cast<int>(gpu::warp_size) * e;
        if (j < count) room.p[r][j] = x[e] * share;
      }
      if (lane() == 0) room.factor[r] = before * share;
    }
  }

  /// factor: 1, or NaN for a query whose scores are all -infinity although nothing hides keys. lse [rows] of these
  /// queries, or null.
  __device__ void finish(ForwardRoom<T>& room, int queries, bool hides, T* lse) const {
    GPU_UNROLL
    for (int i = 0; i < rows; ++i) {
      const int r = row(i);
      if (r >= queries || lane() != 0) continue;
      const bool nothing = total[i] == 0; // no key, or scores of -infinity alone
      room.factor[r] = nothing && !hides ? std::numeric_limits<T>::quiet_NaN() : T(1);
      if (lse != nullptr) lse[r] = nothing ? (hides ? T(0) : room.factor[r]) : largest[i] + log_of(total[i]);
    }
  }
};

template <bool rounds, class T> __global__ void __launch_bounds__(threads) attention_kernel(AttentionJob job) {
  ForwardRoom<T>& room = *gpu::dynamic_shared<ForwardRoom<T>>();
  const AttentionHeads& of = job.of;
  const Share<T> share(of.queries, of.value_dim);
  const Offsets<4> begin = offsets_at(job.begins, share.head);
  const Head<T> head(of, share.head);
  const RowsOf<T> q{static_cast<const T*>(of.q) + begin.at[0] + share.first_row * of.q_row, of.q_row, share.rows};
  const T* const k = static_cast<const T*>(of.k) + begin.at[1];
  const T* const v = static_cast<const T*>(of.v) + begin.at[2];

  Softmax<T> softmax;
  Sums<T> sums = {};
  const std::int64_t keys = seen_keys(of, share.first_row + share.rows);
  for (std::int64_t first = 0; first < keys; first += tile_rows<T>) {
    const int count = at_most(keys - first, tile_rows<T>);
    Scores<T> s;
    multiply_rows<rounds>(s, room.operands, q, RowsOf<T>{k + first * of.k_row, of.k_row, count}, of.head_dim,
                          first > 0 && of.head_dim <= columns);
    if (of.head_dim == 0) __syncthreads(); // nothing was staged, and p is still read
    GPU_UNROLL
    for (int i = 0; i < own_rows<T>; ++i) GPU_UNROLL
    for (int j = 0; j < own_rows<T>; ++j) {
      const int row = thread_row() + side * i, column = thread_column() + side * j;
      const bool inside = row < share.rows && column < count;
      room.p[row][column] = inside ? head.score(s[i][j], share.first_row + row, first + column) : T(0);
    }
    __syncthreads();
    softmax.add_tile(room, share.rows, count);
    stage<rounds>(room.operands.right, RowsOf<T>{v + first * of.v_row, of.v_row, count}, share.first_column,
                  share.width);
    __syncthreads();
    scale_rows(sums, room.factor, share.rows);
    add_weighted<rounds, false>(sums, room.p, room.operands.right, share.rows, count, share.width);
  }
  __syncthreads();
  T* const lse =
      share.first_column > 0 ? nullptr : static_cast<T*>(job.lse) + share.head * of.queries + share.first_row;
  softmax.finish(room, share.rows, head.hides(), lse);
  __syncthreads();
  scale_rows(sums, room.factor, share.rows);
  write_sums(static_cast<T*>(job.y) + begin.at[3] + share.first_row * job.y_row + share.first_column, job.y_row, sums,
             share.rows, share.width, T(1));
}

// --- backward ---

template <class T> struct BackwardRoom {
  Operands<T> operands;
  TileScores<T> p, ds; ///< exp(score - lse) and its gradient
};

/// A head of the backward pass: its matrices, lse and delta.
template <class T> struct BackwardHead {
  Head<T> head;
  const T *q, *k, *v, *g, *lse, *delta;
};

/// p and ds of the queries from `query` on and the keys from `key` on. Ends with a barrier.
template <bool rounds, class T>
__device__ void score_gradients(BackwardRoom<T>& room, const BackwardHead<T>& h, std::int64_t g_row, std::int64_t query,
                                int queries, std::int64_t key, int keys) {
  const AttentionHeads& of = h.head.of;
  Scores<T> s, d;
  multiply_rows<rounds>(s, room.operands, RowsOf<T>{h.q + query * of.q_row, of.q_row, queries},
                        RowsOf<T>{h.k + key * of.k_row, of.k_row, keys}, of.head_dim, false);
  multiply_rows<rounds>(d, room.operands, RowsOf<T>{h.g + query * g_row, g_row, queries},
                        RowsOf<T>{h.v + key * of.v_row, of.v_row, keys}, of.value_dim, false);
  if (of.head_dim == 0 && of.value_dim == 0) __syncthreads(); // nothing was staged, and p and ds are still read
  GPU_UNROLL
  for (int i = 0; i < own_rows<T>; ++i) GPU_UNROLL
  for (int j = 0; j < own_rows<T>; ++j) {
    const int row = thread_row() + side * i, column = thread_column() + side * j;
    const bool inside = row < queries && column < keys;
    const T p = inside ? exp_of(h.head.score(s[i][j], query + row, key + column) - h.lse[query + row]) : T(0);
    room.p[row][column] = p;
    room.ds[row][column] = inside ? p * (d[i][j] - h.delta[query + row]) : T(0);
  }
  __syncthreads();
}

template <bool rounds, class T>
__global__ void __launch_bounds__(threads) query_gradient_kernel(AttentionBackwardJob job) {
  BackwardRoom<T>& room = *gpu::dynamic_shared<BackwardRoom<T>>();
  const AttentionHeads& of = job.of;
  const Share<T> share(of.queries, of.head_dim);
  const Offsets<5> begin = offsets_at(job.queries_begin, share.head);
  const BackwardHead<T> h{Head<T>(of, share.head),
                          static_cast<const T*>(of.q) + begin.at[0],
                          static_cast<const T*>(of.k) + begin.at[1],
                          static_cast<const T*>(of.v) + begin.at[2],
                          static_cast<const T*>(job.g) + begin.at[3],
                          static_cast<const T*>(job.lse) + share.head * of.queries,
                          static_cast<const T*>(job.delta) + share.head * of.queries};
  T* const ds = job.ds == nullptr || share.first_column > 0
                    ? nullptr
                    : static_cast<T*>(job.ds) + (share.head * of.queries + share.first_row) * of.keys;
  Sums<T> sums = {};
  const std::int64_t keys = seen_keys(of, share.first_row + share.rows);
  for (std::int64_t first = 0; first < keys; first += tile_rows<T>) {
    const int count = at_most(keys - first, tile_rows<T>);
    score_gradients<rounds>(room, h, job.g_row, share.first_row, share.rows, first, count);
    stage<rounds>(room.operands.right, RowsOf<T>{h.k + first * of.k_row, of.k_row, count}, share.first_column,
                  share.width);
    if (ds != nullptr)
      for (int i = 0; i < own_rows<T>; ++i)
        for (int j = 0; j < own_rows<T>; ++j) {
          const int row = thread_row() + side * i, column = thread_column() + side * j;
          if (row < share.rows && column < count) ds[row * of.keys + first + column] = room.ds[row][column];
        }
    __syncthreads();
    add_weighted<rounds, false>(sums, room.ds, room.operands.right, share.rows, count, share.width);
  }
  write_sums(static_cast<T*>(job.dq) + begin.at[4] + share.first_row * job.dq_row + share.first_column, job.dq_row,
             sums, share.rows, share.width, static_cast<T>(of.scale));
}

template <bool rounds, class T>
__global__ void __launch_bounds__(threads) key_gradient_kernel(AttentionBackwardJob job) {
  BackwardRoom<T>& room = *gpu::dynamic_shared<BackwardRoom<T>>();
  const AttentionHeads& of = job.of;
  const std::int64_t all_columns = of.head_dim > of.value_dim ? of.head_dim : of.value_dim;
  const Share<T> share(of.keys, all_columns);
  const int k_width = share.first_column < of.head_dim ? at_most(of.head_dim - share.first_column, columns) : 0;
  const int v_width = share.first_column < of.value_dim ? at_most(of.value_dim - share.first_column, columns) : 0;
  const Offsets<6> begin = offsets_at(job.keys_begin, share.head);
  Sums<T> of_k = {}, of_v = {};
  for (std::int64_t member = 0; member < of.group; ++member) {
    const std::int64_t number = share.head * of.group + member;
    const BackwardHead<T> h{Head<T>(of, number),
                            static_cast<const T*>(of.q) + begin.at[4] + member * job.q_member,
                            static_cast<const T*>(of.k) + begin.at[0],
                            static_cast<const T*>(of.v) + begin.at[1],
                            static_cast<const T*>(job.g) + begin.at[5] + member * job.g_member,
                            static_cast<const T*>(job.lse) + number * of.queries,
                            static_cast<const T*>(job.delta) + number * of.queries};
    // No query before `sees` sees any of these keys; its tile is the first one that counts.
    const std::int64_t sees = of.causal ? share.first_row - (of.keys - of.queries) : 0;
    for (std::int64_t first = sees > 0 ? sees / tile_rows<T> * tile_rows<T> : 0; first < of.queries;
         first += tile_rows<T>) {
      const int count = at_most(of.queries - first, tile_rows<T>);
      score_gradients<rounds>(room, h, job.g_row, first, count, share.first_row, share.rows);
      stage<rounds>(room.operands.left, RowsOf<T>{h.g + first * job.g_row, job.g_row, count}, share.first_column,
                    v_width);
      stage<rounds>(room.operands.right, RowsOf<T>{h.q + first * of.q_row, of.q_row, count}, share.first_column,
                    k_width);
      __syncthreads();
      add_weighted<rounds, true>(of_v, room.p, room.operands.left, share.rows, count, v_width);
      add_weighted<rounds, true>(of_k, room.ds, room.operands.right, share.rows, count, k_width);
    }
  }
  write_sums(static_cast<T*>(job.dk) + begin.at[2] + share.first_row * job.dk_row + share.first_column, job.dk_row,
             of_k, share.rows, k_width, static_cast<T>(of.scale));
  write_sums(static_cast<T*>(job.dv) + begin.at[3] + share.first_row * job.dv_row + share.first_column, job.dv_row,
             of_v, share.rows, v_width, T(1));
}

/// delta = rowsum(g y) - dlse: a warp a query.
template <class T> __global__ void delta_kernel(AttentionBackwardJob job) {
  const std::int64_t rows = job.of.heads * job.of.queries;
  const int lane = static_cast<int>(threadIdx.x % gpu::warp_size);
  for (std::int64_t row = first_element() / gpu::warp_size; row < rows; row += element_step() / gpu::warp_size) {
    const std::int64_t query = row % job.of.queries;
    const Offsets<2> begin = offsets_at(job.rows, row / job.of.queries);
    const T* const y = static_cast<const T*>(job.y) + begin.at[0] + query * job.y_row;
    const T* const g = static_cast<const T*>(job.g) + begin.at[1] + query * job.g_row;
    T delta = 0;
    for (std::int64_t c = lane; c < job.of.value_dim; c += gpu::warp_size) delta += g[c] * y[c];
    delta = gpu::warp_butterfly(delta, [](T a, T b) { return a + b; });
    if (lane == 0)
      static_cast<T*>(job.delta)[row] = delta - (job.dlse != nullptr ? static_cast<const T*>(job.dlse)[row] : T(0));
  }
}

/// Calls f.operator()<rounds, T>().
template <class F> Failure visit_heads(const AttentionHeads& of, F&& f) {
  if (of.type == DType::f64) return f.template operator()<false, double>();
  return of.rounds ? f.template operator()<true, float>() : f.template operator()<false, float>();
}

constexpr std::int64_t most_blocks = 0x7fffffff;
constexpr Failure too_large = "attention is cut into more blocks than a launch has";

} // namespace

Failure attention(Queue queue, const AttentionJob& job) {
  return visit_heads(job.of, [&]<bool rounds, class T>() -> Failure {
    const std::int64_t blocks = Share<T>::blocks(job.of.queries, job.of.value_dim, job.of.heads);
    if (blocks > most_blocks) return too_large;
    if (blocks > 0)
      GPU_LAUNCH((attention_kernel<rounds, T>), dim3(static_cast<unsigned>(blocks)), dim3(threads),
                 sizeof(ForwardRoom<T>), queue.stream, job);
    return nullptr;
  });
}

Failure attention_backward(Queue queue, const AttentionBackwardJob& job) {
  return visit_heads(job.of, [&]<bool rounds, class T>() -> Failure {
    const AttentionHeads& of = job.of;
    const std::int64_t for_queries = Share<T>::blocks(of.queries, of.head_dim, of.heads);
    const std::int64_t widest = of.head_dim > of.value_dim ? of.head_dim : of.value_dim;
    const std::int64_t for_keys = Share<T>::blocks(of.keys, widest, of.heads / of.group);
    if (for_queries > most_blocks || for_keys > most_blocks) return too_large;
    if (for_queries > 0) {
      GPU_LAUNCH(delta_kernel<T>, elements_grid(of.heads * of.queries * gpu::warp_size), elements_block, 0,
                 queue.stream, job);
      GPU_LAUNCH((query_gradient_kernel<rounds, T>), dim3(static_cast<unsigned>(for_queries)), dim3(threads),
                 sizeof(BackwardRoom<T>), queue.stream, job);
    }
    if (for_keys > 0)
      GPU_LAUNCH((key_gradient_kernel<rounds, T>), dim3(static_cast<unsigned>(for_keys)), dim3(threads),
                 sizeof(BackwardRoom<T>), queue.stream, job);
    return nullptr;
  });
}

} // namespace eg::cuda
