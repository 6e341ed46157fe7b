#include "core/memory/scratch_pool.h"
#include "core/ops/softmax/kernels.h"
#include "core/simd/transpose.h"
#include "core/threads/parallel.h"

#include <algorithm>

namespace eg::softmax_kernels {
namespace {

/// Columns gathered at a time: one cache line of f32.
constexpr std::int64_t columns_at_once = 16;

} // namespace

template <class T> void along_axis(RowsKernel<T> kernel, const AxisSplit& split, const T* a, const T* b, T* out) {
  const std::int64_t n = split.extent;
  if (split.outer * n * split.inner == 0) return;
  const std::int64_t row_bytes = n * static_cast<std::int64_t>(sizeof(T));
  if (split.inner == 1) {
    parallel::for_each(split.outer, parallel::grain_for_bytes(row_bytes), [&](std::int64_t begin, std::int64_t end) {
      kernel(a + begin * n, b ? b + begin * n : nullptr, out + begin * n, end - begin, n);
    });
    return;
  }
  const std::int64_t blocks = (split.inner + columns_at_once - 1) / columns_at_once;
  const std::int64_t grain = parallel::grain_for_bytes(row_bytes * columns_at_once);
  const std::int64_t panel = columns_at_once * n;
  ScratchPool pool(parallel::chunks(split.outer * blocks, grain), static_cast<std::size_t>(panel * 2) * sizeof(T));
  parallel::for_each(split.outer * blocks, grain, [&](std::int64_t begin, std::int64_t end) {
    const ScratchPool::Buffer buffer = pool.take();
    T* const first = reinterpret_cast<T*>(buffer.data());
    T* const second = first + panel;
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t column = i % blocks * columns_at_once;
      const std::int64_t columns = std::min(columns_at_once, split.inner - column);
      const std::int64_t offset = i / blocks * n * split.inner + column;
      simd::transpose(a + offset, split.inner, first, n, n, columns);
      if (b) simd::transpose(b + offset, split.inner, second, n, n, columns);
      kernel(first, second, first, columns, n);
      simd::transpose<T>(first, n, out + offset, split.inner, columns, n);
    }
  });
}

template void along_axis<float>(RowsKernel<float>, const AxisSplit&, const float*, const float*, float*);
template void along_axis<double>(RowsKernel<double>, const AxisSplit&, const double*, const double*, double*);

} // namespace eg::softmax_kernels
