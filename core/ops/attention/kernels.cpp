#include "core/ops/attention/kernels.h"

#include "core/allocator.h"
#include "core/blas.h"
#include "core/parallel.h"

#include <algorithm>
#include <memory>
#include <utility>

namespace eg::attention_kernels {
namespace {

/// How the queries of a head are cut. Everything here depends on the extents alone.
struct Plan {
  std::int64_t tile_rows = 1; ///< queries in one tile
  std::int64_t tiles = 0;     ///< tiles of one head
  bool transpose_keys = false;
};

template <class T> Plan plan_for(const Extents& e) {
  constexpr std::int64_t score_bytes = 192 * 1024; // of a second-level cache of 1 MiB, beside q, k, v and y
  constexpr std::int64_t least_rows = 32;          // below, the product with k is not worth its packing
  const std::int64_t row_bytes = std::max<std::int64_t>(e.keys, 1) * static_cast<std::int64_t>(sizeof(T));
  const std::int64_t most = std::max(score_bytes / row_bytes, least_rows);
  Plan plan;
  plan.tiles = (e.queries + most - 1) / most;
  if (plan.tiles > 0) plan.tile_rows = (e.queries + plan.tiles - 1) / plan.tiles;
  // Small products with a transposed right side run at half the speed of plain ones; transposing k costs less.
  plan.transpose_keys = plan.tile_rows >= 16 && plan.tile_rows * e.keys * e.head_dim <= 1'000'000;
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

/// Buffers for one chunk of heads, carved from one block of the caching allocator.
template <class T> class Scratch {
public:
  explicit Scratch(std::int64_t elements)
      : block_(allocator::allocate(static_cast<std::size_t>(elements + 64) * sizeof(T))),
        next_(reinterpret_cast<T*>(block_.get())) {}
  T* take(std::int64_t elements) { return std::exchange(next_, next_ + padded(elements)); }
  /// Elements that `take` uses up.
  static std::int64_t padded(std::int64_t elements) { return (elements + 15) / 16 * 16; }

private:
  std::shared_ptr<std::byte> block_;
  T* next_;
};

/// to[j, i] = from[i, j] for from [rows, columns], to packed.
template <class T> void transpose(Rows<const T> from, std::int64_t rows, std::int64_t columns, T* to) {
  constexpr std::int64_t block = 16;
  for (std::int64_t first = 0; first < rows; first += block) {
    const std::int64_t last = std::min(first + block, rows);
    for (std::int64_t j = 0; j < columns; ++j)
      for (std::int64_t i = first; i < last; ++i) to[j * rows + i] = from.data[i * from.ld + j];
  }
}

template <class T> blas::Matrix<T> plain(Rows<const T> m) { return {m.data, m.ld, false}; }
template <class T> blas::Matrix<T> flipped(Rows<const T> m) { return {m.data, m.ld, true}; }
template <class T> Rows<const T> rows_from(Rows<const T> m, std::int64_t row) { return {m.data + row * m.ld, m.ld}; }

/// Right side b^T of a product for b [rows, columns]: transposed into scratch or left to BLAS.
template <class T>
blas::Matrix<T> right_transposed(Rows<const T> b, std::int64_t rows, std::int64_t columns, bool copy, T* scratch) {
  if (!copy) return flipped(b);
  transpose(b, rows, columns, scratch);
  return {scratch, rows, false};
}

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

template <class T>
void forward_tile(const Extents& e, const Plan& plan, const ForwardHead<T>& head, std::int64_t tile, T* transposed,
                  T* s, const Ahead& ahead) {
  const std::int64_t row = tile * plan.tile_rows;
  const std::int64_t rows = std::min(plan.tile_rows, e.queries - row);
  const auto k = right_transposed(head.k, e.keys, e.head_dim, plan.transpose_keys, transposed);
  blas::gemm<T>(rows, e.keys, e.head_dim, static_cast<T>(e.scale), plain(rows_from(head.q, row)), k, T{0}, s, e.keys);
  softmax_tile<T>(s, rows, e.keys, head.lse + row, ahead);
  blas::gemm<T>(rows, e.value_dim, e.keys, T{1}, {s, e.keys, false}, plain(head.v), T{0}, head.y.data + row * head.y.ld,
                head.y.ld);
}

template <class T> struct BackwardScratch { T *s, *ds, *k, *v; };

template <class T>
void backward_head(const Extents& e, const Plan& plan, const BackwardHead<T>& head, const BackwardScratch<T>& scratch,
                   const Ahead& ahead) {
  const auto scale = static_cast<T>(e.scale);
  const auto k = right_transposed(head.k, e.keys, e.head_dim, plan.transpose_keys, scratch.k);
  const auto v = right_transposed(head.v, e.keys, e.value_dim, plan.transpose_keys, scratch.v);
  for (std::int64_t row = 0; row < e.queries; row += plan.tile_rows) {
    const std::int64_t rows = std::min(plan.tile_rows, e.queries - row);
    const T beta = row == 0 ? T{0} : T{1}; // dk and dv gather the tiles in order
    const auto q = rows_from(head.q, row), y = rows_from(head.y, row), g = rows_from(head.g, row);
    blas::gemm<T>(rows, e.keys, e.head_dim, scale, plain(q), k, T{0}, scratch.s, e.keys);
    probability_tile<T>(scratch.s, rows, e.keys, head.lse + row, row == 0 ? ahead : Ahead{});
    blas::gemm<T>(e.keys, e.value_dim, rows, T{1}, {scratch.s, e.keys, true}, plain(g), beta, head.dv.data, head.dv.ld);
    blas::gemm<T>(rows, e.keys, e.value_dim, T{1}, plain(g), v, T{0}, scratch.ds, e.keys);
    score_gradient_tile<T>(scratch.s, scratch.ds, rows, e.keys, g, y, e.value_dim,
                           head.dlse ? head.dlse + row : nullptr, row == 0 ? ahead : Ahead{});
    blas::gemm<T>(rows, e.head_dim, e.keys, scale, {scratch.ds, e.keys, false}, plain(head.k), T{0},
                  head.dq.data + row * head.dq.ld, head.dq.ld);
    blas::gemm<T>(e.keys, e.head_dim, rows, scale, {scratch.ds, e.keys, true}, plain(q), beta, head.dk.data,
                  head.dk.ld);
  }
}

} // namespace

template <class T> void forward(const Extents& e, FunctionRef<ForwardHead<T>(std::int64_t)> head) {
  const Plan plan = plan_for<T>(e);
  const double flops = flops_of_product(plan.tile_rows, e.keys, e.head_dim + e.value_dim);
  const std::int64_t transposed = plan.transpose_keys ? e.head_dim * e.keys : 0;
  const std::int64_t scores = plan.tile_rows * e.keys;
  parallel::for_each(e.heads * plan.tiles, grain_for(flops), [&](std::int64_t begin, std::int64_t end) {
    Scratch<T> scratch(Scratch<T>::padded(transposed) + scores);
    T* const k = scratch.take(transposed);
    T* const s = scratch.take(scores);
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t h = i / plan.tiles;
      const bool last = i % plan.tiles + 1 == plan.tiles;
      const Ahead ahead = last && h + 1 < e.heads ? ahead_of(e, head(h + 1)) : Ahead{};
      forward_tile(e, plan, head(h), i % plan.tiles, k, s, ahead);
    }
  });
}

template <class T> void backward(const Extents& e, FunctionRef<BackwardHead<T>(std::int64_t)> head) {
  const Plan plan = plan_for<T>(e);
  if (e.queries == 0) { // no tile would clear them
    for (std::int64_t h = 0; h < e.heads; ++h) {
      const BackwardHead<T> one = head(h);
      zero(one.dk, e.keys, e.head_dim);
      zero(one.dv, e.keys, e.value_dim);
    }
    return;
  }
  const double flops = flops_of_product(e.queries, e.keys, 3 * e.head_dim + 2 * e.value_dim);
  const std::int64_t scores = plan.tile_rows * e.keys;
  const std::int64_t k = plan.transpose_keys ? e.head_dim * e.keys : 0;
  const std::int64_t v = plan.transpose_keys ? e.value_dim * e.keys : 0;
  parallel::for_each(e.heads, grain_for(flops), [&](std::int64_t begin, std::int64_t end) {
    using S = Scratch<T>;
    S scratch(2 * S::padded(scores) + S::padded(k) + S::padded(v));
    const BackwardScratch<T> buffers{scratch.take(scores), scratch.take(scores), scratch.take(k), scratch.take(v)};
    for (std::int64_t h = begin; h < end; ++h)
      backward_head(e, plan, head(h), buffers, h + 1 < e.heads ? ahead_of(e, head(h + 1)) : Ahead{});
  });
}

template void forward<float>(const Extents&, FunctionRef<ForwardHead<float>(std::int64_t)>);
template void forward<double>(const Extents&, FunctionRef<ForwardHead<double>(std::int64_t)>);
template void backward<float>(const Extents&, FunctionRef<BackwardHead<float>(std::int64_t)>);
template void backward<double>(const Extents&, FunctionRef<BackwardHead<double>(std::int64_t)>);

} // namespace eg::attention_kernels
