// The kernel keeps M rows by V vectors of C in registers (12 x 2 of 16 floats on AVX-512, 6 x 2 of 8 on AVX2). The
// right operand is packed into panels of that width, a block of which stays in L2; the left one is read where it lies
// when its rows run along k, else packed. Where C has few rows and both operands run along k (a layer's weights), the
// roles are swapped, so that the small operand is packed and the weights are read once, in order.

#include "core/allocator.h"
#include "core/gemm.h"
#include "core/parallel.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/gemm_simd.cpp"
#include "core/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace eg::HWY_NAMESPACE {
namespace {

using blas::Matrix;
using blas::Tile;
using gemm::Product;

#if HWY_TARGET == HWY_AVX3
constexpr int kernel_rows = 12;
#elif HWY_TARGET == HWY_AVX2
constexpr int kernel_rows = 6;
#else
constexpr int kernel_rows = 8;
#endif
constexpr int kernel_vectors = 2;

template <class T> HWY_INLINE std::int64_t LanesOf() {
  return static_cast<std::int64_t>(hn::Lanes(hn::ScalableTag<T>()));
}

/// A rectangle of C, either as it lies (element (i, j) at c[i*ld + j]) or transposed (at c[j*ld + i]).
template <class T> struct Target {
  T* c;
  std::int64_t ld;
  T alpha, beta;
};

/// Rows of the left operand: element (i, p) at data[i*row + p*step].
template <class T> struct Left {
  const T* data;
  std::int64_t row, step;
};

/// c[i, 0 .. V vectors) = alpha acc + beta c; `last` lanes of the last vector count.
template <int M, int V, class T, class Acc>
HWY_INLINE void StoreRows(const Acc& acc, const Target<T>& target, std::size_t last) {
  const hn::ScalableTag<T> d;
  const auto lanes = LanesOf<T>();
  const auto alpha = hn::Set(d, target.alpha), beta = hn::Set(d, target.beta);
  const bool whole = last == static_cast<std::size_t>(lanes);
  HWY_UNROLL(16)
  for (int i = 0; i < M; ++i) HWY_UNROLL(4)
  for (int v = 0; v < V; ++v) {
    T* c = target.c + i * target.ld + v * lanes;
    auto y = hn::Mul(acc[i][v], alpha);
    if (v + 1 < V || whole) {
      if (target.beta != T(0)) y = hn::MulAdd(beta, hn::LoadU(d, c), y);
      hn::StoreU(y, d, c);
    } else {
      if (target.beta != T(0)) y = hn::MulAdd(beta, LoadUpTo(d, c, last), y);
      StoreUpTo(y, d, c, last);
    }
  }
}

/// The same with C transposed: column j of the tile is a run of M elements.
template <int M, int V, class T, class Acc>
HWY_INLINE void StoreColumns(const Acc& acc, const Target<T>& target, std::int64_t columns) {
  const hn::ScalableTag<T> d;
  const auto lanes = LanesOf<T>();
  HWY_ALIGN T tile[M * V * hn::MaxLanes(hn::ScalableTag<T>())] = {};
  HWY_UNROLL(16)
  for (int i = 0; i < M; ++i) HWY_UNROLL(4)
  for (int v = 0; v < V; ++v) hn::Store(acc[i][v], d, tile + (i * V + v) * lanes);
  for (std::int64_t j = 0; j < columns; ++j) {
    T* c = target.c + j * target.ld;
    HWY_UNROLL(16)
    for (int i = 0; i < M; ++i) {
      const T y = target.alpha * tile[i * V * lanes + j];
      c[i] = target.beta == T(0) ? y : std::fma(target.beta, c[i], y);
    }
  }
}

/// One tile: M rows of the left operand times a panel of V vectors of the right one (element (p, j) at panel[p*W + j]).
template <int M, int V, bool transposed, class T>
HWY_NOINLINE void Kernel(std::int64_t k, Left<T> left, const T* HWY_RESTRICT panel, const Target<T>& target,
                         std::int64_t columns) {
  const hn::ScalableTag<T> d;
  const auto lanes = LanesOf<T>();
  constexpr int ahead = 16; // steps of k that the panel is fetched before it is used
  hn::Vec<decltype(d)> acc[M][V];
  HWY_UNROLL(16)
  for (int i = 0; i < M; ++i) HWY_UNROLL(4)
  for (int v = 0; v < V; ++v) acc[i][v] = hn::Zero(d);
  if constexpr (!transposed) HWY_UNROLL(16)
  for (int i = 0; i < M; ++i) HWY_UNROLL(4)
  for (int v = 0; v < V; ++v) hwy::Prefetch(target.c + i * target.ld + v * lanes);
  const T* a = left.data;
  for (std::int64_t p = 0; p < k; ++p, a += left.step, panel += V * lanes) {
    hn::Vec<decltype(d)> right[V];
    HWY_UNROLL(4)
    for (int v = 0; v < V; ++v) {
      right[v] = hn::Load(d, panel + v * lanes);
      hwy::Prefetch(panel + (ahead * V + v) * lanes);
    }
    HWY_UNROLL(16)
    for (int i = 0; i < M; ++i) {
      const auto value = hn::Set(d, a[i * left.row]);
      HWY_UNROLL(4)
      for (int v = 0; v < V; ++v) acc[i][v] = hn::MulAdd(value, right[v], acc[i][v]);
    }
  }
  if constexpr (transposed)
    StoreColumns<M, V>(acc, target, columns);
  else
    StoreRows<M, V>(acc, target, static_cast<std::size_t>(columns - (V - 1) * lanes));
}

/// The kernel for `rows` rows of at most kernel_rows and `columns` of at most kernel_vectors vectors.
template <bool transposed, int M, class T>
HWY_INLINE void CallKernel(std::int64_t rows, std::int64_t k, const Left<T>& left, const T* panel,
                           const Target<T>& target, std::int64_t columns) {
  if constexpr (M > 1)
    if (rows < M) return CallKernel<transposed, M - 1>(rows, k, left, panel, target, columns);
  if (columns > LanesOf<T>())
    Kernel<M, 2, transposed>(k, left, panel, target, columns);
  else
    Kernel<M, 1, transposed>(k, left, panel, target, columns);
}

/// Lines of an operand, cut into panels of `width`: element (i, p) of a panel at panel[p*width + i], panel after panel.
/// The last one is as wide as `last`, with zeros where lines are missing.
struct Panels {
  std::int64_t lines, width, last, k;

