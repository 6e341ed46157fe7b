#include "core/ops/views/strided_copy.h"
#include "core/device/transfer.h"
#include "core/simd/every_other.h"
#include "core/simd/transpose.h"
#include "core/threads/parallel.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <type_traits>

namespace eg {
namespace {

struct Axis {
  std::int64_t extent = 1;
  std::int64_t dst = 0;
  std::int64_t src = 0;
};

/// A few axes, outermost first.
struct Axes {
  std::array<Axis, max_rank> items{};
  int count = 0;

  void push(const Axis& axis) { items[static_cast<std::size_t>(count++)] = axis; }
  Axis& operator[](int i) { return items[static_cast<std::size_t>(i)]; }
  const Axis& operator[](int i) const { return items[static_cast<std::size_t>(i)]; }
  Axis take(int i) {
    const Axis axis = (*this)[i];
    for (int j = i + 1; j < count; ++j) (*this)[j - 1] = (*this)[j];
    --count;
    return axis;
  }
  std::int64_t size() const {
    std::int64_t n = 1;
    for (int i = 0; i < count; ++i) n *= (*this)[i].extent;
    return n;
  }
};

/// Axes in order of falling destination stride, without those of extent 1, neighbours joined where both sides allow.
Axes simplified(const Shape& shape, const Shape& dst, const Shape& src) {
  Axes sorted;
  for (int i = 0; i < shape.rank(); ++i)
    if (shape[i] != 1) sorted.push({shape[i], dst[i], src[i]});
  std::stable_sort(sorted.items.begin(), sorted.items.begin() + sorted.count,
                   [](const Axis& a, const Axis& b) { return a.dst > b.dst; });
  Axes joined;
  for (int i = 0; i < sorted.count; ++i) {
    const Axis& next = sorted[i];
    if (joined.count > 0) {
      Axis& last = joined[joined.count - 1];
      if (last.dst == next.dst * next.extent && last.src == next.src * next.extent) {
        last = {last.extent * next.extent, next.dst, next.src};
        continue;
      }
    }
    joined.push(next);
  }
  return joined;
}

/// Walks the offsets of the outer axes in order, from any starting point.
class Walker {
public:
  Walker(const Axes& axes, std::int64_t flat) : axes_(axes) {
    for (int i = axes.count - 1; i >= 0; --i) {
      const std::int64_t at = flat % axes[i].extent;
      flat /= axes[i].extent;
      index_[static_cast<std::size_t>(i)] = at;
      dst += at * axes[i].dst;
      src += at * axes[i].src;
    }
  }
  void next() {
    for (int i = axes_.count - 1; i >= 0; --i) {
      const Axis& axis = axes_[i];
      std::int64_t& at = index_[static_cast<std::size_t>(i)];
      dst += axis.dst;
      src += axis.src;
      if (++at < axis.extent) return;
      dst -= axis.extent * axis.dst;
      src -= axis.extent * axis.src;
      at = 0;
    }
  }
  std::int64_t dst = 0;
  std::int64_t src = 0;

private:
  const Axes& axes_;
  std::array<std::int64_t, max_rank> index_{};
};

/// n times *value: a short piece, and copies of it, which the C library writes as fast as memory takes them.
template <class T> void fill_run(T* dst, const T* value, std::int64_t n) {
  constexpr std::int64_t piece = 512 / sizeof(T);
  std::fill(dst, dst + std::min(n, piece), *value);
  for (std::int64_t i = piece; i < n; i += piece)
    std::memcpy(dst + i, dst, static_cast<std::size_t>(std::min(piece, n - i)) * sizeof(T));
}

template <class T> void copy_run(T* dst, std::int64_t dst_step, const T* src, std::int64_t src_step, std::int64_t n) {
  if constexpr (std::is_floating_point_v<T>)
    if (dst_step == 1 && src_step == 2) return simd::every_other(src, n, dst);
  if (dst_step == 1 && src_step == 1) {
    std::memcpy(dst, src, static_cast<std::size_t>(n) * sizeof(T));
  } else if (dst_step == 1 && src_step == 0) {
    fill_run(dst, src, n);
  } else if (dst_step == 1 && src_step == -1) {
    for (std::int64_t i = 0; i < n; ++i) dst[i] = src[-i];
  } else {
    for (std::int64_t i = 0; i < n; ++i) dst[i * dst_step] = src[i * src_step];
  }
}

constexpr std::int64_t run_block = 16384; // elements of one run that a task copies at most

template <class T> void copy_runs(const Axes& outer, const Axis& run, T* dst, const T* src) {
  const std::int64_t blocks = parallel::chunks(run.extent, run_block);
  const std::int64_t bytes = std::min(run.extent, run_block) * static_cast<std::int64_t>(sizeof(T));
  parallel::for_each(outer.size() * blocks, parallel::grain_for_bytes(bytes),
                     [&](std::int64_t begin, std::int64_t end) {
                       Walker at(outer, begin / blocks);
                       std::int64_t block = begin % blocks;
                       for (std::int64_t i = begin; i < end; ++i) {
                         const std::int64_t first = block * run_block;
                         copy_run(dst + at.dst + first * run.dst, run.dst, src + at.src + first * run.src, run.src,
                                  std::min(run_block, run.extent - first));
                         if (++block == blocks) {
                           block = 0;
                           at.next();
                         }
                       }
                     });
}

constexpr std::int64_t tile = 16; // a tile of the source and of the destination fit in the first-level cache together

/// dst[r*row.dst + c] = src[r + c*col.src] for a tile: reads along the source's rows, writes along the destination's.
template <class T>
void transpose_tile(T* dst, std::int64_t dst_ld, const T* src, std::int64_t src_ld, std::int64_t rows,
                    std::int64_t cols) {
  if constexpr (std::is_floating_point_v<T>) return simd::transpose(src, src_ld, dst, dst_ld, cols, rows);
  if (rows == tile && cols == tile) {
    T held[tile][tile];
    for (std::int64_t c = 0; c < tile; ++c) std::memcpy(held[c], src + c * src_ld, sizeof(held[c]));
    for (std::int64_t r = 0; r < tile; ++r)
      for (std::int64_t c = 0; c < tile; ++c) dst[r * dst_ld + c] = held[c][r];
    return;
  }
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t c = 0; c < cols; ++c) dst[r * dst_ld + c] = src[r + c * src_ld];
}

/// rows: the axis that is dense in the source; cols: the axis that is dense in the destination.
template <class T> void copy_transposed(const Axes& outer, const Axis& rows, const Axis& cols, T* dst, const T* src) {
  const std::int64_t bands = parallel::chunks(rows.extent, tile);
  const std::int64_t bytes = std::min(rows.extent, tile) * cols.extent * static_cast<std::int64_t>(sizeof(T));
  parallel::for_each(outer.size() * bands, parallel::grain_for_bytes(bytes), [&](std::int64_t begin, std::int64_t end) {
    Walker at(outer, begin / bands);
    std::int64_t band = begin % bands;
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t first = band * tile;
      const std::int64_t height = std::min(tile, rows.extent - first);
      for (std::int64_t c = 0; c < cols.extent; c += tile)
        transpose_tile(dst + at.dst + first * rows.dst + c, rows.dst, src + at.src + first + c * cols.src, cols.src,
                       height, std::min(tile, cols.extent - c));
      if (++band == bands) {
        band = 0;
        at.next();
      }
    }
  });
}

