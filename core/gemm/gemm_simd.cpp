// The kernel keeps M rows by V vectors of C in registers (12 x 2 of 16 floats on AVX-512, 6 x 2 of 8 on AVX2). The
// right operand is packed into panels of that width, a block of which stays in L2; the left one is read in place
// unless its lines displace each other from the cache or, on AVX2, run across k, else packed. Where C has few rows and
// both operands run along k (a layer's weights), the roles are swapped, so that the small operand is packed and the
// weights are read once, in order.

#include "core/gemm/gemm_run.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/gemm/gemm_simd.cpp"
#include "core/simd/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace eg::HWY_NAMESPACE {
namespace {

using blas::Tile;
using gemm::Left;
using gemm::Panels;
using gemm::Product;
using gemm::Target;

#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3
constexpr int kernel_rows = 12;
#elif HWY_TARGET == HWY_AVX2
constexpr int kernel_rows = 6;
#else
constexpr int kernel_rows = 8;
#endif
constexpr int kernel_vectors = 2;
/// x86 with AVX2 alone: many of these have 512 KiB of second-level cache or less.
constexpr bool narrow = HWY_TARGET == HWY_AVX2;

template <class T> HWY_INLINE std::int64_t LanesOf() {
  return static_cast<std::int64_t>(hn::Lanes(hn::ScalableTag<T>()));
}

/// acc[i, 0 .. V vectors) becomes alpha acc + plus; `last` lanes of the last vector count.
template <int M, int V, class T, class Acc>
HWY_INLINE void AddToRows(Acc& acc, const Target<T>& target, std::size_t last) {
  const hn::ScalableTag<T> d;
  const auto lanes = LanesOf<T>();
  const auto alpha = hn::Set(d, target.alpha);
  const T *const bias = target.plus.bias, *const addend = target.plus.addend;
  HWY_UNROLL(4)
  for (int v = 0; v < V; ++v) {
    const std::size_t count = v + 1 < V ? static_cast<std::size_t>(lanes) : last;
    const auto column = bias != nullptr ? LoadUpTo(d, bias + v * lanes, count) : hn::Zero(d);
    HWY_UNROLL(16)
    for (int i = 0; i < M; ++i) {
      auto start = column;
      if (addend != nullptr) {
        start = LoadUpTo(d, addend + i * target.plus.ld + v * lanes, count);
        if (bias != nullptr) start = hn::Add(column, start);
      }
      acc[i][v] = hn::Add(hn::Mul(acc[i][v], alpha), start);
    }
  }
}

/// c[i, 0 .. V vectors) = factor acc + beta c; `last` lanes of the last vector count.
template <int M, int V, class T, class Acc>
HWY_INLINE void StoreRows(const Acc& acc, T factor, const Target<T>& target, std::size_t last) {
  const hn::ScalableTag<T> d;
  const auto lanes = LanesOf<T>();
  const auto alpha = hn::Set(d, factor), beta = hn::Set(d, target.beta);
  const bool whole = last == static_cast<std::size_t>(lanes);
  HWY_UNROLL(16)
  for (int i = 0; i < M; ++i) {
    HWY_UNROLL(4)
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
}

#if HWY_TARGET != HWY_SCALAR
#if HWY_TARGET <= HWY_AVX2 && HWY_ARCH_X86
constexpr int blocks_at_once = 2; // of 16 bytes: shuffles work on all of a vector's at the price of one
#else
constexpr int blocks_at_once = 1;
#endif

/// Block b of y is stored at to + b * stride.
template <class D, class V> HWY_INLINE void StoreBlocks(D d, V y, hn::TFromD<D>* to, std::int64_t stride) {
  if constexpr (blocks_at_once == 2) {
    const hn::Half<D> half;
    hn::StoreU(hn::LowerHalf(half, y), half, to);
    hn::StoreU(hn::UpperHalf(half, y), half, to + stride);
  } else {
    hn::StoreU(y, d, to);
  }
}

/// Squares side by side in four rows of floats (two of doubles), as wide as a block of 16 bytes, become columns,
/// `width` apart.
HWY_INLINE void TransposeSquares(const float* x, std::int64_t ld, float* to, std::int64_t width) {
  const hn::FixedTag<float, 4 * blocks_at_once> d;
  const hn::FixedTag<double, 2 * blocks_at_once> pairs;
  const auto r0 = hn::LoadU(d, x), r1 = hn::LoadU(d, x + ld);
  const auto r2 = hn::LoadU(d, x + 2 * ld), r3 = hn::LoadU(d, x + 3 * ld);
  const auto low01 = hn::BitCast(pairs, hn::InterleaveLower(d, r0, r1));
  const auto low23 = hn::BitCast(pairs, hn::InterleaveLower(d, r2, r3));
  const auto high01 = hn::BitCast(pairs, hn::InterleaveUpper(d, r0, r1));
  const auto high23 = hn::BitCast(pairs, hn::InterleaveUpper(d, r2, r3));
  const std::int64_t next = 4 * width;
  StoreBlocks(d, hn::BitCast(d, hn::InterleaveLower(pairs, low01, low23)), to, next);
  StoreBlocks(d, hn::BitCast(d, hn::InterleaveUpper(pairs, low01, low23)), to + width, next);
  StoreBlocks(d, hn::BitCast(d, hn::InterleaveLower(pairs, high01, high23)), to + 2 * width, next);
  StoreBlocks(d, hn::BitCast(d, hn::InterleaveUpper(pairs, high01, high23)), to + 3 * width, next);
}
HWY_INLINE void TransposeSquares(const double* x, std::int64_t ld, double* to, std::int64_t width) {
  const hn::FixedTag<double, 2 * blocks_at_once> d;
  const auto r0 = hn::LoadU(d, x), r1 = hn::LoadU(d, x + ld);
  StoreBlocks(d, hn::InterleaveLower(d, r0, r1), to, 2 * width);
  StoreBlocks(d, hn::InterleaveUpper(d, r0, r1), to + width, 2 * width);
}

/// Eight columns of two rows of floats become runs of two elements, `width` apart.
HWY_INLINE void TransposePairs(const float* x, std::int64_t ld, float* to, std::int64_t width) {
  const hn::FixedTag<float, 4> d;
  const hn::FixedTag<double, 2> pairs;
  const hn::Half<decltype(pairs)> pair;
  HWY_UNROLL(2)
  for (int column = 0; column < 8; column += 4) {
    const auto r0 = hn::LoadU(d, x + column), r1 = hn::LoadU(d, x + ld + column);
    const auto low = hn::BitCast(pairs, hn::InterleaveLower(d, r0, r1));
    const auto high = hn::BitCast(pairs, hn::InterleaveUpper(d, r0, r1));
    const auto store = [&](auto y, int at) HWY_ATTR {
      hn::StoreU(hn::BitCast(hn::FixedTag<float, 2>(), y), hn::FixedTag<float, 2>(), to + (column + at) * width);
    };
    store(hn::LowerHalf(pair, low), 0);
    store(hn::UpperHalf(pair, low), 1);
    store(hn::LowerHalf(pair, high), 2);
    store(hn::UpperHalf(pair, high), 3);
  }
}
#endif

/// c = y + beta c for a run of M elements, or y + bias + addend where those are not null.
template <int M, class T> HWY_INLINE void FinishRun(const T* y, T beta, T* c, const T* bias, const T* addend) {
  if (bias != nullptr || addend != nullptr) {
    for (int i = 0; i < M; ++i) {
      const T start = bias == nullptr ? addend[i] : addend == nullptr ? bias[i] : bias[i] + addend[i];
      c[i] = y[i] + start;
    }
    return;
  }
#if HWY_TARGET != HWY_SCALAR
  constexpr int side = 16 / sizeof(T), whole = M / side * side;
  const auto finish = [&](auto d, int i) HWY_ATTR {
    const auto x = hn::LoadU(d, y + i);
    hn::StoreU(beta == T(0) ? x : hn::MulAdd(hn::Set(d, beta), hn::LoadU(d, c + i), x), d, c + i);
  };
  if constexpr (M - whole == 0 || M - whole == side / 2) {
    HWY_UNROLL(8)
    for (int i = 0; i < whole; i += side) finish(hn::FixedTag<T, side>(), i);
    if constexpr (whole < M) finish(hn::FixedTag<T, side / 2>(), whole);
    return;
  }
#endif
  for (int i = 0; i < M; ++i) c[i] = beta == T(0) ? y[i] : std::fma(beta, c[i], y[i]);
}

/// The same with C transposed: column j of the tile is a run of M elements.
template <int M, int V, class T, class Acc>
HWY_INLINE void StoreColumns(const Acc& acc, const Target<T>& target, std::int64_t columns) {
  const hn::ScalableTag<T> d;
  const auto lanes = LanesOf<T>();
  constexpr auto most = static_cast<std::int64_t>(V * hn::MaxLanes(hn::ScalableTag<T>()));
  HWY_ALIGN T tile[M * most];
  HWY_ALIGN T turned[M * most];
  HWY_UNROLL(16)
  for (int i = 0; i < M; ++i) {
    HWY_UNROLL(4)
    for (int v = 0; v < V; ++v) hn::Store(hn::Mul(acc[i][v], hn::Set(d, target.alpha)), d, tile + (i * V + v) * lanes);
  }
  const std::int64_t width = std::min(V * lanes, most);
  int i = 0;
#if HWY_TARGET != HWY_SCALAR
  constexpr int side = 16 / sizeof(T);
  if (width % (side * blocks_at_once) == 0)
    for (; i + side <= M; i += side)
      for (std::int64_t j = 0; j < width; j += side * blocks_at_once)
        TransposeSquares(tile + i * width + j, width, turned + j * M + i, M);
  if constexpr (M % side == 2 && sizeof(T) == sizeof(float))
    if (width % 8 == 0) {
      for (std::int64_t j = 0; j < width; j += 8) TransposePairs(tile + i * width + j, width, turned + j * M + i, M);
      i += 2;
    }
#endif
  for (; i < M; ++i)
    for (std::int64_t j = 0; j < width; ++j) turned[j * M + i] = tile[i * width + j];
  const auto& plus = target.plus;
  for (std::int64_t j = 0; j < columns; ++j)
    FinishRun<M>(turned + j * M, target.beta, target.c + j * target.ld, plus.bias,
                 plus.addend == nullptr ? nullptr : plus.addend + j * plus.ld);
}

/// acc[i][v] += the products of `steps` steps of k: element (i, p) of the left operand at a[i*row + p*step].
template <int steps, int M, int V, class T, class Acc, class Row, class Step>
HWY_INLINE void AddSteps(const T* HWY_RESTRICT a, Row row, Step step, const T* HWY_RESTRICT panel, Acc& acc) {
  const hn::ScalableTag<T> d;
  const auto lanes = LanesOf<T>();
  HWY_UNROLL(4)
  for (int p = 0; p < steps; ++p) {
    hn::Vec<decltype(d)> right[V];
    HWY_UNROLL(4)
    for (int v = 0; v < V; ++v) right[v] = hn::Load(d, panel + (p * V + v) * lanes);
    HWY_UNROLL(16)
    for (int i = 0; i < M; ++i) {
      const auto value = hn::Set(d, a[i * row + p * step]);
      HWY_UNROLL(4)
      for (int v = 0; v < V; ++v) acc[i][v] = hn::MulAdd(value, right[v], acc[i][v]);
    }
  }
}

/// The same for k steps, with what they read fetched before they are used.
template <int M, int V, class T, class Acc, class Row, class Step>
HWY_INLINE void AddTerms(std::int64_t k, const T* HWY_RESTRICT a, Row row, Step step, const T* HWY_RESTRICT panel,
                         Acc& acc) {
  const auto lanes = LanesOf<T>();
  constexpr int ahead = 16;                                            // steps of k
  constexpr int unrolled = std::is_same_v<Step, std::int64_t> ? 1 : 4; // else places need too many registers
  // Steps far apart come from memory, which is further away.
  const std::int64_t left_ahead = (step > kernel_rows ? 4 * ahead : ahead) * step;
  const std::int64_t every = step > kernel_rows ? 1 : unrolled; // far apart, each is on a line of its own
  constexpr auto line = static_cast<std::int64_t>(64 / sizeof(T));
  std::int64_t p = 0;
  for (; p + unrolled <= k; p += unrolled, a += unrolled * step, panel += unrolled * V * lanes) {
    for (std::int64_t at = 0; at < unrolled * V * lanes; at += line) hwy::Prefetch(panel + ahead * V * lanes + at);
    for (std::int64_t u = 0; u < unrolled; u += every) hwy::Prefetch(a + left_ahead + u * step);
    AddSteps<unrolled, M, V>(a, row, step, panel, acc);
  }
  for (; p < k; ++p, a += step, panel += V * lanes) AddSteps<1, M, V>(a, row, step, panel, acc);
}

/// One tile: M rows of the left operand times a panel of V vectors of the right one (element (p, j) at panel[p*W + j]).
template <int M, int V, bool transposed, class T>
HWY_NOINLINE void Kernel(std::int64_t k, Left<T> left, const T* HWY_RESTRICT panel, const Target<T>& target,
                         std::int64_t columns) {
  const hn::ScalableTag<T> d;
  const auto lanes = LanesOf<T>();
  hn::Vec<decltype(d)> acc[M][V];
  HWY_UNROLL(16)
  for (int i = 0; i < M; ++i) {
    HWY_UNROLL(4)
    for (int v = 0; v < V; ++v) {
      acc[i][v] = hn::Zero(d);
      if constexpr (!transposed) hwy::Prefetch(target.c + i * target.ld + v * lanes);
    }
  }
  if (!transposed && target.plus.addend != nullptr)
    for (int i = 0; i < M; ++i)
      for (int v = 0; v < V; ++v) hwy::Prefetch(target.plus.addend + i * target.plus.ld + v * lanes);
  constexpr bool whole = M == kernel_rows && V == kernel_vectors;
  if (whole && left.row == 1 && left.step == kernel_rows) // packed
    AddTerms<M, V>(k, left.data, std::integral_constant<std::int64_t, 1>(),
                   std::integral_constant<std::int64_t, kernel_rows>(), panel, acc);
  else
    AddTerms<M, V>(k, left.data, left.row, left.step, panel, acc);
  if constexpr (transposed) {
    StoreColumns<M, V>(acc, target, columns);
  } else {
    const auto last = static_cast<std::size_t>(columns - (V - 1) * lanes);
    const bool adds = target.plus.any();
    if (adds) AddToRows<M, V>(acc, target, last);
    StoreRows<M, V>(acc, adds ? T(1) : target.alpha, target, last);
  }
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

template <class T> HWY_INLINE void CopyRun(const T* from, std::int64_t count, T* to) {
  const hn::ScalableTag<T> d;
  const auto lanes = LanesOf<T>();
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes) hn::StoreU(hn::LoadU(d, from + i), d, to + i);
#if HWY_TARGET != HWY_SCALAR
  const hn::FixedTag<T, 16 / sizeof(T)> quarter;
  constexpr auto step = static_cast<std::int64_t>(16 / sizeof(T));
  for (; i + step <= count; i += step) hn::StoreU(hn::LoadU(quarter, from + i), quarter, to + i);
#endif
  for (; i < count; ++i) to[i] = from[i];
}

/// How many rows of W elements fill whole vectors when they are contiguous; 1 where no vector holds parts of
/// two rows, or some hold parts of three.
template <std::int64_t W, class T> constexpr std::int64_t GroupRows() {
#if HWY_HAVE_SCALABLE || HWY_TARGET == HWY_SCALAR
  return 1;
#else
  if (W == 0) return 1;
  constexpr auto lanes = static_cast<std::int64_t>(hn::MaxLanes(hn::ScalableTag<T>()));
  std::int64_t rows = 1;
  while (rows * W % lanes != 0) ++rows;
  return lanes <= 2 * W ? rows : 1;
#endif
}

/// GroupRows > 1 rows of W elements, `ld` >= W apart, are packed contiguously. A vector with the end of one row and the
/// beginning of the next is blended from two loads, of which none leaves the place from the first row's beginning to
/// the last one's end.
template <std::int64_t W, class T> HWY_INLINE void PackGroup(const T* x, std::int64_t ld, T* to) {
  constexpr std::int64_t rows = GroupRows<W, T>();
  if constexpr (rows > 1) {
    const hn::ScalableTag<T> d;
    constexpr auto lanes = static_cast<std::int64_t>(hn::MaxLanes(d));
    HWY_UNROLL(16)
    for (std::int64_t at = 0; at < rows * W; at += lanes) {
      const std::int64_t row = at / W, col = at % W, of_row = W - col;
      auto y = hn::LoadU(d, x + row * ld + col);
      if (of_row < lanes) {
        const auto next = hn::LoadU(d, x + (row + 1) * ld - of_row);
        y = hn::IfThenElse(hn::FirstN(d, static_cast<std::size_t>(of_row)), y, next);
      }
      hn::StoreU(y, d, to + at);
    }
  }
}

/// Fetches `count` rows of a panel's lines, `ld` apart: short runs that the processor does not foresee.
template <class T> HWY_INLINE void FetchRows(const T* x, std::int64_t ld, std::int64_t count, std::int64_t lines) {
  constexpr auto line = static_cast<std::int64_t>(64 / sizeof(T));
  for (; count > 0; --count, x += ld)
    for (std::int64_t i = 0; i < lines; i += line) hwy::Prefetch(x + i);
}

/// From lines that run across k: element (i, p) at x[p*ld + i]. W is the width of whole panels, or 0 for any.
template <std::int64_t W, class T> void PackPanels(const T* x, std::int64_t ld, const Panels& panels, T* out) {
  constexpr std::int64_t ahead = 24;
  constexpr std::int64_t rows = GroupRows<W, T>();
  const std::int64_t width = W > 0 ? W : panels.width, k = panels.k;
  const std::int64_t whole = panels.lines / width, rest = panels.lines % width;
  const std::int64_t last = rest == 0 ? 0 : panels.of(whole * width);
  for (std::int64_t p = 0, group = 0; p < k; p += group) {
    group = ld >= width && p + rows <= k ? rows : 1;
    FetchRows(x + (p + ahead) * ld, ld, std::min(group, k - p - ahead), panels.lines);
    for (std::int64_t panel = 0; panel < whole; ++panel) {
      const T* const from = x + p * ld + panel * width;
      T* const to = out + (panel * k + p) * width;
      if (rows > 1 && group == rows)
        PackGroup<W>(from, ld, to);
      else
        CopyRun(from, width, to);
    }
    for (std::int64_t row = p; rest > 0 && row < p + group; ++row) {
      T* const to = out + whole * width * k + row * last;
      CopyRun(x + row * ld + whole * width, rest, to);
      std::fill(to + rest, to + last, T(0));
    }
  }
}
template <class T> void PackAcross(const T* x, std::int64_t ld, const Panels& panels, T* out) {
  constexpr auto most = static_cast<std::int64_t>(kernel_vectors * hn::MaxLanes(hn::ScalableTag<T>()));
  if (panels.width == kernel_rows)
    PackPanels<kernel_rows>(x, ld, panels, out);
  else if (panels.width == most)
    PackPanels<most>(x, ld, panels, out);
  else
    PackPanels<0>(x, ld, panels, out);
}

/// From lines that run along k: element (i, p) at x[i*ld + p].
template <class T> void PackAlong(const T* x, std::int64_t ld, const Panels& panels, T* out) {
  // All lines of a panel for so many steps: what is packed stays in the first cache until its last line is there, and
  // few lines are read at a time, which may displace each other.
  constexpr std::int64_t run = 128;
  const std::int64_t k = panels.k;
  for (std::int64_t from = 0; from < panels.lines; from += panels.width) {
    const std::int64_t width = panels.of(from), lines = std::min(panels.width, panels.lines - from);
    for (std::int64_t first = 0; first < k; first += run) {
      const std::int64_t steps = std::min(run, k - first);
      const T* const line = x + from * ld + first;
      T* const panel = out + from * k + first * width;
      const auto copy = [&](std::int64_t i, std::int64_t end, std::int64_t p) {
        for (; p < steps; ++p)
          for (std::int64_t s = i; s < end; ++s) panel[p * width + s] = line[s * ld + p];
      };
      std::int64_t i = 0;
#if HWY_TARGET != HWY_SCALAR
      constexpr auto side = static_cast<std::int64_t>(16 / sizeof(T));
      for (; i + side <= lines; i += side) {
        std::int64_t p = 0;
        for (constexpr std::int64_t wide = side * blocks_at_once; p + wide <= steps; p += wide)
          TransposeSquares(line + i * ld + p, ld, panel + p * width + i, width);
        copy(i, i + side, p);
      }
      if constexpr (sizeof(T) == sizeof(float))
        if (i + 2 <= lines) {
          std::int64_t p = 0;
          for (; p + 8 <= steps; p += 8) TransposePairs(line + i * ld + p, ld, panel + p * width + i, width);
          copy(i, i + 2, p);
          i += 2;
        }
#endif
      copy(i, lines, 0);
      for (std::int64_t p = 0; lines < width && p < steps; ++p)
        std::fill(panel + p * width + lines, panel + (p + 1) * width, T(0));
    }
  }
}

/// What gemm::Run asks of a kernel.
template <class T> struct VectorKernel {
  using Scalar = T;
  using Packed = T;
  struct Task {};
  static constexpr int terms = 1;
  static constexpr int rows = kernel_rows;
  static constexpr bool reads_left_in_place = true;
  static constexpr bool packs_left_across = narrow;
  static constexpr bool panel_by_panel = narrow;
  static std::int64_t lanes() { return LanesOf<T>(); }
  static std::int64_t width() { return kernel_vectors * LanesOf<T>(); }

  static void pack_along(const T* x, std::int64_t ld, const Panels& panels, T* out) { PackAlong(x, ld, panels, out); }
  static void pack_across(const T* x, std::int64_t ld, const Panels& panels, T* out) { PackAcross(x, ld, panels, out); }
  template <bool transposed>
  static void multiply(std::int64_t present, std::int64_t k, const Left<T>& left, const T* panel,
                       const Target<T>& target, std::int64_t columns) {
    CallKernel<transposed, kernel_rows>(present, k, left, panel, target, columns);
  }
};

/// With few rows of C, packing the right operand would cost more than it saves.
template <class T> bool Swaps(const Product<T>& p) {
  constexpr std::int64_t few = 512;
  return !p.a.transposed && p.b.transposed && p.m <= few && p.m < p.n;
}

template <class T> void ProductOf(const Product<T>& p, FunctionRef<void(const Tile&)> after) {
  if (Swaps(p))
    gemm::Run<VectorKernel<T>, true>({p.n,
                                      p.m,
                                      p.k,
                                      p.alpha,
                                      {p.b.data, p.b.ld, false},
                                      {p.a.data, p.a.ld, true},
                                      p.beta,
                                      p.c,
                                      p.ldc,
                                      p.parallel,
                                      p.plus},
                                     after)();
  else
    gemm::Run<VectorKernel<T>, false>(p, after)();
}

void ProductF32(const Product<float>& p, FunctionRef<void(const Tile&)> after) { ProductOf(p, after); }
void ProductF64(const Product<double>& p, FunctionRef<void(const Tile&)> after) { ProductOf(p, after); }
bool HasVectors() {
#if (HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2) || HWY_ARCH_ARM_A64 || HWY_ARCH_WASM
  return LanesOf<float>() >= 4;
#else
  return false;
#endif
}

} // namespace
} // namespace eg::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace eg {

HWY_EXPORT(ProductF32);
HWY_EXPORT(ProductF64);
HWY_EXPORT(HasVectors);

namespace gemm {

bool available() { return HWY_DYNAMIC_DISPATCH(HasVectors)(); }

template <> void product<float>(const Product<float>& p, FunctionRef<void(const blas::Tile&)> after) {
  HWY_DYNAMIC_DISPATCH(ProductF32)(p, after);
}
template <> void product<double>(const Product<double>& p, FunctionRef<void(const blas::Tile&)> after) {
  HWY_DYNAMIC_DISPATCH(ProductF64)(p, after);
}

} // namespace gemm
} // namespace eg
#endif