  std::int64_t of(std::int64_t line) const { return lines - line / width * width >= width ? width : last; }
};

/// From lines that run across k: element (i, p) at x[p*ld + i].
template <class T> void PackAcross(const T* x, std::int64_t ld, const Panels& panels, T* out) {
  const hn::ScalableTag<T> d;
  const auto lanes = LanesOf<T>();
  constexpr std::int64_t ahead = 12; // short runs far apart: the processor does not foresee them
  constexpr auto line = static_cast<std::int64_t>(64 / sizeof(T));
  for (std::int64_t p = 0; p < panels.k; ++p, x += ld) {
    if (p + ahead < panels.k)
      for (std::int64_t i = 0; i < panels.lines; i += line) hwy::Prefetch(x + ahead * ld + i);
    for (std::int64_t from = 0; from < panels.lines; from += panels.width) {
      const std::int64_t width = panels.of(from), lines = std::min(panels.width, panels.lines - from);
      T* const to = out + from * panels.k + p * width;
      const T* const row = x + from;
      std::int64_t i = 0;
      for (; i + lanes <= lines; i += lanes) hn::StoreU(hn::LoadU(d, row + i), d, to + i);
#if HWY_TARGET != HWY_SCALAR
      const hn::FixedTag<T, 16 / sizeof(T)> quarter;
      constexpr auto step = static_cast<std::int64_t>(16 / sizeof(T));
      for (; i + step <= lines; i += step) hn::StoreU(hn::LoadU(quarter, row + i), quarter, to + i);
#endif
      for (; i < lines; ++i) to[i] = row[i];
      for (; i < width; ++i) to[i] = T(0);
    }
  }
}

#if HWY_TARGET != HWY_SCALAR
/// Four rows of four floats (two of two doubles) become columns, `width` apart.
HWY_INLINE void TransposeSquare(const float* x, std::int64_t ld, float* to, std::int64_t width) {
  const hn::FixedTag<float, 4> d;
  const hn::FixedTag<double, 2> pairs;
  const auto r0 = hn::LoadU(d, x), r1 = hn::LoadU(d, x + ld);
  const auto r2 = hn::LoadU(d, x + 2 * ld), r3 = hn::LoadU(d, x + 3 * ld);
  const auto low01 = hn::BitCast(pairs, hn::InterleaveLower(d, r0, r1));
  const auto low23 = hn::BitCast(pairs, hn::InterleaveLower(d, r2, r3));
  const auto high01 = hn::BitCast(pairs, hn::InterleaveUpper(d, r0, r1));
  const auto high23 = hn::BitCast(pairs, hn::InterleaveUpper(d, r2, r3));
  hn::StoreU(hn::BitCast(d, hn::InterleaveLower(pairs, low01, low23)), d, to);
  hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(pairs, low01, low23)), d, to + width);
  hn::StoreU(hn::BitCast(d, hn::InterleaveLower(pairs, high01, high23)), d, to + 2 * width);
  hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(pairs, high01, high23)), d, to + 3 * width);
}
HWY_INLINE void TransposeSquare(const double* x, std::int64_t ld, double* to, std::int64_t width) {
  const hn::FixedTag<double, 2> d;
  const auto r0 = hn::LoadU(d, x), r1 = hn::LoadU(d, x + ld);
  hn::StoreU(hn::InterleaveLower(d, r0, r1), d, to);
  hn::StoreU(hn::InterleaveUpper(d, r0, r1), d, to + width);
}
#endif

