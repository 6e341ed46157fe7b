#pragma once
// Lets a warp or a whole block work on one row: the threads of the team, and joins over all of them.

#include "core/cuda/launch.h"

#include <cstdint>

namespace eg::cuda {

inline constexpr unsigned team_block = 256;            ///< threads of a block: one team, or one for each warp
inline constexpr std::int64_t longest_warp_row = 1024; ///< rows up to here have a warp, longer ones a block

/// Shared memory for the joins of a block: `GPU_SHARED(room, TeamRoom)`.
struct TeamRoom {
  alignas(16) unsigned char bytes[gpu::warp_size * 32];
};

/// The team of the calling thread. Thread `place` of `size` takes the elements place, place + size, ... of a row, so
/// that the order of a sum depends on the length of the row alone.
template <bool is_block> struct Team {
  static constexpr unsigned size = is_block ? team_block : gpu::warp_size;
  static constexpr unsigned in_block = team_block / size;
  TeamRoom& room;

  __device__ unsigned place() const { return threadIdx.x % size; }
  /// The first row of this team, and how far the next one is.
  __device__ std::int64_t first_row() const {
    return static_cast<std::int64_t>(blockIdx.x) * in_block + threadIdx.x / size;
  }
  __device__ std::int64_t row_step() const { return static_cast<std::int64_t>(gridDim.x) * in_block; }

  /// x of all threads of the team, joined; every one must come. `none` changes nothing when it is joined.
  template <class T, class F> __device__ T joined(T x, T none, F join) const {
    if constexpr (is_block) {
      static_assert(sizeof(T) <= 32);
      return gpu::block_reduce(x, none, reinterpret_cast<T*>(room.bytes), join);
    } else {
      return gpu::warp_butterfly(x, join);
    }
  }
  __device__ double sum(double x) const {
    return joined(x, 0.0, [](double a, double b) { return a + b; });
  }
};

/// A grid for `rows` rows; more rows are reached by steps of the whole grid.
inline dim3 team_grid(std::int64_t rows, bool is_block) {
  constexpr std::int64_t most = 132 * 16;
  const std::int64_t in_block = is_block ? 1 : team_block / gpu::warp_size;
  const std::int64_t blocks = (rows + in_block - 1) / in_block;
  return dim3(static_cast<unsigned>(blocks < 1 ? 1 : blocks > most ? most : blocks));
}

/// Calls f.operator()<is_block>() with the kind of team for rows of n elements.
template <class F> Failure visit_team(std::int64_t n, F&& f) {
  return n > longest_warp_row ? f.template operator()<true>() : f.template operator()<false>();
}

} // namespace eg::cuda
