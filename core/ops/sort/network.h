#pragma once
// Sorts lines of items on a device by a bitonic network: no two items are equal, so the result has one order.

#include "core/cuda/kernels.h"
#include "core/cuda/launch.h"

#include "core/ops/sort/key.h"

#include <cstdint>

namespace eg::cuda {

inline constexpr unsigned network_chunk = 1024; ///< items that a block sorts in shared memory; a power of two

/// Puts items i and i + stride in order: upwards, or downwards in every second run of `size` items of a line.
template <class Item>
__device__ void put_in_order(Item& lower, Item& upper, std::int64_t place_in_line, std::int64_t size) {
  const bool downwards = (place_in_line & size) != 0;
  if (downwards ? lower.before(upper) : upper.before(lower)) {
    const Item kept = lower;
    lower = upper;
    upper = kept;
  }
}

/// The lower of the p-th pair whose members are `stride` apart, a power of two.
__device__ inline std::int64_t lower_of_pair(std::int64_t p, std::int64_t stride) {
  return (p & ~(stride - 1)) * 2 + (p & (stride - 1));
}

/// The steps of the network for sizes first, 2 first, ... last whose strides stay within a chunk. `line`: items of a
/// line, a power of two.
template <class Item>
__global__ void sort_chunks_kernel(Item* items, std::int64_t total, std::int64_t line, std::int64_t first,
                                   std::int64_t last) {
  GPU_SHARED(chunk, Item[network_chunk]);
  for (std::int64_t begin = static_cast<std::int64_t>(blockIdx.x) * network_chunk; begin < total;
       begin += static_cast<std::int64_t>(gridDim.x) * network_chunk) {
    const std::int64_t left = total - begin;
    const std::int64_t n = left < network_chunk ? left : network_chunk; // whole lines, or a part of one
    for (std::int64_t i = threadIdx.x; i < n; i += blockDim.x) chunk[i] = items[begin + i];
    __syncthreads();
    for (std::int64_t size = first; size <= last; size *= 2)
      for (std::int64_t stride = (size < network_chunk ? size : network_chunk) / 2; stride > 0; stride /= 2) {
        for (std::int64_t p = threadIdx.x; p < n / 2; p += blockDim.x) {
          const std::int64_t i = lower_of_pair(p, stride);
          put_in_order(chunk[i], chunk[i + stride], (begin + i) & (line - 1), size);
        }
        __syncthreads();
      }
    for (std::int64_t i = threadIdx.x; i < n; i += blockDim.x) items[begin + i] = chunk[i];
    __syncthreads(); // the chunk may be loaded again
  }
}

/// One step of the network over all lines.
template <class Item>
__global__ void sort_step_kernel(Item* items, std::int64_t pairs, std::int64_t line, std::int64_t size,
                                 std::int64_t stride) {
  for (std::int64_t p = first_element(); p < pairs; p += element_step()) {
    const std::int64_t i = lower_of_pair(p, stride);
    put_in_order(items[i], items[i + stride], i & (line - 1), size);
  }
}

/// Sorts `lines` lines of `line` items each, a power of two.
template <class Item> void sort_lines(Queue queue, Item* items, std::int64_t lines, std::int64_t line) {
  if (line < 2) return;
  const std::int64_t total = lines * line;
  const std::int64_t chunks = (total + network_chunk - 1) / network_chunk;
  const dim3 grid(static_cast<unsigned>(chunks < 132 * 16 ? chunks : 132 * 16));
  const auto in_chunks = [&](std::int64_t first, std::int64_t last) {
    GPU_LAUNCH(sort_chunks_kernel<Item>, grid, elements_block, 0, queue.stream, items, total, line, first, last);
  };
  in_chunks(2, line < network_chunk ? line : network_chunk);
  for (std::int64_t size = 2 * std::int64_t{network_chunk}; size <= line; size *= 2) {
    for (std::int64_t stride = size / 2; stride >= network_chunk; stride /= 2)
      GPU_LAUNCH(sort_step_kernel<Item>, elements_grid(total / 2), elements_block, 0, queue.stream, items, total / 2,
                 line, size, stride);
    in_chunks(size, size);
  }
}

/// Calls f.operator()<Item>() with the item of that many bytes.
template <class F> Failure visit_item(std::size_t bytes, F&& f) {
  return bytes == sizeof(sorting::ShortItem) ? f.template operator()<sorting::ShortItem>()
                                             : f.template operator()<sorting::LongItem>();
}

} // namespace eg::cuda