/// From lines that run along k: element (i, p) at x[i*ld + p].
template <class T> void PackAlong(const T* x, std::int64_t ld, const Panels& panels, T* out) {
  const std::int64_t k = panels.k;
  for (std::int64_t from = 0; from < panels.lines; from += panels.width) {
    const std::int64_t width = panels.of(from), lines = std::min(panels.width, panels.lines - from);
    const T* const line = x + from * ld;
    T* const panel = out + from * k;
    std::int64_t i = 0;
#if HWY_TARGET != HWY_SCALAR
    constexpr auto side = static_cast<std::int64_t>(16 / sizeof(T));
    for (; i + side <= lines; i += side) {
      std::int64_t p = 0;
      for (; p + side <= k; p += side) TransposeSquare(line + i * ld + p, ld, panel + p * width + i, width);
      for (; p < k; ++p)
        for (std::int64_t s = i; s < i + side; ++s) panel[p * width + s] = line[s * ld + p];
    }
#endif
    for (; i < width; ++i)
      for (std::int64_t p = 0; p < k; ++p) panel[p * width + i] = i < lines ? line[i * ld + p] : T(0);
  }
}

/// `extent` in pieces of at most `most`, as even as multiples of `multiple` allow: the size of a piece.
inline std::int64_t EvenPiece(std::int64_t extent, std::int64_t most, std::int64_t multiple) {
  const std::int64_t pieces = std::max<std::int64_t>((extent + most - 1) / most, 1);
  return ((extent + pieces - 1) / pieces + multiple - 1) / multiple * multiple;
}

/// How a product is cut. The right operand is packed a region at a time (`region_depth` x `region_columns`), shared by
/// all threads; a task computes `rows` x `columns` of C from it, `depth` terms at a time, so that its part of C and one
/// block of the right operand stay in L2.
template <class T> struct Blocking {
  std::int64_t depth, columns, rows, region_depth, region_columns;

  /// packs_left: each task packs its rows of the left operand, once for each block of columns, which are wider then.
  Blocking(std::int64_t m, std::int64_t n, std::int64_t k, bool packs_left) {
    constexpr auto size = static_cast<std::int64_t>(sizeof(T));
    constexpr std::int64_t region_elements = (std::int64_t{16} << 20) / size;
    depth = EvenPiece(k, gemm::depth, 4);
    columns = EvenPiece(n, std::int64_t{packs_left ? 2048 : 1024} / size, kernel_vectors * LanesOf<T>());
    region_columns =
        std::clamp(region_elements / depth / columns, std::int64_t{1}, (n + columns - 1) / columns) * columns;
    region_depth = std::max<std::int64_t>(region_elements / region_columns / depth, 1) * depth;
    const std::int64_t most = (std::int64_t{1} << 19) / (columns * size); // 512 KiB of C
    constexpr std::int64_t tasks = 16;                                    // at least, where that leaves enough rows
    constexpr std::int64_t fewest_rows = 48;
    const std::int64_t wide = (n + columns - 1) / columns;
    rows = EvenPiece(m, std::clamp(m * wide / tasks, fewest_rows, std::max(most, fewest_rows)), kernel_rows);
  }
};

