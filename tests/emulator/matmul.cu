// The matrix product by tiles in shared memory, 16 x 16 threads a block.

#include "kernels.h"

namespace eg::test {

namespace {

template <int Tile> __global__ void matmul_tiles(const float* a, const float* b, float* c, int m, int n, int k) {
  GPU_SHARED(ta, float[16][Tile + 1]);
  GPU_SHARED(tb, float[16][Tile]);
  const int tx = static_cast<int>(threadIdx.x), ty = static_cast<int>(threadIdx.y);
  const int row0 = static_cast<int>(blockIdx.y) * Tile, col0 = static_cast<int>(blockIdx.x) * Tile;
  constexpr int each = Tile / 16;
  float sum[each][each] = {};
  for (int k0 = 0; k0 < k; k0 += 16) {
    for (int i = ty * 16 + tx; i < 16 * Tile; i += 256) {
      const int r = i / 16, kk = i % 16;
      ta[kk][r] = row0 + r < m && k0 + kk < k ? a[static_cast<long>(row0 + r) * k + k0 + kk] : 0.0F;
      const int c2 = i % Tile, k2 = i / Tile;
      tb[k2][c2] = col0 + c2 < n && k0 + k2 < k ? b[static_cast<long>(k0 + k2) * n + col0 + c2] : 0.0F;
    }
    __syncthreads();
    for (int kk = 0; kk < 16; ++kk) GPU_UNROLL
    for (int i = 0; i < each; ++i) GPU_UNROLL
    for (int j = 0; j < each; ++j) sum[i][j] = fmaf(ta[kk][ty + 16 * i], tb[kk][tx + 16 * j], sum[i][j]);
    __syncthreads();
  }
  GPU_UNROLL
  for (int i = 0; i < each; ++i) GPU_UNROLL
  for (int j = 0; j < each; ++j) {
    const int r = row0 + ty + 16 * i, cc = col0 + tx + 16 * j;
    if (r < m && cc < n) c[static_cast<long>(r) * n + cc] = sum[i][j];
  }
}

} // namespace

void matmul(const float* a, const float* b, float* c, int m, int n, int k, int tile, gpu::Stream stream) {
  const auto tiles = [&](int extent) { return static_cast<unsigned>((extent + tile - 1) / tile); };
  const dim3 grid(tiles(n), tiles(m)), block(16, 16);
  if (tile == 16) GPU_LAUNCH(matmul_tiles<16>, grid, block, 0, stream, a, b, c, m, n, k);
  if (tile == 32) GPU_LAUNCH(matmul_tiles<32>, grid, block, 0, stream, a, b, c, m, n, k);
  if (tile == 64) GPU_LAUNCH(matmul_tiles<64>, grid, block, 0, stream, a, b, c, m, n, k);
}

} // namespace eg::test
