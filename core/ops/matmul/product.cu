// Matrix products on a device: tiles of C in registers, tiles of the operands in shared memory. Every element is the
// chain of fused multiply-adds that the CPU computes, so its bits are the CPU's, and no tile size changes them.

#include "core/cuda/kernels.h"
#include "core/cuda/launch.h"
#include "core/cuda/products.h"

#include "core/bf16.h"
#include "core/ops/pointwise/kernels.h"

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <string>

namespace eg::cuda {
namespace {

/// How C is cut: a block computes `rows` x `columns` of it, a thread own_rows x own_columns.
template <int rows_, int columns_, int own_rows_, int own_columns_> struct Cut {
  static constexpr int rows = rows_, columns = columns_, own_rows = own_rows_, own_columns = own_columns_;
  static constexpr int across = columns / own_columns; ///< threads along a row of C
  static constexpr int threads = rows / own_rows * across;
  static constexpr int steps = 16; ///< terms of a tile of the operands
  static constexpr int pad = 4;    ///< keeps 16-byte words aligned, and lines that run across k apart in the banks
};
template <class T> struct LargeCutOf { using type = Cut<64, 64, 8, 4>; };
template <> struct LargeCutOf<double> { using type = Cut<64, 64, 4, 4>; };
using SmallCut = Cut<16, 16, 2, 2>;
/// Blocks that a multiprocessor must have room for. Left to choose (0), nvcc makes room for more and keeps a few
/// numbers of f32 kernels in memory instead of registers.
template <class C, class T, class B> constexpr int blocks_at_once() {
  if (sizeof(T) == 8 || sizeof(B) == 1) return 0;
  return C::threads == SmallCut::threads ? 10 : 3;
}

template <class T, class A, class B> struct Operands {
  std::int64_t m, n, k, piece;
  const A* a;
  std::int64_t a_row, a_step;
  const B* b;
  std::int64_t b_step, b_column;
  T* c;
  std::int64_t ldc;
  const T *scales, *bias, *addend;
  std::int64_t ld_addend;
  T alpha;
  bool accumulate;
};

/// The number that an element stands for.
template <class T, class X> __device__ T number(X x, const T*, std::int64_t) { return static_cast<T>(x); }
template <class T> __device__ T number(BFloat16 x, const T*, std::int64_t) {
  return static_cast<T>(static_cast<float>(x));
}
template <class T> __device__ T number(std::uint8_t x, const T* scales, std::int64_t column) {
  return scales[column] * static_cast<T>(static_cast<std::int8_t>(x));
}

/// What a thread carries from memory to a tile of `lines` lines by C::steps terms: the next ones while these are used.
/// Neighbouring threads read neighbouring elements, along the terms or across them.
template <class C, int lines, class T> class Carried {
  static constexpr int count = lines * C::steps / C::threads;
  static_assert(C::threads % C::steps == 0 && C::threads % lines == 0);

public:
  __device__ explicit Carried(bool along)
      : line_(thread() / (along ? C::steps : 1) % lines), step_(along ? thread() % C::steps : thread() / lines),
        lines_apart_(along ? C::threads / C::steps : 0), steps_apart_(along ? 0 : C::threads / lines) {}

  /// Lines from `first` on, terms from `from` on; zeros beyond the last ones.
  template <class X>
  __device__ void load(const X* x, std::int64_t line_stride, std::int64_t step_stride, std::int64_t first,
                       std::int64_t all_lines, std::int64_t from, std::int64_t to, const T* scales) {
    x += (first + line_) * line_stride + (from + step_) * step_stride;
    const std::int64_t apart = lines_apart_ * line_stride + steps_apart_ * step_stride;
    const int lines_left = at_most(all_lines - first, lines) - line_, steps_left = at_most(to - from, C::steps) - step_;
    GPU_UNROLL
    for (int e = 0; e < count; ++e) {
      const bool inside = e * lines_apart_ < lines_left && e * steps_apart_ < steps_left;
      values_[e] = inside ? number<T>(x[e * apart], scales, first + line_ + e * lines_apart_) : T(0);
    }
  }
  __device__ void store(T (*tile)[lines + C::pad]) const {
    GPU_UNROLL
    for (int e = 0; e < count; ++e) tile[step_ + e * steps_apart_][line_ + e * lines_apart_] = values_[e];
  }

private:
  __device__ static int at_most(std::int64_t count, int most) { return count < most ? static_cast<int>(count) : most; }
  __device__ static int thread() { return static_cast<int>(threadIdx.x); }

  int line_, step_, lines_apart_, steps_apart_;
  T values_[count];
};

__device__ float fused(float a, float b, float c) { return fmaf(a, b, c); }
__device__ double fused(double a, double b, double c) { return fma(a, b, c); }

/// One term of every element that the thread has.
template <class C, class T>
__device__ void add_term(T (&sums)[C::own_rows][C::own_columns], const T* left, const T* right) {
  T a[C::own_rows], b[C::own_columns];
  GPU_UNROLL
  for (int i = 0; i < C::own_rows; ++i) a[i] = left[i];
  GPU_UNROLL
  for (int j = 0; j < C::own_columns; ++j) b[j] = right[j];
  GPU_UNROLL
  for (int i = 0; i < C::own_rows; ++i) GPU_UNROLL
  for (int j = 0; j < C::own_columns; ++j) sums[i][j] = fused(a[i], b[j], sums[i][j]);
}

/// bias + addend, or the one there is.
template <class T, class A, class B>
__device__ T beginning(const Operands<T, A, B>& p, std::int64_t i, std::int64_t j) {
  if (p.bias == nullptr) return p.addend[i * p.ld_addend + j];
  return p.addend == nullptr ? p.bias[j] : p.bias[j] + p.addend[i * p.ld_addend + j];
}

/// Adds the sums of a piece to the elements of C that the thread has; `first`: of the first piece.
template <class C, class T, class A, class B>
__device__ void add_piece(const Operands<T, A, B>& p, T* c, std::int64_t row, std::int64_t column, bool first,
                          const T (&sums)[C::own_rows][C::own_columns]) {
  const bool begins = first && !p.accumulate, plus = p.bias != nullptr || p.addend != nullptr;
  GPU_UNROLL
  for (int i = 0; i < C::own_rows; ++i) GPU_UNROLL
  for (int j = 0; j < C::own_columns; ++j) {
    const std::int64_t r = row + i, s = column + j;
    if (r >= p.m || s >= p.n) continue;
    T* const to = c + r * p.ldc + s;
    const T sum = sums[i][j] * p.alpha;
    if (p.k == 0 && begins && plus) // -0 stays
      *to = beginning(p, r, s);
    else
      *to = !begins ? *to + sum : plus ? sum + beginning(p, r, s) : sum;
  }
}

template <class C, class T, class A, class B>
__global__ void __launch_bounds__(C::threads, blocks_at_once<C, T, B>())
    product_kernel(Operands<T, A, B> p, Axes<3> batch) {
  using Left = T[2][C::steps][C::rows + C::pad];
  using Right = T[2][C::steps][C::columns + C::pad];
  GPU_SHARED(left, Left);
  GPU_SHARED(right, Right);
  const std::int64_t wide = (p.n + C::columns - 1) / C::columns, high = (p.m + C::rows - 1) / C::rows;
  const std::int64_t tile = blockIdx.x;
  const std::int64_t first_column = tile % wide * C::columns, first_row = tile / wide % high * C::rows;
  const Offsets<3> offsets = offsets_at(batch, tile / wide / high);
  T* const c = p.c + offsets.at[0];
  const A* const a = p.a + offsets.at[1];
  const B* const b = p.b + offsets.at[2];
  const int row = static_cast<int>(threadIdx.x) / C::across * C::own_rows;
  const int column = static_cast<int>(threadIdx.x) % C::across * C::own_columns;

  T sums[C::own_rows][C::own_columns] = {};
  if (p.k == 0) add_piece<C>(p, c, first_row + row, first_column + column, true, sums);
  Carried<C, C::rows, T> next_left(p.a_step == 1);
  Carried<C, C::columns, T> next_right(p.b_step == 1);
  int at = 0; // which of the two tiles
  for (std::int64_t begin = 0; begin < p.k; begin += p.piece) {
    const std::int64_t end = begin + p.piece < p.k ? begin + p.piece : p.k;
    const auto load = [&](std::int64_t from) {
      next_left.load(a, p.a_row, p.a_step, first_row, p.m, from, end, static_cast<const T*>(nullptr));
      next_right.load(b, p.b_column, p.b_step, first_column, p.n, from, end, p.scales);
    };
    load(begin);
    for (std::int64_t from = begin; from < end; from += C::steps) {
      next_left.store(left[at]);
      next_right.store(right[at]);
      __syncthreads(); // the other tiles are free: all threads have used them
      if (from + C::steps < end) load(from + C::steps);
      if (from + C::steps <= end) {
        GPU_UNROLL
        for (int step = 0; step < C::steps; ++step) add_term<C>(sums, &left[at][step][row], &right[at][step][column]);
      } else {
        for (int step = 0; step < static_cast<int>(end - from); ++step)
          add_term<C>(sums, &left[at][step][row], &right[at][step][column]);
      }
      at ^= 1;
    }
    add_piece<C>(p, c, first_row + row, first_column + column, begin == 0, sums);
    GPU_UNROLL
    for (int i = 0; i < C::own_rows; ++i) GPU_UNROLL
    for (int j = 0; j < C::own_columns; ++j) sums[i][j] = 0;
  }
}

template <class C, class T, class A, class B> Failure start(Queue queue, const device::ProductJob& job) {
  const Operands<T, A, B> p{job.m,
                            job.n,
                            job.k,
                            job.piece,
                            static_cast<const A*>(job.a),
                            job.a_row,
                            job.a_step,
                            static_cast<const B*>(job.b),
                            job.b_step,
                            job.b_column,
                            static_cast<T*>(job.c),
                            job.ldc,
                            static_cast<const T*>(job.scales),
                            static_cast<const T*>(job.bias),
                            static_cast<const T*>(job.addend),
                            job.ld_addend,
                            static_cast<T>(job.alpha),
                            job.accumulate};
  const std::int64_t blocks =
      (job.m + C::rows - 1) / C::rows * ((job.n + C::columns - 1) / C::columns) * job.batch.count();
  if (blocks > 0x7fffffff) return "the product is cut into more blocks than a launch has";
  GPU_LAUNCH((product_kernel<C, T, A, B>), dim3(static_cast<unsigned>(blocks)), dim3(C::threads), 0, queue.stream, p,
             job.batch);
  return nullptr;
}

/// Large tiles read the operands less often; small ones are more, and waste less at the borders.
template <class T, class A, class B> Failure start(Queue queue, const device::ProductJob& job) {
  constexpr std::int64_t worth_large_tiles = 64 * 64 * 64;
  const bool large = job.m > 32 && job.n > 32 && job.m * job.n * job.batch.count() >= worth_large_tiles;
  return large ? start<typename LargeCutOf<T>::type, T, A, B>(queue, job) : start<SmallCut, T, A, B>(queue, job);
}

template <class T> Failure start(Queue queue, const device::ProductJob& job) {
  if (job.a_type == job.type && job.b_type == job.type) return start<T, T, T>(queue, job);
  if (job.a_type == job.type && job.b_type == DType::bf16) return start<T, T, BFloat16>(queue, job);
  if (job.a_type == job.type && job.b_type == DType::u8) return start<T, T, std::uint8_t>(queue, job);
  if (job.a_type == DType::bf16 && job.b_type == DType::bf16) return start<T, BFloat16, BFloat16>(queue, job);
  return "there is no product of operands of these types";
}

/// The engine of products, or why there is none. The environment is asked once.
struct Engine {
  bool library = false;
  Failure failure = nullptr;
  std::string words; ///< which one, and why no other

