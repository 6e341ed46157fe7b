// Convolution as matrix products. A band of window rows of one image is laid out as columns (about 1 MiB, in cache)
// and multiplied there, so that memory does not grow with the batch, and the cut depends on sizes alone.

#include "core/ops/conv/kernels.h"

#include "core/gemm/blas.h"
#include "core/memory/allocator.h"
#include "core/memory/scratch_pool.h"
#include "core/threads/parallel.h"

namespace eg::conv {
namespace {

using blas::Matrix;
using windows::Band;

/// Columns of one band of planes: the planes themselves where a window is a pixel.
template <class T> class Columns {
public:
  Columns(const Conv& c, ScratchPool& pool) : c_(c), buffer_(pool.take()) {}

  /// Bytes of a scratch buffer for bands of at most so many channels.
  static std::size_t bytes(const Conv& c, const Bands& bands, std::int64_t most_channels) {
    const std::int64_t elements = most_channels * c.axes.taps() * bands.rows * c.axes.columns.count;
    return c.pointwise() ? 0 : static_cast<std::size_t>(elements) * sizeof(T);
  }

  Matrix<T> of(const T* planes, std::int64_t channels, Band band, bool transposed = false) const {
    const std::int64_t width = c_.axes.columns.count;
    if (c_.pointwise()) return {planes + band.begin * width, c_.axes.pixels(), transposed};
    windows::to_columns<T>(c_.axes, band, channels, planes, data());
    return {data(), band.rows() * width, transposed};
  }
  T* data() const { return reinterpret_cast<T*>(buffer_.data()); }

private:
  const Conv& c_;
  ScratchPool::Buffer buffer_;
};

template <class T> void fill_with_bias(const T* bias, std::int64_t rows, std::int64_t n, T* y, std::int64_t ld) {
  for (std::int64_t r = 0; r < rows; ++r) std::fill_n(y + r * ld, n, bias[r]);
}

} // namespace

template <class T> void forward(const Conv& c, const T* x, const T* w, const T* bias, T* y) {
  const MatmulPrecision wanted = matmul_precision();
  if (wanted == MatmulPrecision::full ? suits_direct_forward(c) : suits_direct(c))
    return direct_forward(c, x, w, bias, y);
  const Bands bands = bands_of(c, c.depth(), sizeof(T));
  const std::int64_t positions = c.axes.windows();
  const std::int64_t width = c.axes.columns.count;
  ScratchPool pool(c.images * c.groups * bands.count, Columns<T>::bytes(c, bands, c.inputs));
  parallel::for_each(c.images * c.groups * bands.count, 1, [&](std::int64_t begin, std::int64_t end) {
    const Columns<T> columns(c, pool);
    for (std::int64_t unit = begin; unit < end; ++unit) {
      const Band band = bands[unit % bands.count];
      const std::int64_t slab = unit / bands.count; // image and group
      const std::int64_t group = slab % c.groups;
      T* to = y + slab * c.outputs * positions + band.begin * width;
      const std::int64_t n = band.rows() * width;
      if (bias != nullptr) fill_with_bias(bias + group * c.outputs, c.outputs, n, to, positions);
      blas::gemm<T>(c.outputs, n, c.depth(), T(1), {w + group * c.outputs * c.depth(), c.depth(), false},
                    columns.of(x + slab * c.inputs * c.axes.pixels(), c.inputs, band), bias != nullptr ? T(1) : T(0),
                    to, positions, wanted);
    }
  });
}

template <class T> void input_backward(const Conv& c, const T* w, const T* g, T* dx) {
  if (suits_direct(c)) return direct_input_backward(c, w, g, dx);
  const MatmulPrecision wanted = matmul_precision();
  const ChannelBlocks blocks = blocks_of(c, c.images * c.groups);
  const Bands bands = bands_of(c, blocks.size * c.axes.taps(), sizeof(T));
  const std::int64_t positions = c.axes.windows();
  const std::int64_t width = c.axes.columns.count;
  ScratchPool pool(c.images * c.groups * blocks.count, Columns<T>::bytes(c, bands, blocks.size));
  parallel::for_each(c.images * c.groups * blocks.count, 1, [&](std::int64_t begin, std::int64_t end) {
    const Columns<T> columns(c, pool);
    for (std::int64_t unit = begin; unit < end; ++unit) {
      const std::int64_t block = unit % blocks.count;
      const std::int64_t slab = unit / blocks.count;
      const std::int64_t channels = blocks.channels(block);
      const std::int64_t rows = channels * c.axes.taps();
      T* planes = dx + (slab * c.inputs + blocks.begin(block)) * c.axes.pixels();
      if (!c.pointwise()) std::fill_n(planes, channels * c.axes.pixels(), T(0));
      const Matrix<T> weight{w + slab % c.groups * c.outputs * c.depth() + blocks.begin(block) * c.axes.taps(),
                             c.depth(), true};
      for (std::int64_t b = 0; b < bands.count; ++b) { // in order: windows of two bands overlap
        const Band band = bands[b];
        const std::int64_t n = band.rows() * width;
        T* product = c.pointwise() ? planes + band.begin * width : columns.data();
        blas::gemm<T>(rows, n, c.outputs, T(1), weight,
                      {g + slab * c.outputs * positions + band.begin * width, positions, false}, T(0), product,
                      c.pointwise() ? positions : n, wanted);
        if (!c.pointwise()) windows::add_columns<T>(c.axes, band, channels, product, planes);
      }
    }
  });
}

template <class T> void weight_backward(const Conv& c, const T* x, const T* g, T* dw) {
  if (suits_direct(c)) return direct_weight_backward(c, x, g, dw);
  const MatmulPrecision wanted = matmul_precision();
  const std::int64_t size = c.groups * c.outputs * c.depth();
  if (c.images == 0) return void(std::fill_n(dw, size, T(0)));
  const ChannelBlocks blocks = blocks_of(c, c.groups);
  const std::int64_t pieces = std::clamp<std::int64_t>(8 / (c.groups * blocks.count), 1, c.images);
  const std::int64_t images = (c.images + pieces - 1) / pieces; // of one piece
  const std::int64_t chunks = (c.images + images - 1) / images;
  const Bands bands = bands_of(c, blocks.size * c.axes.taps(), sizeof(T));
  const std::int64_t positions = c.axes.windows();
  const std::int64_t width = c.axes.columns.count;
  const auto partial = allocator::allocate(static_cast<std::size_t>((chunks - 1) * size) * sizeof(T));
  T* const further = reinterpret_cast<T*>(partial.get()); // sums of the pieces behind the first
  ScratchPool pool(chunks * c.groups * blocks.count, Columns<T>::bytes(c, bands, blocks.size));
  parallel::for_each(chunks * c.groups * blocks.count, 1, [&](std::int64_t begin, std::int64_t end) {
    const Columns<T> columns(c, pool);
    for (std::int64_t unit = begin; unit < end; ++unit) {
      const std::int64_t block = unit % blocks.count;
      const std::int64_t group = unit / blocks.count % c.groups;
      const std::int64_t chunk = unit / blocks.count / c.groups;
      const std::int64_t first = blocks.begin(block);
      T* to = (chunk == 0 ? dw : further + (chunk - 1) * size) + group * c.outputs * c.depth() + first * c.axes.taps();
      T beta = 0;
      for (std::int64_t n = chunk * images; n < std::min(c.images, (chunk + 1) * images); ++n)
        for (std::int64_t b = 0; b < bands.count; ++b) {
          const Band band = bands[b];
          const std::int64_t slab = n * c.groups + group;
          const std::int64_t channels = blocks.channels(block);
          blas::gemm<T>(c.outputs, channels * c.axes.taps(), band.rows() * width, T(1),
                        {g + slab * c.outputs * positions + band.begin * width, positions, false},
                        columns.of(x + (slab * c.inputs + first) * c.axes.pixels(), channels, band, true), beta, to,
                        c.depth(), wanted);
          beta = 1;
        }
    }
  });
  for (std::int64_t k = 0; k + 1 < chunks; ++k) {
    const T* more = further + k * size;
    for (std::int64_t i = 0; i < size; ++i) dw[i] += more[i];
  }
}

#define EG_INSTANTIATE(T)                                                                                              \
  template void forward<T>(const Conv&, const T*, const T*, const T*, T*);                                             \
  template void input_backward<T>(const Conv&, const T*, const T*, T*);                                                \
  template void weight_backward<T>(const Conv&, const T*, const T*, T*);
EG_INSTANTIATE(float)
EG_INSTANTIATE(double)
#undef EG_INSTANTIATE

} // namespace eg::conv
