#pragma once
// Runs the loops around the kernels of our matrix products: how C is cut into tasks, what is packed when. Shared by the
// kernels of gemm_simd.cpp (one for each width of vectors), gemm_bf16.cpp and tile_kernels.h.

#include "core/gemm/gemm.h"
#include "core/memory/allocator.h"
#include "core/memory/scratch_pool.h"
#include "core/threads/parallel.h"

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <memory>

namespace eg::gemm {

/// A rectangle of C, either in row-major order (element (i, j) at c[i*ld + j]) or transposed (at c[j*ld + i]): there
/// plus.bias runs along i.
template <class T> struct Target {
  T* c;
  std::int64_t ld;
  T alpha, beta;
  blas::Addends<T> plus;
};

/// Rows of the left operand: element (i, p) at data[i*row + p*step].
template <class T> struct Left {
  const T* data;
  std::int64_t row, step;
};

/// Lines of an operand, cut into panels of `width`: element (i, p) of a panel at panel[p*width + i], panel after panel.
/// The last one is as wide as `last`, with zeros where lines are missing.
struct Panels {
  std::int64_t lines, width, last, k;
  bool left; ///< rows of the left operand; else columns of the right one. Kernels for tiles pack them otherwise.

  /// Width of the panel that begins at `line`.
  std::int64_t of(std::int64_t line) const { return lines - line / width * width >= width ? width : last; }
};

/// `extent` in pieces of at most `most`, as even as multiples of `multiple` allow: the size of a piece.
inline std::int64_t even_piece(std::int64_t extent, std::int64_t most, std::int64_t multiple) {
  const std::int64_t pieces = std::max<std::int64_t>((extent + most - 1) / most, 1);
  return ((extent + pieces - 1) / pieces + multiple - 1) / multiple * multiple;
}

/// How a product is cut. The right operand is packed a region at a time (`region_depth` x `region_columns`), shared by
/// all threads; a task computes `rows` x `columns` of C from it, `depth` terms at a time, so that its part of C and one
/// block of the right operand stay in L2.
template <class Kernel> struct Blocking {
  std::int64_t depth, columns, rows, region_depth, region_columns;

  /// packs_left: each task packs its rows of the left operand, once for each block of columns, which are wider then.
  /// Few rows at a time: while they are packed and read their place stays in the cache (48 of them are whole lines of
  /// 64 bytes where they run across k). Twice as many where each panel of the right operand is read once for them all.
  Blocking(std::int64_t m, std::int64_t n, std::int64_t k, bool packs_left) {
    constexpr auto size = static_cast<std::int64_t>(sizeof(typename Kernel::Scalar));
    constexpr std::int64_t region_elements =
        (std::int64_t{16} << 20) / static_cast<std::int64_t>(sizeof(typename Kernel::Packed)) * Kernel::terms;
    depth = even_piece(k, gemm::depth, std::max(4, Kernel::terms));
    columns = even_piece(n, std::int64_t{packs_left ? 2048 : 1024} / size, Kernel::width());
    region_columns =
        std::clamp(region_elements / depth / columns, std::int64_t{1}, (n + columns - 1) / columns) * columns;
    region_depth = std::max<std::int64_t>(region_elements / region_columns / depth, 1) * depth;
    const std::int64_t most = (std::int64_t{1} << 19) / (columns * size); // 512 KiB of C
    constexpr std::int64_t tasks = 16;                                    // at least, where that leaves enough rows
    constexpr std::int64_t fewest_rows = 48;
    const std::int64_t wide = (n + columns - 1) / columns;
    rows = even_piece(m,
                      packs_left ? (Kernel::panel_by_panel ? 2 * fewest_rows : fewest_rows)
                                 : std::clamp(m * wide / tasks, fewest_rows, std::max(most, fewest_rows)),
                      Kernel::rows);
  }
};

/// The product, with C in row-major order or transposed: then m and n, a and b have changed places already. A Kernel
/// has
///   Scalar, Packed, terms    the type of C, and what packed operands are made of: `terms` elements in the order of k
///   rows, width(), lanes()   rows and columns of C in registers, columns of one vector
///   reads_left_in_place      the left operand is not packed, unless its lines displace each other from the cache
///   packs_left_across        where its lines run across k, it is packed all the same
///   panel_by_panel           a panel of the right operand is multiplied by all packed rows of a task before the next
///   pack_along, pack_across  (x, ld, panels, out): from lines that run along k, element (i, p) at x[i*ld + p], or
///                            across, at x[p*ld + i]; panels are counted in elements of k, and `out` holds
///                            k / terms steps, rounded up, of which the last is filled with zeros
///   multiply<transposed>     (rows, steps, left, panel, target, columns): one tile of at most rows x width()
///   Task                     what a thread holds while it multiplies: an empty struct, or configured tile registers
template <class Kernel, bool transposed> class Run {
  using T = typename Kernel::Scalar;
  using Packed = typename Kernel::Packed;

public:
  Run(const Product<T>& product, FunctionRef<void(const blas::Tile&)> after)
      : p_(product), after_(after), block_(product.m, product.n, product.k, packs_left(product)),
        left_buffers_(tasks(), product.parallel ? left_bytes() : 0) {
    assert(p_.beta == T(0) || !p_.plus.any());
    const std::int64_t deep = std::min(block_.region_depth, (p_.k + block_.depth - 1) / block_.depth * block_.depth);
    // One thread keeps its part of the left operand behind the right one.
    const std::int64_t right = steps(deep) * block_.region_columns;
    const std::size_t bytes = static_cast<std::size_t>(right) * sizeof(Packed) + (p_.parallel ? 0 : left_bytes());
    if (bytes > sizeof small_) large_ = allocator::allocate(bytes);
    right_ = reinterpret_cast<Packed*>(large_ ? large_.get() : small_);
    left_ = right_ + right;
  }

  void operator()() {
    for (std::int64_t col = 0; col < p_.n; col += block_.region_columns)
      for (std::int64_t from = 0; from < p_.k; from += block_.region_depth)
        multiply({from, std::min(block_.region_depth, p_.k - from), col, std::min(block_.region_columns, p_.n - col)});
  }

private:
  static bool packs_left(const Product<T>& p) {
    if (!Kernel::reads_left_in_place || (Kernel::packs_left_across && p.a.transposed)) return true;
    // Rows that run across k are hundreds: two places are too few for them as well.
    return rows_collide(p.a.transposed ? 2 * p.a.ld : p.a.ld);
  }
  /// Whether rows so far apart have one place in a first cache of 64 lines a way, which has fewer ways than a kernel
  /// has rows.
  static bool rows_collide(std::int64_t ld) { return ld * static_cast<std::int64_t>(sizeof(T)) % 4096 == 0; }
  static std::int64_t steps(std::int64_t k) { return (k + Kernel::terms - 1) / Kernel::terms; }

  /// Tasks of the widest region.
  std::int64_t tasks() const {
    const std::int64_t columns = std::min(block_.region_columns, p_.n);
    return (p_.m + block_.rows - 1) / block_.rows * ((columns + block_.columns - 1) / block_.columns);
  }
  /// Bytes of a task's packed rows of the left operand.
  std::size_t left_bytes() const {
    if (!packs_left(p_)) return 0;
    return static_cast<std::size_t>(block_.rows * steps(block_.depth)) * sizeof(Packed);
  }

  /// Packs one region of the right operand (rows: along k) and adds its part of the product.
  void multiply(const blas::Tile& region) {
    const std::int64_t wide = (region.cols + block_.columns - 1) / block_.columns;
    const std::int64_t deep = (region.rows + block_.depth - 1) / block_.depth;
    const std::int64_t parts = (region.cols + pack_columns - 1) / pack_columns;
    for_each(parts * deep,
             [&](std::int64_t i) { pack_part(region, i % parts * pack_columns, i / parts * block_.depth); });
    for_each((p_.m + block_.rows - 1) / block_.rows * wide, [&](std::int64_t i) {
      const std::int64_t row = i / wide * block_.rows, col = i % wide * block_.columns;
      compute(region, {row, std::min(block_.rows, p_.m - row), col, std::min(block_.columns, region.cols - col)});
    });
  }

  template <class Body> void for_each(std::int64_t count, const Body& body) {
    if (!p_.parallel) {
      for (std::int64_t i = 0; i < count; ++i) body(i);
      return;
    }
    parallel::for_each(count, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) body(i);
    });
  }

  static constexpr std::int64_t pack_columns = 128; // whole panels, packed by one task

  /// Where the panels from (from, col) of a region on are packed.
  Packed* packed(const blas::Tile& region, std::int64_t col, std::int64_t from, std::int64_t k) const {
    const std::int64_t width = Kernel::width();
    return right_ + steps(from) * ((region.cols + width - 1) / width * width) + col * steps(k);
  }

  void pack_part(const blas::Tile& region, std::int64_t col, std::int64_t from) {
    const std::int64_t cols = std::min(pack_columns, region.cols - col), k = std::min(block_.depth, region.rows - from);
    const std::int64_t width = Kernel::width(), at_k = region.row + from, at_col = region.col + col;
    const Panels panels{cols, width, (cols - 1) % width >= Kernel::lanes() ? width : Kernel::lanes(), k, false};
    if (p_.b.transposed)
      Kernel::pack_along(p_.b.data + at_col * p_.b.ld + at_k, p_.b.ld, panels, packed(region, col, from, k));
    else
      Kernel::pack_across(p_.b.data + at_k * p_.b.ld + at_col, p_.b.ld, panels, packed(region, col, from, k));
  }

  void pack_left(const blas::Tile& tile, std::int64_t at_k, std::int64_t k, Packed* out) {
    const Panels panels{tile.rows, Kernel::rows, Kernel::rows, k, true};
    if (p_.a.transposed)
      Kernel::pack_across(p_.a.data + at_k * p_.a.ld + tile.row, p_.a.ld, panels, out);
    else
      Kernel::pack_along(p_.a.data + tile.row * p_.a.ld + at_k, p_.a.ld, panels, out);
  }

  /// A task: a tile of C, its columns counted from the region's.
  void compute(const blas::Tile& region, const blas::Tile& tile) {
    const blas::Tile whole{tile.row, tile.rows, region.col + tile.col, tile.cols};
    const ScratchPool::Buffer buffer = left_buffers_.take();
    [[maybe_unused]] const typename Kernel::Task task;
    for (std::int64_t from = 0; from < region.rows; from += block_.depth) {
      const std::int64_t k = std::min(block_.depth, region.rows - from), at_k = region.row + from;
      Packed* const left = p_.parallel ? reinterpret_cast<Packed*>(buffer.data()) : left_;
      if (packs_left(p_)) pack_left(whole, at_k, k, left);
      add_terms(whole, at_k, k, left, packed(region, tile.col, from, k));
    }
    if (transposed && region.row + region.rows == p_.k) finished(whole);
  }

  /// Rows of the left operand from `i` of a tile on.
  Left<Packed> left_of(const blas::Tile& tile, std::int64_t i, std::int64_t at_k, std::int64_t k,
                       const Packed* left) const {
    if constexpr (Kernel::reads_left_in_place)
      if (!packs_left(p_)) {
        if (p_.a.transposed) return {p_.a.data + at_k * p_.a.ld + tile.row + i, 1, p_.a.ld};
        return {p_.a.data + (tile.row + i) * p_.a.ld + at_k, p_.a.ld, 1};
      }
    return {left + i * steps(k), 1, Kernel::rows};
  }

  /// k terms from at_k on, for a tile of C.
  void add_terms(const blas::Tile& tile, std::int64_t at_k, std::int64_t k, const Packed* left, const Packed* right) {
    const std::int64_t width = Kernel::width();
    const auto multiply = [&](std::int64_t i, std::int64_t j) {
      Kernel::template multiply<transposed>(
          std::min<std::int64_t>(Kernel::rows, tile.rows - i), steps(k), left_of(tile, i, at_k, k, left),
          right + j * steps(k), target(tile.row + i, tile.col + j, at_k == 0), std::min(width, tile.cols - j));
    };
    if (Kernel::panel_by_panel && packs_left(p_)) {
      for (std::int64_t j = 0; j < tile.cols; j += width)
        for (std::int64_t i = 0; i < tile.rows; i += Kernel::rows) multiply(i, j);
      if (!transposed && at_k + k == p_.k) finished(tile);
      return;
    }
    for (std::int64_t i = 0; i < tile.rows; i += Kernel::rows) {
      for (std::int64_t j = 0; j < tile.cols; j += width) multiply(i, j);
      // A few whole rows are finished in L1; a few columns (transposed) would be short runs far apart.
      if (!transposed && at_k + k == p_.k)
        finished({tile.row + i, std::min<std::int64_t>(Kernel::rows, tile.rows - i), tile.col, tile.cols});
    }
  }

  /// C from row `i` and column `j` of the kernel's on; `first`: for the first terms.
  Target<T> target(std::int64_t i, std::int64_t j, bool first) const {
    const std::int64_t row = transposed ? j : i, col = transposed ? i : j;
    return {p_.c + row * p_.ldc + col, p_.ldc, p_.alpha, first ? p_.beta : T(1),
            first ? p_.plus.from(row, col) : blas::Addends<T>{}};
  }

  void finished(const blas::Tile& t) { after_(transposed ? blas::Tile{t.col, t.cols, t.row, t.rows} : t); }

  const Product<T> p_;
  FunctionRef<void(const blas::Tile&)> after_;
  Blocking<Kernel> block_;
  ScratchPool left_buffers_;
  alignas(64) std::byte small_[std::size_t{1} << 16]; // enough for most heads of attention
  std::shared_ptr<std::byte> large_;
  Packed* right_; // the packed region, block after block
  Packed* left_;  // without threads: packed rows of the left operand
};

} // namespace eg::gemm
