#include "core/gemm/blas.h"

#include "core/base/error.h"
#include "core/gemm/gemm.h"
#include "core/gemm/gemm_bf16.h"
#include "core/gemm/openblas.h"
#include "core/gemm/skinny_gemm.h"
#include "core/threads/parallel.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fmt/format.h>
#include <type_traits>

namespace eg::blas {
namespace {

/// Pieces along both sides of C.
struct Grid {
  std::int64_t rows, cols;
};

/// A power of two near flops / 4 Gflop, at least 2 beyond 4 Mflop, at most 64. Fewer tiles pack less (4160x512x512 on
/// two threads: 2 to 4 tiles run at the speed of two lone threads, 8 at 97 %, 16 at 92 %), more tiles feed more
/// threads.
std::int64_t tile_count(std::int64_t m, std::int64_t n, std::int64_t k) {
  constexpr double tile_flops = 4e9;
  const double flops = 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
  if (flops < 4e6) return 1;
  return std::int64_t{1} << std::clamp(std::lround(std::log2(flops / tile_flops)), 1L, 6L);
}

/// Cuts C so that the operands that each tile packs again are fewest: pieces of rows pack B again, pieces of columns A.
Grid grid_for(std::int64_t m, std::int64_t n, std::int64_t k) {
  constexpr std::int64_t least_side = 48;
  const std::int64_t tiles = tile_count(m, n, k);
  Grid best{1, 1};
  std::int64_t least = INT64_MAX;
  for (std::int64_t rows = 1; rows <= tiles; rows *= 2) {
    const Grid grid{rows, tiles / rows};
    if ((grid.rows > 1 && m / grid.rows < least_side) || (grid.cols > 1 && n / grid.cols < least_side)) continue;
    const std::int64_t packed = grid.rows * n + grid.cols * m;
    if (packed < least) {
      best = grid;
      least = packed;
    }
  }
  return best;
}

/// Border i of `pieces` nearly equal pieces of `extent`, at multiples of 16 so that kernels see whole registers.
std::int64_t border(std::int64_t extent, std::int64_t pieces, std::int64_t i) {
  if (i == pieces) return extent;
  return std::min(extent, (extent * i / pieces + 15) / 16 * 16);
}

/// True where our own kernel does the products: unless EQUIGRAD_GEMM says openblas, on processors that it is written
/// for.
bool own_kernel() {
  static const bool own = [] {
    const char* wished = std::getenv("EQUIGRAD_GEMM");
    const std::string_view name = wished == nullptr ? "" : wished;
    if (!name.empty() && name != "own" && name != "openblas")
      throw ValueError(fmt::format("EQUIGRAD_GEMM is '{}'; it can be own or openblas", name));
    return name != "openblas" && gemm::available();
  }();
  return own;
}

/// Where bf16 is asked for, the processor has it, and the operands can be rounded to it: the product, else false.
template <class T>
bool bf16_product([[maybe_unused]] MatmulPrecision products, [[maybe_unused]] const gemm::Product<T>& p,
                  [[maybe_unused]] FunctionRef<void(const Tile&)> after) {
  if constexpr (std::is_same_v<T, float>) {
    if (products != MatmulPrecision::bf16 || p.k == 0 || !gemm::bf16_available()) return false;
    gemm::product_bf16(p, after);
    return true;
  }
  return false;
}

/// OpenBLAS on the calling thread, or with its own threads where it was set to use several.
template <class T>
void gemm_within(int threads, std::int64_t m, std::int64_t n, std::int64_t k, T alpha, Matrix<T> a, Matrix<T> b, T beta,
                 T* c, std::int64_t ldc) {
  if (m == 0 || n == 0) return;
  if (k == 0) {
    for (std::int64_t i = 0; i < m; ++i)
      for (std::int64_t j = 0; j < n; ++j) c[i * ldc + j] = beta == T(0) ? T(0) : beta * c[i * ldc + j];
    return;
  }
  openblas::gemm(threads, m, n, k, alpha, a, b, beta, c, ldc);
}

/// Rows of A so few that reading B is what takes time, as long as B is not in cache anyway: OpenBLAS would pack it
/// first.
template <class T> bool is_few_rows(std::int64_t m, std::int64_t n, std::int64_t k, const Matrix<T>& a) {
  return m <= skinny_gemm::most && !a.transposed && n * k >= skinny_gemm::least_weights;
}

/// A matrix times a vector whose elements are neighbours: the product of one row with the matrix's rows.
template <class T> bool is_vector_on_the_right(const gemm::Product<T>& p) {
  constexpr std::int64_t least_numbers = 256; // packing costs more from there on
  return p.n == 1 && p.ldc == 1 && !p.a.transposed && (p.b.transposed || p.b.ld == 1) && !p.plus.any() &&
         p.m * p.k >= least_numbers;
}

/// What is added to the product is in C already.
template <class T> skinny_gemm::Operands<T> skinny_of(const gemm::Product<T>& p) {
  return {p.k, p.alpha, p.a.data, p.a.ld, p.b.data, p.b.ld, p.plus.any() ? T(1) : p.beta, p.c, p.ldc};
}

template <class T> void skinny_tiled(const gemm::Product<T>& whole, FunctionRef<void(const Tile&)> after) {
  const skinny_gemm::Operands<T> p = skinny_of(whole);
  constexpr std::int64_t bytes = std::int64_t{1} << 18;
  // Of a B that lies row by row: runs shorter than a page are slow to read.
  const std::int64_t fewest_columns = std::clamp<std::int64_t>(whole.n / 4, 256, 1024);
  const std::int64_t grain = std::max(parallel::grain_for_bytes(p.k * static_cast<std::int64_t>(sizeof(T)), bytes),
                                      whole.b.transposed ? 1 : fewest_columns);
  parallel::for_each(whole.n, grain, [&](std::int64_t begin, std::int64_t end) {
    const Tile tile{0, whole.m, begin, end - begin};
    skinny_gemm::Operands<T> part = p;
    part.b += whole.b.transposed ? begin * p.ldb : begin;
    part.c += begin;
    whole.plus.from(0, begin).fill(tile.rows, tile.cols, part.c, part.ldc);
    if (whole.b.transposed)
      skinny_gemm::product(tile.rows, tile.cols, part);
    else
      skinny_gemm::product_of_rows(tile.rows, tile.cols, part);
    after(tile);
  });
}

/// The vector as the one row on the left, the matrix's rows as those of B.
template <class T> skinny_gemm::Operands<T> transposed_vector(const gemm::Product<T>& p) {
  return {p.k, p.alpha, p.b.data, p.k, p.a.data, p.a.ld, p.beta, p.c, p.m};
}

template <class T> void vector_tiled(const gemm::Product<T>& whole, FunctionRef<void(const Tile&)> after) {
  const skinny_gemm::Operands<T> p = transposed_vector(whole);
  const std::int64_t grain =
      parallel::grain_for_bytes(p.k * static_cast<std::int64_t>(sizeof(T)), std::int64_t{1} << 18);
  parallel::for_each(whole.m, grain, [&](std::int64_t begin, std::int64_t end) {
    skinny_gemm::Operands<T> part = p;
    part.b += begin * p.ldb;
    part.c += begin;
    skinny_gemm::product(1, end - begin, part);
    after(Tile{begin, end - begin, 0, 1});
  });
}

/// OpenBLAS, one call a tile.
template <class T> void openblas_tiled(const gemm::Product<T>& p, FunctionRef<void(const Tile&)> after) {
  const Grid grid = grid_for(p.m, p.n, p.k);
  const T beta = p.plus.any() ? T(1) : p.beta;
  parallel::for_each(grid.rows * grid.cols, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t row = border(p.m, grid.rows, i / grid.cols), col = border(p.n, grid.cols, i % grid.cols);
      const Tile tile{row, border(p.m, grid.rows, i / grid.cols + 1) - row, col,
                      border(p.n, grid.cols, i % grid.cols + 1) - col};
      if (tile.rows <= 0 || tile.cols <= 0) continue;
      Matrix<T> left = p.a, right = p.b;
      left.data += p.a.transposed ? tile.row : tile.row * p.a.ld;
      right.data += p.b.transposed ? tile.col * p.b.ld : tile.col;
      T* const corner = p.c + tile.row * p.ldc + tile.col;
      p.plus.from(tile.row, tile.col).fill(tile.rows, tile.cols, corner, p.ldc);
      gemm_within(1, tile.rows, tile.cols, p.k, p.alpha, left, right, beta, corner, p.ldc);
      after(tile);
    }
  });
}

