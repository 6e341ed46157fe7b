// Kernels of elements: pointwise with broadcasting, scatter by atomics, transposes, the words of a warp.

#include "kernels.h"

namespace eg::test {

namespace {

__device__ inline long first_index() { return blockIdx.x * static_cast<long>(blockDim.x) + threadIdx.x; }
__device__ inline long index_step() { return static_cast<long>(gridDim.x) * blockDim.x; }

__global__ void add_strided(Walk walk, const float* a, const float* b, float* y, long count) {
  for (long i = first_index(); i < count; i += index_step()) {
    long at_a = 0, at_b = 0, rest = i;
    for (int axis = walk.rank - 1; axis >= 0; --axis) {
      const long j = rest % walk.extent[axis];
      rest /= walk.extent[axis];
      at_a += j * walk.stride[0][axis];
      at_b += j * walk.stride[1][axis];
    }
    y[i] = a[at_a] + b[at_b];
  }
}

__global__ void add_by_four(const float* a, const float* b, float* y, long count4) {
  for (long i = first_index(); i < count4; i += index_step()) {
    const float4 p = gpu::load4(a + 4 * i), q = gpu::load4(b + 4 * i);
    gpu::store4(y + 4 * i, make_float4(p.x + q.x, p.y + q.y, p.z + q.z, p.w + q.w));
  }
}

__global__ void add_by_two(const double* a, const double* b, double* y, long count2) {
  for (long i = first_index(); i < count2; i += index_step()) {
    const double2 p = gpu::load2(a + 2 * i), q = gpu::load2(b + 2 * i);
    gpu::store2(y + 2 * i, make_double2(p.x + q.x, p.y + q.y));
  }
}

__global__ void scatter_fixed(const long* ids, const float* g, unsigned long long* sums, int tokens, int width,
                              double per_unit) {
  const int token = static_cast<int>(blockIdx.x), j = static_cast<int>(threadIdx.x);
  if (token >= tokens || j >= width) return;
  const double value = g[static_cast<long>(token) * width + j];
  const long long fixed = static_cast<long long>(rint(value * per_unit));
  atomicAdd(sums + ids[token] * width + j, static_cast<unsigned long long>(fixed));
}

__global__ void scale_fixed(const unsigned long long* sums, float* out, long count, double unit) {
  for (long i = first_index(); i < count; i += index_step())
    out[i] = static_cast<float>(static_cast<double>(static_cast<long long>(sums[i])) * unit);
}

template <int Pad> __global__ void transpose_by_tile(const float* x, float* y, int n) {
  GPU_SHARED(tile, float[32][32 + Pad]);
  const int x0 = static_cast<int>(blockIdx.x) * 32, y0 = static_cast<int>(blockIdx.y) * 32;
  const int tx = static_cast<int>(threadIdx.x), ty = static_cast<int>(threadIdx.y);
  for (int r = ty; r < 32; r += 8) tile[r][tx] = x[(y0 + r) * n + x0 + tx];
  __syncthreads();
  for (int r = ty; r < 32; r += 8) y[(x0 + r) * n + y0 + tx] = tile[tx][r];
}

__global__ void transpose_columns(const float* x, float* y, int n) {
  const int row = static_cast<int>(blockIdx.x);
  for (int j = static_cast<int>(threadIdx.x); j < n; j += static_cast<int>(blockDim.x)) y[j * n + row] = x[row * n + j];
}

__global__ void words_of_a_warp(const int* x, int* y) {
  const int lane = static_cast<int>(threadIdx.x);
  const int own = x[lane];
  int* to = y + 6 * lane;
  to[0] = __shfl_sync(0xffffffffU, own, 5);
  to[1] = __shfl_xor_sync(0xffffffffU, own, 9);
  to[2] = __shfl_down_sync(0xffffffffU, own, 3);
  to[3] = __shfl_up_sync(0xffffffffU, own, 3);
  to[4] = static_cast<int>(__ballot_sync(0xffffffffU, own % 3 == 0));
  const int any = __any_sync(0xffffffffU, own == 7), all = __all_sync(0xffffffffU, own >= 0);
  to[5] = (any != 0 ? 1 : 0) + (all != 0 ? 2 : 0);
}

/// Two halves of a warp, each ordered by barriers of its own: everyone reads everyone's number, then writes its own
/// anew.
__global__ void sums_of_half_warps(const int* x, int* y) {
  GPU_SHARED(room, int[32]);
  const unsigned lane = threadIdx.x, first = lane / 16 * 16, mask = 0xffffU << first;
  room[lane] = x[lane];
  for (int round = 0; round < 3; ++round) {
    __syncwarp(mask);
    int sum = 0;
    for (unsigned i = first; i < first + 16; ++i) sum += room[i];
    __syncwarp(mask);
    room[lane] = sum + static_cast<int>(lane);
  }
  y[lane] = room[lane];
}

constexpr unsigned blocks_for(long count) {
  const long blocks = (count + 255) / 256;
  return static_cast<unsigned>(blocks < 1 ? 1 : blocks > 64 ? 64 : blocks);
}

} // namespace

void add(const Walk& walk, const float* a, const float* b, float* y, long count, gpu::Stream stream) {
  GPU_LAUNCH(add_strided, blocks_for(count), 256, 0, stream, walk, a, b, y, count);
}
void add_packed(const float* a, const float* b, float* y, long count4, gpu::Stream stream) {
  GPU_LAUNCH(add_by_four, blocks_for(count4), 256, 0, stream, a, b, y, count4);
}
void add_packed(const double* a, const double* b, double* y, long count2, gpu::Stream stream) {
  GPU_LAUNCH(add_by_two, blocks_for(count2), 256, 0, stream, a, b, y, count2);
}

void scatter_add(const long* ids, const float* g, unsigned long long* sums, int tokens, int width, double per_unit,
                 gpu::Stream stream) {
  GPU_LAUNCH(scatter_fixed, static_cast<unsigned>(tokens), static_cast<unsigned>((width + 31) / 32 * 32), 0, stream,
             ids, g, sums, tokens, width, per_unit);
}
void scale(const unsigned long long* sums, float* out, long count, double unit, gpu::Stream stream) {
  GPU_LAUNCH(scale_fixed, blocks_for(count), 256, 0, stream, sums, out, count, unit);
}

void transpose(const float* x, float* y, int n, gpu::Stream stream) {
  const unsigned tiles = static_cast<unsigned>(n / 32);
  GPU_LAUNCH(transpose_by_tile<1>, dim3(tiles, tiles), dim3(32, 8), 0, stream, x, y, n);
}
void transpose_by_columns(const float* x, float* y, int n, gpu::Stream stream) {
  GPU_LAUNCH(transpose_columns, static_cast<unsigned>(n), 64, 0, stream, x, y, n);
}
void transpose_unpadded(const float* x, float* y, int n, gpu::Stream stream) {
  const unsigned tiles = static_cast<unsigned>(n / 32);
  GPU_LAUNCH(transpose_by_tile<0>, dim3(tiles, tiles), dim3(32, 8), 0, stream, x, y, n);
}

void half_warps(const int* x, int* y, gpu::Stream stream) { GPU_LAUNCH(sums_of_half_warps, 1, 32, 0, stream, x, y); }

void warp_words(const int* x, int* y, gpu::Stream stream) { GPU_LAUNCH(words_of_a_warp, 1, 32, 0, stream, x, y); }

} // namespace eg::test
