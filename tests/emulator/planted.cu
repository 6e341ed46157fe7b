// The line that a finding must name ends by WRONG and the kernel's name; a second one by 2 behind it.

#include "planted.h"

namespace eg::test::planted {

namespace {

struct Sum {
  __device__ float operator()(float a, float b) const { return a + b; }
};

__device__ inline int thread() { return static_cast<int>(threadIdx.x); }
__device__ inline int index() { return static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x); }

__global__ void sum_without_barrier_kernel(const float* x, float* y) {
  GPU_SHARED(room, float[4]);
  const float s = gpu::warp_butterfly(x[index()], Sum{});
  if (thread() % 32 == 0) room[thread() / 32] = s;
  if (thread() == 0) y[blockIdx.x] = room[0] + room[1] + room[2] + room[3]; // WRONG sum_without_barrier
}

/// The pattern of a reduction helper that ends without a barrier, called twice on the same scratch.
__device__ inline float block_sum_once(float x, float* room) {
  x = gpu::warp_butterfly(x, Sum{});
  if (thread() % 32 == 0) room[thread() / 32] = x; // WRONG two_sums_one_room
  __syncthreads();
  const int warps = static_cast<int>(blockDim.x / 32);
  return gpu::warp_butterfly(thread() % 32 < warps ? room[thread() % 32] : 0.0F, Sum{}); // WRONG two_sums_one_room 2
}
__global__ void two_sums_one_room_kernel(const float* x, float* y) {
  GPU_SHARED(room, float[32]);
  const float mean = block_sum_once(x[index()], room) / static_cast<float>(blockDim.x);
  const float d = x[index()] - mean;
  const float q = block_sum_once(d * d, room);
  if (thread() == 0) y[blockIdx.x] = q;
}

__global__ void barrier_in_branch_kernel(const float* x, float* y) {
  GPU_SHARED(room, float[64]);
  room[thread()] = x[thread()];
  if (thread() < 40) __syncthreads(); // WRONG barrier_in_branch
  y[thread()] = room[thread()];
}

__global__ void two_barriers_kernel(const float* x, float* y) {
  if (thread() < 32) {
    __syncthreads(); // WRONG two_barriers
    y[thread()] = x[thread()];
  } else {
    __syncthreads(); // WRONG two_barriers 2
    y[thread()] = 2 * x[thread()];
  }
}

__global__ void leaves_before_barrier_kernel(const float* x, float* y, int n) {
  if (thread() >= n) return;
  __syncthreads(); // WRONG leaves_before_barrier
  y[thread()] = x[thread()];
}

__global__ void shuffle_after_return_kernel(const float* x, float* y, int n) {
  if (thread() >= n) return;
  y[thread()] = __shfl_xor_sync(0xffffffffU, x[thread()], 1); // WRONG shuffle_after_return
}

__global__ void shuffle_from_absent_lane_kernel(const float* x, float* y) {
  if (thread() < 16) y[thread()] = __shfl_sync(0xffffU, x[thread()], 20); // WRONG shuffle_from_absent_lane
}

__global__ void mask_without_caller_kernel(const float* x, float* y) {
  y[thread()] = __shfl_sync(0x7fffffffU, x[thread()], 3); // WRONG mask_without_caller
}

__global__ void half_a_warp_kernel(const float* x, float* y) {
  y[thread()] = gpu::warp_butterfly(x[thread()], Sum{}); // WRONG half_a_warp
}

__global__ void missing_syncwarp_kernel(const float* x, float* y) {
  GPU_SHARED(room, float[32]);
  room[thread()] = x[thread()];
  (void)__shfl_sync(0xffffffffU, 0, 0);    // orders no memory
  y[thread()] = room[(thread() + 1) % 32]; // WRONG missing_syncwarp
}

__global__ void blocks_collide_kernel(const float* x, float* y) {
  if (thread() == 0) y[0] = x[blockIdx.x]; // WRONG blocks_collide
}

__global__ void reads_next_block_kernel(float* y, int n) {
  const float next = index() + 1 < n ? y[index() + 1] : 0; // WRONG reads_next_block
  __syncthreads();
  y[index()] = next; // WRONG reads_next_block 2
}

__global__ void atomic_and_plain_kernel(unsigned* count) {
  if (thread() == 0) atomicAdd(count, 1U);          // WRONG atomic_and_plain 2
  if (thread() == 0 && blockIdx.x == 3) *count = 0; // WRONG atomic_and_plain
}

__global__ void float_atomics_kernel(const float* x, float* y) {
  atomicAdd(y, x[index()]); // WRONG float_atomics
}

__global__ void reads_one_too_many_kernel(const float* x, float* y, int n) {
  if (index() < n) y[index()] = x[index() + 1]; // WRONG reads_one_too_many
}

__global__ void writes_one_too_many_kernel(const float* x, float* y, int n) {
  if (index() <= n) y[index()] = x[0]; // WRONG writes_one_too_many
}

__global__ void shared_overrun_kernel(const float* x, float* y) {
  GPU_SHARED(room, float[63]);
  room[thread()] = x[thread()]; // WRONG shared_overrun
  __syncthreads();
  y[thread()] = room[thread()];
}

__global__ void dynamic_overrun_kernel(const float* x, float* y) {
  float* room = gpu::dynamic_shared<float>();
  room[thread()] = x[thread()]; // WRONG dynamic_overrun
  __syncthreads();
  y[thread()] = room[thread()];
}

__global__ void misaligned_load4_kernel(const float* x, float* y) {
  gpu::store4(y, gpu::load4(x + 1)); // WRONG misaligned_load4
}

__global__ void misaligned_double_kernel(const float* x, float* y) {
  y[0] = static_cast<float>(*reinterpret_cast<const double*>(x + 1)); // WRONG misaligned_double
}

__global__ void copies_kernel(const float* x, float* y, int n) {
  if (index() < n) y[index()] = x[index()]; // WRONG copies
}

__global__ void writes_host_kernel(const float* x, float* y) {
  y[thread()] = x[thread()]; // WRONG writes_host
}

__global__ void reads_null_kernel(const float* x, float* y) {
  y[thread()] = x[thread()]; // WRONG reads_null
}

__global__ void forgets_the_tail_kernel(const float* x, float* y) { y[index()] = x[index()]; }

__global__ void unwritten_shared_kernel(const float* x, float* y) {
  GPU_SHARED(room, float[64]);
  if (thread() < 63) room[thread()] = x[thread()];
  __syncthreads();
  y[thread()] = room[thread()]; // WRONG unwritten_shared
}

__global__ void local_of_another_kernel(const float* x, float* y) {
  GPU_SHARED(where, float* [1]);
  float own[2] = {x[thread()], 0};
  if (thread() == 0) where[0] = own;
  __syncthreads();
  y[thread()] = where[0][0]; // WRONG local_of_another
  __syncthreads();
}

__global__ void large_local_array_kernel(const float* x, float* y, int n) { // WRONG large_local_array
  float own[30000];
  for (int i = 0; i < n; ++i) own[(i * 7919) % 30000] = x[i];
  y[0] = own[n % 30000];
}

__global__ void divides_by_zero_kernel(const float* x, float* y, int n) {
  y[0] = x[7 / n]; // WRONG divides_by_zero
}

__global__ void too_much_together_kernel(const float* x, float* y) {
  GPU_SHARED(room, float[12288]); // WRONG too_much_together
  room[thread()] = x[thread()];
  y[thread()] = room[thread()];
}

__global__ void no_dynamic_kernel(const float* x, float* y) {
  float* room = gpu::dynamic_shared<float>(); // WRONG no_dynamic
  room[thread()] = x[thread()];
  y[thread()] = room[thread()];
}

struct Large {
  float values[1025];
};
__global__ void too_many_parameters_kernel(Large large, float* y) { y[thread()] = large.values[thread()]; }

} // namespace