template <class T> void product_tiled(const gemm::Product<T>& p, FunctionRef<void(const Tile&)> after) {
  if (p.m == 0 || p.n == 0) return;
  const bool few_rows = is_few_rows(p.m, p.n, p.k, p.a);
  if (few_rows && p.b.transposed) return skinny_tiled(p, after);
  if (bf16_product<T>(matmul_precision(), p, after)) return;
  if (few_rows) return skinny_tiled(p, after);
  if (is_vector_on_the_right(p)) return vector_tiled(p, after);
  if (own_kernel() && p.k > 0) return gemm::product<T>(p, after);
  openblas_tiled(p, after);
}

} // namespace

template <class T>
void gemm(std::int64_t m, std::int64_t n, std::int64_t k, T alpha, Matrix<T> a, Matrix<T> b, T beta, T* c,
          std::int64_t ldc, MatmulPrecision products) {
  if (m == 0 || n == 0) return;
  const auto nothing = [](const Tile&) {};
  const gemm::Product<T> whole{m, n, k, alpha, a, b, beta, c, ldc};
  if (bf16_product<T>(products, whole, nothing)) return;
  if (is_vector_on_the_right(whole)) return skinny_gemm::product(1, m, transposed_vector(whole));
  if (is_few_rows(m, n, k, a))
    return b.transposed ? skinny_gemm::product(m, n, skinny_of(whole))
                        : skinny_gemm::product_of_rows(m, n, skinny_of(whole));
  if (!own_kernel() || k == 0) return gemm_within(1, m, n, k, alpha, a, b, beta, c, ldc);
  gemm::product<T>(whole, nothing);
}