  Engine() {
    const char* const value = std::getenv("EQUIGRAD_CUDA_GEMM");
    const std::string wished = value == nullptr ? "" : value;
    if (!wished.empty() && wished != "own" && wished != "cublaslt") {
      failure = "EQUIGRAD_CUDA_GEMM must be own or cublaslt";
      words = failure;
    } else if (wished == "own") {
      words = "the module's own kernel, as EQUIGRAD_CUDA_GEMM asks";
    } else {
      const char* found = nullptr;
      library = has_product_library(&found);
      if (!library && wished == "cublaslt") failure = found;
      words = library              ? found
              : failure != nullptr ? std::string("none: ") + found
                                   : std::string("the module's own kernel; cuBLASLt: ") + found;
    }
  }
};

const Engine& engine() {
  static const Engine instance;
  return instance;
}

} // namespace

const char* product_engine() { return engine().words.c_str(); }

Failure own_product(Queue queue, const device::ProductJob& job) {
  return visit_floating_type(job.type, [&]<class T>() { return start<T>(queue, job); });
}

Failure product(Queue queue, const device::ProductJob& job) {
  if (engine().failure != nullptr) return engine().failure;
  const bool widens = job.a_type != job.b_type; // weights of fewer bits are widened in registers
  bool activated = false;
  const Failure failure =
      engine().library && !widens && job.k > 0 ? library_product(queue, job, &activated) : own_product(queue, job);
  if (failure != nullptr || job.activated == nullptr || activated) return failure;
  const auto gelu = job.gelu == device::GeluOf::tanh ? pointwise::Unary::gelu_tanh : pointwise::Unary::gelu;
  return unary(queue, {static_cast<int>(gelu), job.type, job.c, job.activated, job.m * job.n, {}});
}

} // namespace eg::cuda