template <class T>
void copy_typed(const Shape& shape, std::byte* dst_bytes, const Shape& dst_strides, const std::byte* src_bytes,
                const Shape& src_strides) {
  T* dst = reinterpret_cast<T*>(dst_bytes);
  const T* src = reinterpret_cast<const T*>(src_bytes);
  Axes axes = simplified(shape, dst_strides, src_strides);
  if (axes.count == 0) {
    *dst = *src;
    return;
  }
  const Axis inner = axes.take(axes.count - 1);
  if (inner.dst == 1 && inner.src != 1 && inner.src != 0 && inner.extent >= 4)
    for (int i = 0; i < axes.count; ++i)
      if (axes[i].src == 1 && axes[i].extent >= 4) {
        const Axis rows = axes.take(i);
        return copy_transposed(axes, rows, inner, dst, src);
      }
  copy_runs(axes, inner, dst, src);
}

} // namespace

void strided_copy(DType dtype, const Shape& shape, std::byte* dst, const Shape& dst_strides, const std::byte* src,
                  const Shape& src_strides) {
  if (shape.numel() == 0) return;
  switch (dtype) {
  case DType::f32:
    return copy_typed<float>(shape, dst, dst_strides, src, src_strides);
  case DType::f64:
    return copy_typed<double>(shape, dst, dst_strides, src, src_strides);
  case DType::i64:
    return copy_typed<std::int64_t>(shape, dst, dst_strides, src, src_strides);
  case DType::bf16:
    return copy_typed<std::uint16_t>(shape, dst, dst_strides, src, src_strides);
  case DType::u8:
  case DType::boolean:
    return copy_typed<unsigned char>(shape, dst, dst_strides, src, src_strides);
  }
}

