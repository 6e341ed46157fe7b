#include "core/ops/attention/kernels.h"

#include "core/gemm/blas.h"
#include "core/memory/allocator.h"
#include "core/memory/scratch_pool.h"
#include "core/threads/parallel.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <utility>

namespace eg::attention_kernels {
namespace {

/// How the scores of a head are cut, which depends on the extents alone, and what holds on the thread that shares the
/// heads out.
struct Plan {
  std::int64_t tile_rows = 1; ///< queries in one tile
  std::int64_t tiles = 0;     ///< tiles of one head
  std::int64_t block_keys = 1;
  std::int64_t ld = 1; ///< of a block of scores
  MatmulPrecision products = eg::matmul_precision();
};

/// Each side of a block is packed again for each block on the other one, so blocks are large; their scores, operands
/// and results stay in a second-level cache. How keys are cut does not depend on the number of heads, so that neither
/// do the bits. tasks: how many tiles there should be at least.
template <class T> Plan plan_for(const Extents& e, std::int64_t tasks) {
  constexpr std::int64_t fewest_rows = 64, most_rows = 256;
  constexpr std::int64_t vector = 64 / sizeof(T);
  const std::int64_t score_bytes = (e.causal ? 64 : 256) * 1024; // more would compute more scores above the diagonal
  const auto pieces = [](std::int64_t extent, std::int64_t most) { return (extent + most - 1) / most; };
  const auto even_piece = [&](std::int64_t extent, std::int64_t most) {
    return std::max<std::int64_t>(pieces(extent, std::max<std::int64_t>(pieces(extent, most), 1)), 1);
  };
  const std::int64_t rows = std::clamp<std::int64_t>(e.queries, 1, most_rows);
  Plan plan;
  plan.tile_rows = even_piece(e.queries, std::clamp(e.heads * e.queries / tasks, fewest_rows, most_rows));
  plan.tiles = pieces(e.queries, plan.tile_rows);
  const std::int64_t keys = even_piece(e.keys, score_bytes / static_cast<std::int64_t>(sizeof(T)) / rows);
  plan.block_keys = pieces(keys, vector) * vector;
  plan.ld = plan.block_keys + vector; // so that rows do not share a place in the first-level cache
  return plan;
}

/// Heads or tiles of one chunk, so that a chunk is worth a task.
std::int64_t grain_for(double flops_each) {
  constexpr double flops_per_chunk = 2e6;
  return static_cast<std::int64_t>(std::clamp(flops_per_chunk / std::max(flops_each, 1.0), 1.0, 4096.0));
}

double flops_of_product(std::int64_t m, std::int64_t n, std::int64_t k) {
  return 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
}

/// Buffers for one chunk of heads, carved from one scratch buffer.
template <class T> class Scratch {
public:
  explicit Scratch(ScratchPool& pool) : buffer_(pool.take()), next_(reinterpret_cast<T*>(buffer_.data())) {}
  T* take(std::int64_t elements) { return std::exchange(next_, next_ + padded(elements)); }
  /// Elements that `take` uses up.
  static std::int64_t padded(std::int64_t elements) { return (elements + 15) / 16 * 16; }
  /// Bytes of a scratch buffer for so many elements.
  static std::size_t bytes(std::int64_t elements) { return static_cast<std::size_t>(elements + 64) * sizeof(T); }

private:
  ScratchPool::Buffer buffer_;
  T* next_;
};

template <class T> blas::Matrix<T> plain(Rows<const T> m) { return {m.data, m.ld, false}; }
template <class T> blas::Matrix<T> flipped(Rows<const T> m) { return {m.data, m.ld, true}; }
template <class T> Rows<T> rows_from(Rows<T> m, std::int64_t row) { return {m.data + row * m.ld, m.ld}; }

/// The queries of one tile and the keys that they see.
struct Tile {
  std::int64_t row, rows, keys;

  Tile(const Extents& e, const Plan& plan, std::int64_t first)
      : row(first), rows(std::min(plan.tile_rows, e.queries - first)),
        keys(e.causal ? std::clamp<std::int64_t>(e.seen_by(first + rows - 1), 0, e.keys) : e.keys) {}
};

/// The keys of a tile from `first` on. Queries that see none of them are left out, but not of the first block, which
/// sets what the others add to.
struct Block {
  std::int64_t row, rows, col, keys;

