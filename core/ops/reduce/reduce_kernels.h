#pragma once
// Defines the kernels of reductions on devices, templates over what is made of the elements.
//
// Groups of few elements and those whose neighbours lie side by side have a thread each; the others have a warp or a
// block. Long groups are cut into chunks, whose results a second kernel joins. The order depends on extents alone.

#include "core/cuda/kernels.h"
#include "core/cuda/team.h"

#include <cmath>
#include <cstdint>

namespace eg::cuda {

// reduce() by its kind, in one file each.
Failure reduce_sums(Queue queue, const device::ReduceJob& job);
Failure reduce_extremes(Queue queue, const device::ReduceJob& job);
Failure reduce_powers(Queue queue, const device::ReduceJob& job);

namespace {

using device::ReduceJob;
using device::ReduceKind;

/// What the kernels need of a job besides its extents.
struct Parts {
  ReduceKind kind;
  void* y;
  std::int64_t* places;
  double* wide;
  const double* given;
  double factor, small, p;
  std::int64_t n;
};

template <class T> __device__ void write(const Parts& parts, std::int64_t group, double value) {
  if (parts.y != nullptr) static_cast<T*>(parts.y)[group] = static_cast<T>(value);
  if (parts.wide != nullptr) parts.wide[group] = value;
}

// A kind of reduction is a class: State, none, join, take(state, x, place, parts, group) for each element, and
// finish<T>(state, parts, group), which writes the result.

/// A number for which join is addition.
struct Adding {
  using State = double;
  __device__ static State none() { return 0; }
  __device__ static State join(State a, State b) { return a + b; }
};

__device__ inline std::int64_t offset_of(const Axes<1>& axes, std::int64_t i) {
  return axes.rank == 1 ? i * axes.stride[0][0] : offsets_at(axes, i).at[0];
}

/// The elements begin, begin + step, ... below `end` of a group.
template <class Kind, class T>
__device__ typename Kind::State reduced(const T* x, std::int64_t group, std::int64_t begin, std::int64_t end,
                                        unsigned step, const Axes<1>& elements, const Parts& parts) {
  typename Kind::State state = Kind::none();
  for (std::int64_t i = begin; i < end; i += step) Kind::take(state, x[offset_of(elements, i)], i, parts, group);
  return state;
}

/// Where the state of a chunk of a group lies: the groups of one chunk side by side.
template <class State>
__device__ State* at_chunk(double* partial, std::int64_t chunk, std::int64_t groups, std::int64_t group) {
  return reinterpret_cast<State*>(partial) + chunk * groups + group;
}

template <class Kind, bool is_block, class T>
__global__ void reduce_by_team(const T* x, std::int64_t count, Axes<1> groups, Axes<1> elements, std::int64_t chunk,
                               std::int64_t chunks, double* partial, Parts parts) {
  using State = typename Kind::State;
  GPU_SHARED(room, TeamRoom);
  const Team<is_block> team{room};
  for (std::int64_t row = team.first_row(); row < count * chunks; row += team.row_step()) {
    const std::int64_t group = row / chunks, part = row % chunks;
    const std::int64_t begin = part * chunk, end = min(parts.n, begin + chunk);
    const State own =
        reduced<Kind>(x + offset_of(groups, group), group, begin + team.place(), end, team.size, elements, parts);
    const State all = team.joined(own, Kind::none(), [](const State& a, const State& b) { return Kind::join(a, b); });
    if (team.place() != 0) continue;
    if (chunks == 1)
      Kind::template finish<T>(all, parts, group);
    else
      *at_chunk<State>(partial, part, count, group) = all;
  }
}

template <class Kind, class T>
__global__ void reduce_by_thread(const T* x, std::int64_t count, Axes<1> groups, Axes<1> elements, std::int64_t chunk,
                                 std::int64_t chunks, double* partial, Parts parts) {
  using State = typename Kind::State;
  const std::int64_t part = blockIdx.y;
  const std::int64_t begin = part * chunk, end = min(parts.n, begin + chunk);
  for (std::int64_t group = first_element(); group < count; group += element_step()) {
    const State state = reduced<Kind>(x + offset_of(groups, group), group, begin, end, 1, elements, parts);
    if (chunks == 1)
      Kind::template finish<T>(state, parts, group);
    else
      *at_chunk<State>(partial, part, count, group) = state;
  }
}

template <class Kind, class T>
__global__ void join_chunks(std::int64_t count, std::int64_t chunks, double* partial, Parts parts) {
  using State = typename Kind::State;
  GPU_SHARED(room, TeamRoom);
  const Team<false> team{room};
  for (std::int64_t group = team.first_row(); group < count; group += team.row_step()) {
    State own = Kind::none();
    for (std::int64_t part = team.place(); part < chunks; part += team.size)
      own = Kind::join(own, *at_chunk<State>(partial, part, count, group));
    const State all = team.joined(own, Kind::none(), [](const State& a, const State& b) { return Kind::join(a, b); });
    if (team.place() == 0) Kind::template finish<T>(all, parts, group);
  }
}

template <class Kind, class T> Failure start(Queue queue, const ReduceJob& job) {
  static_assert(sizeof(typename Kind::State) <= 3 * sizeof(double));
  const std::int64_t count = job.groups.count(), n = job.elements.count();
  const Parts parts{job.kind, job.y, job.places, job.wide, job.given, job.factor, job.small, job.p, n};
  const T* const x = static_cast<const T*>(job.x);
  if (job.by_group) {
    dim3 grid = elements_grid(count);
    grid.y = static_cast<unsigned>(job.chunks);
    GPU_LAUNCH((reduce_by_thread<Kind, T>), grid, elements_block, 0, queue.stream, x, count, job.groups, job.elements,
               job.chunk, job.chunks, job.partial, parts);
  } else {
    const Failure failure = visit_team(job.chunk, [&]<bool is_block>() -> Failure {
      GPU_LAUNCH((reduce_by_team<Kind, is_block, T>), team_grid(count * job.chunks, is_block), team_block, 0,
                 queue.stream, x, count, job.groups, job.elements, job.chunk, job.chunks, job.partial, parts);
      return nullptr;
    });
    if (failure != nullptr) return failure;
  }
  if (job.chunks > 1)
    GPU_LAUNCH((join_chunks<Kind, T>), team_grid(count, false), team_block, 0, queue.stream, count, job.chunks,
               job.partial, parts);
  return nullptr;
}

template <class Kind> Failure start_floating(Queue queue, const ReduceJob& job) {
  return visit_floating_type(job.type, [&]<class T>() { return start<Kind, T>(queue, job); });
}
} // namespace
} // namespace eg::cuda