void strided_fill(DType dtype, const Shape& shape, std::byte* dst, const Shape& dst_strides, const std::byte* value) {
  Shape repeated = shape;
  for (int axis = 0; axis < shape.rank(); ++axis) repeated[axis] = 0;
  strided_copy(dtype, shape, dst, dst_strides, value, repeated);
}

void fill_zeros(Tensor& y) {
  if (y.numel() == 0) return;
  alignas(8) const std::byte zero[8] = {};
  if (!y.device().is_cpu()) return device::fill_elements(y, zero);
  strided_fill(y.dtype(), y.shape(), y.mutable_bytes("zeros"), y.strides(), zero);
}

void write_along(Tensor& y, const Tensor& x, int axis, std::int64_t start, std::int64_t step) {
  if (x.numel() == 0) return;
  const auto element = static_cast<std::int64_t>(size_of(y.dtype()));
  Shape strides = y.strides();
  const std::int64_t offset = start * strides[axis];
  strides[axis] = x.shape()[axis] > 1 ? strides[axis] * step : 0; // the step of one element may be beyond counting
  if (!y.device().is_cpu()) {
    Tensor part = y.view_as(x.shape(), strides, offset);
    return device::copy_elements(part, x);
  }
  std::byte* first = y.mutable_bytes("write") + offset * element;
  strided_copy(y.dtype(), x.shape(), first, strides, x.bytes(), x.strides());
}

void embed_along(Tensor& y, const Tensor& x, int axis, std::int64_t start, std::int64_t step, const std::byte* fill) {
  if (y.numel() == 0) return;
  const auto element = static_cast<std::int64_t>(size_of(y.dtype()));
  const auto fill_range = [&](std::int64_t from, std::int64_t to) {
    if (from >= to) return;
    Shape margin = y.shape();
    margin[axis] = to - from;
    if (!y.device().is_cpu()) {
      Tensor part = y.view_as(margin, y.strides(), from * y.strides()[axis]);
      return device::fill_elements(part, fill);
    }
    strided_fill(y.dtype(), margin, y.mutable_bytes("fill") + from * y.strides()[axis] * element, y.strides(), fill);
  };
  if (step == 1) {
    fill_range(0, start);
    fill_range(start + x.shape()[axis], y.shape()[axis]);
  } else {
    fill_range(0, y.shape()[axis]);
  }
  write_along(y, x, axis, start, step);
}

void pack_into(std::byte* dst, const Tensor& src) {
  if (src.numel() == 0) return;
  strided_copy(src.dtype(), src.shape(), dst, contiguous_strides(src.shape()), src.bytes(), src.strides());
}

Tensor packed_copy(const Tensor& x) {
  if (!x.device().is_cpu()) return device::transferred(x, x.device());
  Tensor y = Tensor::empty(x.shape(), x.dtype(), Device::cpu());
  if (x.numel() > 0) pack_into(y.mutable_bytes("contiguous"), x);
  return y;
}

} // namespace eg