  Block(const Extents& e, const Plan& plan, const Tile& tile, std::int64_t first)
      : row(tile.row), rows(tile.rows), col(first), keys(std::min(plan.block_keys, tile.keys - first)) {
    if (!e.causal || col == 0) return;
    const std::int64_t blind = std::clamp<std::int64_t>(col + 1 - e.seen_by(row), 0, rows);
    row += blind;
    rows -= blind;
  }

  template <class T> TileMask<T> mask(const Extents& e, const Mask<T>& of_head) const {
    Mask<T> moved = of_head;
    if (moved.data != nullptr) moved.data += row * moved.row + col * moved.column;
    return {moved, e.causal, e.seen_by(row) - col};
  }
};

template <class T> void zero(Rows<T> m, std::int64_t rows, std::int64_t columns) {
  for (std::int64_t i = 0; i < rows; ++i) std::fill_n(m.data + i * m.ld, columns, T{0});
}

template <class T> Ahead ahead_of(const Extents& e, const ForwardHead<T>& head) {
  Ahead ahead;
  ahead.add(head.k, e.keys, e.head_dim);
  ahead.add(head.q, e.queries, e.head_dim);
  ahead.add(head.v, e.keys, e.value_dim);
  return ahead;
}

template <class T> Ahead ahead_of(const Extents& e, const BackwardHead<T>& head) {
  Ahead ahead;
  ahead.add(head.k, e.keys, e.head_dim);
  ahead.add(head.v, e.keys, e.value_dim);
  ahead.add(head.q, e.queries, e.head_dim);
  ahead.add(head.g, e.queries, e.value_dim);
  ahead.add(head.y, e.queries, e.value_dim);
  return ahead;
}

template <class T> struct ForwardScratch { T *s, *total; };

template <class T>
void forward_tile(const Extents& e, const Plan& plan, const ForwardHead<T>& head, std::int64_t index,
                  const ForwardScratch<T>& scratch, const Ahead& ahead) {
  const Tile tile(e, plan, index * plan.tile_rows);
  const Rows<T> whole = rows_from(head.y, tile.row);
  if (tile.keys == 0) zero(whole, tile.rows, e.value_dim);
  const RunningSoftmax<T> all{head.lse + tile.row, scratch.total};
  std::fill_n(all.largest, tile.rows, -std::numeric_limits<T>::infinity());
  std::fill_n(all.total, tile.rows, T{0});
  for (std::int64_t col = 0; col < tile.keys; col += plan.block_keys) {
    const Block b(e, plan, tile, col);
    const Rows<T> s{scratch.s, plan.ld}, y = rows_from(head.y, b.row);
    blas::gemm<T>(b.rows, b.keys, e.head_dim, static_cast<T>(e.scale), plain(rows_from(head.q, b.row)),
                  flipped(rows_from(head.k, col)), T{0}, s.data, s.ld, plan.products);
    const std::int64_t skipped = b.row - tile.row;
    running_softmax_tile<T>(s, b.rows, b.keys, {all.largest + skipped, all.total + skipped}, y, e.value_dim,
                            b.mask(e, head.mask), col == 0 ? ahead : Ahead{});
    blas::gemm<T>(b.rows, e.value_dim, b.keys, T{1}, {s.data, s.ld, false}, plain(rows_from(head.v, col)), T(col > 0),
                  y.data, y.ld, plan.products);
  }
  const bool masked = e.causal || head.mask.data != nullptr;
  finish_softmax<T>(all, tile.rows, whole, e.value_dim, masked);
}

/// Adds a block of score gradients to the gradient of a mask, over what it repeats.
template <class T> void add_to_mask(const Block& b, Rows<const T> ds, const MaskGradient<T>& gradient, T* dmask) {
  for (std::int64_t r = 0; r < b.rows; ++r) {
    const T* const row = ds.data + r * ds.ld;
    T* const to = dmask + (b.row + r) * gradient.row + b.col * gradient.column;
    if (gradient.column == 1) {
      for (std::int64_t j = 0; j < b.keys; ++j) to[j] += row[j];
    } else {
      T total = 0;
      for (std::int64_t j = 0; j < b.keys; ++j) total += row[j];
      *to += total;
    }
  }
}

/// Buffers of one chunk of heads. dmask: where this chunk gathers the gradient of the masks, or null.
template <class T> struct BackwardScratch { T *s, *ds, *dmask; };

/// One head. first: the first of its group, which sets dk and dv; the others add to them.
template <class T>
void backward_head(const Extents& e, const Plan& plan, const BackwardHead<T>& head, bool first,
                   const BackwardScratch<T>& scratch, const MaskGradient<T>& gradient, const Ahead& ahead) {
  const auto scale = static_cast<T>(e.scale);
  if (first && e.causal) { // the first tile does not reach all keys
    zero(head.dk, e.keys, e.head_dim);
    zero(head.dv, e.keys, e.value_dim);
  }
  for (std::int64_t row = 0; row < e.queries; row += plan.tile_rows) {
    const Tile tile(e, plan, row);
    if (tile.keys == 0) zero(rows_from(head.dq, row), tile.rows, e.head_dim);
    const T sets = first && row == 0 && !e.causal ? T{0} : T{1}; // dk and dv gather the tiles in order
    for (std::int64_t col = 0; col < tile.keys; col += plan.block_keys) {
      const Block b(e, plan, tile, col);
      const auto q = rows_from(head.q, b.row), y = rows_from(head.y, b.row), g = rows_from(head.g, b.row);
      const auto k = rows_from(head.k, col), v = rows_from(head.v, col);
      const Rows<T> dq = rows_from(head.dq, b.row), dk = rows_from(head.dk, col), dv = rows_from(head.dv, col);
      const Rows<T> s{scratch.s, plan.ld}, ds{scratch.ds, plan.ld};
      const Ahead& next = row == 0 && col == 0 ? ahead : Ahead{};
      blas::gemm<T>(b.rows, b.keys, e.head_dim, scale, plain(q), flipped(k), T{0}, s.data, s.ld, plan.products);
      probability_tile<T>(s, b.rows, b.keys, head.lse + b.row, b.mask(e, head.mask), next);
      blas::gemm<T>(b.keys, e.value_dim, b.rows, T{1}, {s.data, s.ld, true}, plain(g), sets, dv.data, dv.ld,
                    plan.products);
      blas::gemm<T>(b.rows, b.keys, e.value_dim, T{1}, plain(g), flipped(v), T{0}, ds.data, ds.ld, plan.products);
      score_gradient_tile<T>({s.data, s.ld}, ds, b.rows, b.keys, g, y, e.value_dim,
                             head.dlse ? head.dlse + b.row : nullptr, next);
      if (scratch.dmask) add_to_mask<T>(b, {ds.data, ds.ld}, gradient, scratch.dmask + head.dmask_offset);
      blas::gemm<T>(b.rows, e.head_dim, b.keys, scale, {ds.data, ds.ld, false}, plain(k), T(col > 0), dq.data, dq.ld,
                    plan.products);
      blas::gemm<T>(b.keys, e.head_dim, b.rows, scale, {ds.data, ds.ld, true}, plain(q), sets, dk.data, dk.ld,
                    plan.products);
    }
  }
}

/// Gradients of masks that several heads share, gathered chunk by chunk and joined in order; others are written where
/// they belong.
template <class T> class MaskSums {
public:
  MaskSums(const MaskGradient<T>& gradient, std::int64_t chunks) : gradient_(gradient) {
    if (gradient.data == nullptr) return;
    std::fill_n(gradient.data, gradient.elements, T{0});
    if (!gradient.shared) return;
    chunks_ = chunks;
    partial_ = allocator::allocate(static_cast<std::size_t>(chunks * gradient.elements) * sizeof(T));
  }

  T* of_chunk(std::int64_t index) {
    if (!partial_) return gradient_.data;
    T* const sums = reinterpret_cast<T*>(partial_.get()) + index * gradient_.elements;
    std::fill_n(sums, gradient_.elements, T{0});
    return sums;
  }

  void join() {
    if (!partial_) return;
    const T* const sums = reinterpret_cast<const T*>(partial_.get());
    parallel::for_each(gradient_.elements, 16384, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t c = 0; c < chunks_; ++c)
        for (std::int64_t i = begin; i < end; ++i) gradient_.data[i] += sums[c * gradient_.elements + i];
    });
  }

private:
  MaskGradient<T> gradient_;
  std::int64_t chunks_ = 0;
  std::shared_ptr<std::byte> partial_;
};

} // namespace