/// The product, with C as it lies or transposed: then m and n, a and b have changed places already.
template <bool transposed, class T> class Run {
public:
  Run(const Product<T>& product, FunctionRef<void(const Tile&)> before, FunctionRef<void(const Tile&)> after)
      : p_(product), before_(before), after_(after), block_(product.m, product.n, product.k, product.a.transposed) {
    const std::int64_t depth = std::min(block_.region_depth, (p_.k + block_.depth - 1) / block_.depth * block_.depth);
    const auto bytes = static_cast<std::size_t>(depth * block_.region_columns) * sizeof(T);
    if (bytes > sizeof small_) large_ = allocator::allocate(bytes);
    right_ = reinterpret_cast<T*>(large_ ? large_.get() : small_);
  }

  void operator()() {
    for (std::int64_t col = 0; col < p_.n; col += block_.region_columns)
      for (std::int64_t from = 0; from < p_.k; from += block_.region_depth)
        Multiply({from, std::min(block_.region_depth, p_.k - from), col, std::min(block_.region_columns, p_.n - col)});
  }

private:
  /// Packs one region of the right operand (rows: along k) and adds its part of the product.
  void Multiply(const Tile& region) {
    const std::int64_t wide = (region.cols + block_.columns - 1) / block_.columns;
    const std::int64_t deep = (region.rows + block_.depth - 1) / block_.depth;
    const std::int64_t parts = (region.cols + pack_columns - 1) / pack_columns;
    ForEach(parts * deep,
            [&](std::int64_t i) { PackPart(region, i % parts * pack_columns, i / parts * block_.depth); });
    ForEach((p_.m + block_.rows - 1) / block_.rows * wide, [&](std::int64_t i) {
      const std::int64_t row = i / wide * block_.rows, col = i % wide * block_.columns;
      Compute(region, {row, std::min(block_.rows, p_.m - row), col, std::min(block_.columns, region.cols - col)});
    });
  }

  template <class Body> void ForEach(std::int64_t count, const Body& body) {
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
  T* Packed(const Tile& region, std::int64_t col, std::int64_t from, std::int64_t k) const {
    const std::int64_t width = kernel_vectors * LanesOf<T>();
    return right_ + from * ((region.cols + width - 1) / width * width) + col * k;
  }

  void PackPart(const Tile& region, std::int64_t col, std::int64_t from) {
    const std::int64_t cols = std::min(pack_columns, region.cols - col), k = std::min(block_.depth, region.rows - from);
    const std::int64_t width = kernel_vectors * LanesOf<T>(), at_k = region.row + from, at_col = region.col + col;
    const Panels panels{cols, width, (cols - 1) % width >= LanesOf<T>() ? width : LanesOf<T>(), k};
    if (p_.b.transposed)
      PackAlong(p_.b.data + at_col * p_.b.ld + at_k, p_.b.ld, panels, Packed(region, col, from, k));
    else
      PackAcross(p_.b.data + at_k * p_.b.ld + at_col, p_.b.ld, panels, Packed(region, col, from, k));
  }

  /// A task: a tile of C, its columns counted from the region's.
  void Compute(const Tile& region, const Tile& tile) {
    const Tile whole{tile.row, tile.rows, region.col + tile.col, tile.cols};
    if (region.row == 0) Tell(before_, whole);
    std::shared_ptr<std::byte> room; // for the left operand, where it must be packed
    if (p_.a.transposed) {
      const std::int64_t padded = (tile.rows + kernel_rows - 1) / kernel_rows * kernel_rows;
      room = allocator::allocate(static_cast<std::size_t>(padded * block_.depth) * sizeof(T));
    }
    for (std::int64_t from = 0; from < region.rows; from += block_.depth) {
      const std::int64_t k = std::min(block_.depth, region.rows - from), at_k = region.row + from;
      T* const left = reinterpret_cast<T*>(room.get());
      if (p_.a.transposed)
        PackAcross(p_.a.data + at_k * p_.a.ld + tile.row, p_.a.ld, {tile.rows, kernel_rows, kernel_rows, k}, left);
      AddTerms(whole, at_k, k, left, Packed(region, tile.col, from, k));
    }
    if (region.row + region.rows == p_.k) Tell(after_, whole);
  }

  /// k terms from at_k on, for a tile of C.
  void AddTerms(const Tile& tile, std::int64_t at_k, std::int64_t k, const T* left, const T* right) {
    const std::int64_t width = kernel_vectors * LanesOf<T>();
    for (std::int64_t i = 0; i < tile.rows; i += kernel_rows) {
      const std::int64_t rows = std::min<std::int64_t>(kernel_rows, tile.rows - i), row = tile.row + i;
      const Left<T> a = p_.a.transposed ? Left<T>{left + i * k, 1, kernel_rows}
                                        : Left<T>{p_.a.data + row * p_.a.ld + at_k, p_.a.ld, 1};
      for (std::int64_t j = 0; j < tile.cols; j += width) {
        T* const c = transposed ? p_.c + (tile.col + j) * p_.ldc + row : p_.c + row * p_.ldc + tile.col + j;
        const Target<T> target{c, p_.ldc, p_.alpha, at_k == 0 ? p_.beta : T(1)};
        CallKernel<transposed, kernel_rows>(rows, k, a, right + j * k, target, std::min(width, tile.cols - j));
      }
    }
  }

  static void Tell(FunctionRef<void(const Tile&)> whom, const Tile& t) {
    whom(transposed ? Tile{t.col, t.cols, t.row, t.rows} : t);
  }

  const Product<T> p_;
  FunctionRef<void(const Tile&)> before_, after_;
  Blocking<T> block_;
  alignas(64) std::byte small_[std::size_t{1} << 15]; // enough for most heads of attention
  std::shared_ptr<std::byte> large_;
  T* right_; // the packed region, block after block
};

/// With few rows of C, packing the right operand would cost more than it saves.
template <class T> bool Swaps(const Product<T>& p) {
  constexpr std::int64_t few = 512;
  return !p.a.transposed && p.b.transposed && p.m <= few && p.m < p.n;
}

template <class T>
void ProductOf(const Product<T>& p, FunctionRef<void(const Tile&)> before, FunctionRef<void(const Tile&)> after) {
  if (Swaps(p))
    Run<true, T>(
        {p.n, p.m, p.k, p.alpha, {p.b.data, p.b.ld, false}, {p.a.data, p.a.ld, true}, p.beta, p.c, p.ldc, p.parallel},
        before, after)();
  else
    Run<false, T>(p, before, after)();
}

void ProductF32(const Product<float>& p, FunctionRef<void(const Tile&)> before, FunctionRef<void(const Tile&)> after) {
  ProductOf(p, before, after);
}
void ProductF64(const Product<double>& p, FunctionRef<void(const Tile&)> before, FunctionRef<void(const Tile&)> after) {
  ProductOf(p, before, after);
}
bool HasWideVectors() { return LanesOf<float>() >= 4; }

} // namespace
} // namespace eg::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace eg {

HWY_EXPORT(ProductF32);
HWY_EXPORT(ProductF64);
HWY_EXPORT(HasWideVectors);

namespace gemm {

bool available() { return HWY_DYNAMIC_DISPATCH(HasWideVectors)(); }

template <>
void product<float>(const Product<float>& p, FunctionRef<void(const blas::Tile&)> before,
                    FunctionRef<void(const blas::Tile&)> after) {
  HWY_DYNAMIC_DISPATCH(ProductF32)(p, before, after);
}
template <>
void product<double>(const Product<double>& p, FunctionRef<void(const blas::Tile&)> before,
                     FunctionRef<void(const blas::Tile&)> after) {
  HWY_DYNAMIC_DISPATCH(ProductF64)(p, before, after);
}

} // namespace gemm
} // namespace eg
#endif
