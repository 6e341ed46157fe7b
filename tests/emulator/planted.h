#pragma once
// Declares launches of kernels that are wrong on purpose, each in a way that a GPU often forgives.

#include "core/cuda/gpu.h"

namespace eg::test::planted {

/// x and y have n numbers each where nothing else is said.
using Wrong = void (*)(const float* x, float* y, int n);

// Barriers.
void sum_without_barrier(const float* x, float* y, int n);
void two_sums_one_room(const float* x, float* y, int n);
void barrier_in_branch(const float* x, float* y, int n);
void two_barriers(const float* x, float* y, int n);
void leaves_before_barrier(const float* x, float* y, int n);

// Warps.
void shuffle_after_return(const float* x, float* y, int n);
void shuffle_from_absent_lane(const float* x, float* y, int n);
void mask_without_caller(const float* x, float* y, int n);
void half_a_warp(const float* x, float* y, int n);
void missing_syncwarp(const float* x, float* y, int n);

// Blocks.
void blocks_collide(const float* x, float* y, int n);
void reads_next_block(const float* x, float* y, int n);
void atomic_and_plain(const float* x, float* y, int n);
void float_atomics(const float* x, float* y, int n);

// Bounds.
void reads_one_too_many(const float* x, float* y, int n);
void writes_one_too_many(const float* x, float* y, int n);
void shared_overrun(const float* x, float* y, int n);
void dynamic_overrun(const float* x, float* y, int n);
void misaligned_load4(const float* x, float* y, int n);
void misaligned_double(const float* x, float* y, int n);

// Memory that is not there, or nobody's.
void copies(const float* x, float* y, int n); ///< right by itself: a copy of n numbers
void writes_host(const float* x, float* y, int n);
void reads_null(const float* x, float* y, int n);
void forgets_the_tail(const float* x, float* y, int n); ///< wrong for n no multiple of 256
void unwritten_shared(const float* x, float* y, int n);
void writes_constant(const float* x, float* y, int n);
void local_of_another(const float* x, float* y, int n);
void large_local_array(const float* x, float* y, int n);
void divides_by_zero(const float* x, float* y, int n);

// Launches.
void no_threads(const float* x, float* y, int n);
void too_many_threads(const float* x, float* y, int n);
void no_blocks(const float* x, float* y, int n);
void too_much_dynamic(const float* x, float* y, int n);
void too_much_static(const float* x, float* y, int n);
void too_much_together(const float* x, float* y, int n);
void no_dynamic(const float* x, float* y, int n);
void too_many_parameters(const float* x, float* y, int n);

} // namespace eg::test::planted