template <class T> void forward(const Extents& e, FunctionRef<ForwardHead<T>(std::int64_t)> head) {
  const Plan plan = plan_for<T>(e, 16);
  const double flops = flops_of_product(plan.tile_rows, e.keys, e.head_dim + e.value_dim);
  const std::int64_t scores = plan.tile_rows * plan.ld;
  std::int64_t grain = grain_for(flops);
  if (e.causal && e.heads >= 8) grain = std::max(grain, plan.tiles); // whole heads, whose tiles differ in size
  using S = Scratch<T>;
  ScratchPool pool(parallel::chunks(e.heads * plan.tiles, grain), S::bytes(S::padded(scores) + plan.tile_rows));
  parallel::for_each(e.heads * plan.tiles, grain, [&](std::int64_t begin, std::int64_t end) {
    S scratch(pool);
    T* const s = scratch.take(scores);
    const ForwardScratch<T> buffers{s, scratch.take(plan.tile_rows)};
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t h = i / plan.tiles;
      const bool last = i % plan.tiles + 1 == plan.tiles;
      const Ahead ahead = last && h + 1 < e.heads ? ahead_of(e, head(h + 1)) : Ahead{};
      forward_tile(e, plan, head(h), i % plan.tiles, buffers, ahead);
    }
  });
}