void sum_without_barrier(const float* x, float* y, int) {
  GPU_LAUNCH(sum_without_barrier_kernel, 2, 128, 0, nullptr, x, y);
}
void two_sums_one_room(const float* x, float* y, int) {
  GPU_LAUNCH(two_sums_one_room_kernel, 2, 128, 0, nullptr, x, y);
}
void barrier_in_branch(const float* x, float* y, int) { GPU_LAUNCH(barrier_in_branch_kernel, 1, 64, 0, nullptr, x, y); }
void two_barriers(const float* x, float* y, int) { GPU_LAUNCH(two_barriers_kernel, 1, 64, 0, nullptr, x, y); }
void leaves_before_barrier(const float* x, float* y, int) {
  GPU_LAUNCH(leaves_before_barrier_kernel, 1, 64, 0, nullptr, x, y, 50);
}
void shuffle_after_return(const float* x, float* y, int) {
  GPU_LAUNCH(shuffle_after_return_kernel, 1, 32, 0, nullptr, x, y, 20);
}
void shuffle_from_absent_lane(const float* x, float* y, int) {
  GPU_LAUNCH(shuffle_from_absent_lane_kernel, 1, 32, 0, nullptr, x, y);
}
void mask_without_caller(const float* x, float* y, int) {
  GPU_LAUNCH(mask_without_caller_kernel, 1, 32, 0, nullptr, x, y);
}
void half_a_warp(const float* x, float* y, int) { GPU_LAUNCH(half_a_warp_kernel, 1, 16, 0, nullptr, x, y); }
void missing_syncwarp(const float* x, float* y, int) { GPU_LAUNCH(missing_syncwarp_kernel, 1, 32, 0, nullptr, x, y); }
void blocks_collide(const float* x, float* y, int) { GPU_LAUNCH(blocks_collide_kernel, 4, 32, 0, nullptr, x, y); }
void reads_next_block(const float* x, float* y, int n) {
  GPU_LAUNCH(copies_kernel, static_cast<unsigned>(n) / 64, 64, 0, nullptr, x, y, n);
  GPU_LAUNCH(reads_next_block_kernel, static_cast<unsigned>(n) / 64, 64, 0, nullptr, y, n);
}
void atomic_and_plain(const float* x, float* y, int n) {
  GPU_LAUNCH(copies_kernel, 1, 1, 0, nullptr, x, y, n);
  GPU_LAUNCH(atomic_and_plain_kernel, 4, 32, 0, nullptr, reinterpret_cast<unsigned*>(y));
}
void float_atomics(const float* x, float* y, int n) {
  GPU_LAUNCH(copies_kernel, 1, 1, 0, nullptr, x, y, n);
  GPU_LAUNCH(float_atomics_kernel, static_cast<unsigned>(n) / 64, 64, 0, nullptr, x, y);
}
void reads_one_too_many(const float* x, float* y, int n) {
  GPU_LAUNCH(reads_one_too_many_kernel, static_cast<unsigned>(n) / 64 + 1, 64, 0, nullptr, x, y, n);
}
void writes_one_too_many(const float* x, float* y, int n) {
  GPU_LAUNCH(writes_one_too_many_kernel, static_cast<unsigned>(n) / 64 + 1, 64, 0, nullptr, x, y, n);
}
void shared_overrun(const float* x, float* y, int) { GPU_LAUNCH(shared_overrun_kernel, 1, 64, 0, nullptr, x, y); }
void dynamic_overrun(const float* x, float* y, int) {
  GPU_LAUNCH(dynamic_overrun_kernel, 1, 64, 63 * sizeof(float), nullptr, x, y);
}
void misaligned_load4(const float* x, float* y, int) { GPU_LAUNCH(misaligned_load4_kernel, 1, 1, 0, nullptr, x, y); }
void misaligned_double(const float* x, float* y, int) { GPU_LAUNCH(misaligned_double_kernel, 1, 1, 0, nullptr, x, y); }
void copies(const float* x, float* y, int n) {
  GPU_LAUNCH(copies_kernel, static_cast<unsigned>(n) / 64 + 1, 64, 0, nullptr, x, y, n);
}
void writes_host(const float* x, float* y, int) { GPU_LAUNCH(writes_host_kernel, 1, 1, 0, nullptr, x, y); }
void reads_null(const float*, float* y, int) { GPU_LAUNCH(reads_null_kernel, 1, 32, 0, nullptr, nullptr, y); }
void forgets_the_tail(const float* x, float* y, int n) {
  GPU_LAUNCH(forgets_the_tail_kernel, static_cast<unsigned>(n) / 256, 256, 0, nullptr, x, y);
}
void unwritten_shared(const float* x, float* y, int) { GPU_LAUNCH(unwritten_shared_kernel, 1, 64, 0, nullptr, x, y); }
void local_of_another(const float* x, float* y, int) { GPU_LAUNCH(local_of_another_kernel, 1, 32, 0, nullptr, x, y); }
void large_local_array(const float* x, float* y, int n) {
  GPU_LAUNCH(large_local_array_kernel, 1, 1, 0, nullptr, x, y, n);
}
void divides_by_zero(const float* x, float* y, int) { GPU_LAUNCH(divides_by_zero_kernel, 1, 1, 0, nullptr, x, y, 0); }
void no_threads(const float* x, float* y, int n) {
  GPU_LAUNCH(copies_kernel, 1, 0, 0, nullptr, x, y, n); // WRONG no_threads
}
void too_many_threads(const float* x, float* y, int n) {
  GPU_LAUNCH(copies_kernel, 1, 1025, 0, nullptr, x, y, n); // WRONG too_many_threads
}
void no_blocks(const float* x, float* y, int n) {
  GPU_LAUNCH(copies_kernel, 0, 32, 0, nullptr, x, y, n); // WRONG no_blocks
}
void too_much_dynamic(const float* x, float* y, int n) {
  GPU_LAUNCH(copies_kernel, 1, 32, 100 << 10, nullptr, x, y, n); // WRONG too_much_dynamic
}
void too_much_together(const float* x, float* y, int) {
  GPU_LAUNCH(too_much_together_kernel, 1, 32, 60 << 10, nullptr, x, y);
}
void no_dynamic(const float* x, float* y, int) { GPU_LAUNCH(no_dynamic_kernel, 1, 32, 0, nullptr, x, y); }
void too_many_parameters(const float*, float* y, int) {
  GPU_LAUNCH(too_many_parameters_kernel, 1, 32, 0, nullptr, Large{}, y); // WRONG too_many_parameters
}

} // namespace eg::test::planted