template <class T> void Addends<T>::fill(std::int64_t rows, std::int64_t cols, T* c, std::int64_t ldc) const {
  if (!any()) return;
  for (std::int64_t i = 0; i < rows; ++i) {
    T* const y = c + i * ldc;
    const T* const more = addend == nullptr ? nullptr : addend + i * ld;
    if (bias != nullptr && more != nullptr)
      for (std::int64_t j = 0; j < cols; ++j) y[j] = bias[j] + more[j];
    else
      std::copy_n(bias != nullptr ? bias : more, cols, y);
  }
}

template <class T>
void gemm_tiled(std::int64_t m, std::int64_t n, std::int64_t k, T alpha, Matrix<T> a, Matrix<T> b,
                const Addends<T>& plus, T* c, std::int64_t ldc, FunctionRef<void(const Tile&)> after) {
  product_tiled<T>({m, n, k, alpha, a, b, T(0), c, ldc, true, plus}, after);
}

template <class T>
void gemm_tiled(std::int64_t m, std::int64_t n, std::int64_t k, T alpha, Matrix<T> a, Matrix<T> b, T beta, T* c,
                std::int64_t ldc) {
  product_tiled<T>({m, n, k, alpha, a, b, beta, c, ldc, true}, [](const Tile&) {});
}

template <class T>
void gemm_openblas_threads(int threads, std::int64_t m, std::int64_t n, std::int64_t k, T alpha, Matrix<T> a,
                           Matrix<T> b, T beta, T* c, std::int64_t ldc) {
  openblas::with_own_threads(threads, [&] { gemm_within<T>(threads, m, n, k, alpha, a, b, beta, c, ldc); });
}

#define EG_INSTANTIATE(T)                                                                                              \
  template struct Addends<T>;                                                                                          \
  template void gemm<T>(std::int64_t, std::int64_t, std::int64_t, T, Matrix<T>, Matrix<T>, T, T*, std::int64_t,        \
                        MatmulPrecision);                                                                              \
  template void gemm_openblas_threads<T>(int, std::int64_t, std::int64_t, std::int64_t, T, Matrix<T>, Matrix<T>, T,    \
                                         T*, std::int64_t);                                                            \
  template void gemm_tiled<T>(std::int64_t, std::int64_t, std::int64_t, T, Matrix<T>, Matrix<T>, const Addends<T>&,    \
                              T*, std::int64_t, FunctionRef<void(const Tile&)>);                                       \
  template void gemm_tiled<T>(std::int64_t, std::int64_t, std::int64_t, T, Matrix<T>, Matrix<T>, T, T*, std::int64_t);
EG_INSTANTIATE(float)
EG_INSTANTIATE(double)
#undef EG_INSTANTIATE

std::string description() { return openblas::description(); }

std::string engine() { return own_kernel() ? "own kernel" : "OpenBLAS"; }

} // namespace eg::blas