template <class T>
void backward(const Extents& e, FunctionRef<BackwardHead<T>(std::int64_t)> head, const MaskGradient<T>& dmask) {
  const Plan plan = plan_for<T>(e, 1);
  if (e.queries == 0) { // no tile would clear them
    for (std::int64_t h = 0; h < e.heads; h += e.group) {
      const BackwardHead<T> one = head(h);
      zero(one.dk, e.keys, e.head_dim);
      zero(one.dv, e.keys, e.value_dim);
    }
    if (dmask.data != nullptr) std::fill_n(dmask.data, dmask.elements, T{0});
    return;
  }
  constexpr std::int64_t most_sums = 16; // chunks that gather a gradient of the masks each
  const std::int64_t groups = e.heads / e.group;
  const double flops = flops_of_product(e.queries * e.group, e.keys, 3 * e.head_dim + 2 * e.value_dim);
  std::int64_t grain = grain_for(flops);
  if (dmask.data != nullptr && dmask.shared) grain = std::max(grain, (groups + most_sums - 1) / most_sums);
  MaskSums<T> sums(dmask, parallel::chunks(groups, grain));
  const std::int64_t scores = plan.tile_rows * plan.ld;
  using S = Scratch<T>;
  ScratchPool pool(parallel::chunks(groups, grain), S::bytes(2 * S::padded(scores)));
  parallel::for_each(groups, grain, [&](std::int64_t begin, std::int64_t end) {
    S scratch(pool);
    T* const s = scratch.take(scores);
    T* const ds = scratch.take(scores);
    const BackwardScratch<T> buffers{s, ds, dmask.data != nullptr ? sums.of_chunk(begin / grain) : nullptr};
    for (std::int64_t h = begin * e.group; h < end * e.group; ++h)
      backward_head(e, plan, head(h), h % e.group == 0, buffers, dmask,
                    h + 1 < e.heads ? ahead_of(e, head(h + 1)) : Ahead{});
  });
  sums.join();
}

template void forward<float>(const Extents&, FunctionRef<ForwardHead<float>(std::int64_t)>);
template void forward<double>(const Extents&, FunctionRef<ForwardHead<double>(std::int64_t)>);
template void backward<float>(const Extents&, FunctionRef<BackwardHead<float>(std::int64_t)>,
                              const MaskGradient<float>&);
template void backward<double>(const Extents&, FunctionRef<BackwardHead<double>(std::int64_t)>,
                               const MaskGradient<double>&);

} // namespace eg::attention_kernels
