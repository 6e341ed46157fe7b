// Sums, means and sums of squares on a device.

#include "core/ops/reduce/reduce_kernels.h"
#include "core/ops/reduce/squares.h"

namespace eg::cuda {
namespace {

struct Sum : Adding {
  template <class T> __device__ static void take(State& s, T x, std::int64_t, const Parts&, std::int64_t) { s += x; }
  template <class T> __device__ static void finish(State s, const Parts& parts, std::int64_t group) {
    write<T>(parts, group, parts.factor * s);
  }
};

struct Mean {
  struct State {
    double plain, small;
  };
  __device__ static State none() { return {0, 0}; }
  __device__ static State join(State a, State b) { return {a.plain + b.plain, a.small + b.small}; }
  template <class T> __device__ static void take(State& s, T x, std::int64_t, const Parts& parts, std::int64_t) {
    s.plain += x;
    if constexpr (sizeof(T) == 8) s.small += x * parts.small;
  }
  template <class T> __device__ static void finish(State s, const Parts& parts, std::int64_t group) {
    double mean = parts.factor * s.plain;
    if (sizeof(T) == 8 && !std::isfinite(mean)) mean = s.small * (parts.factor / parts.small);
    write<T>(parts, group, mean);
  }
};

struct SizeSum : Adding {
  template <class T> __device__ static void take(State& s, T x, std::int64_t, const Parts&, std::int64_t) {
    s += fabs(static_cast<double>(x));
  }
  template <class T> __device__ static void finish(State s, const Parts& parts, std::int64_t group) {
    write<T>(parts, group, s);
  }
};

struct Squares {
  using State = SquareSum;
  __device__ static State none() { return {}; }
  __device__ static State join(const State& a, const State& b) { return State::join(a, b); }
};

struct Variance : Squares {
  template <class T> __device__ static void take(State& s, T x, std::int64_t, const Parts& parts, std::int64_t group) {
    s.take(static_cast<double>(x) - parts.given[group]);
  }
  template <class T> __device__ static void finish(const State& s, const Parts& parts, std::int64_t group) {
    double scale = 1, sum = 0;
    s.total(scale, sum);
    const double scaled = sum / parts.factor;
    write<T>(parts, group, parts.kind == ReduceKind::deviation ? scale * sqrt(scaled) : scale * (scale * scaled));
  }
};

struct RootSquares : Squares {
  template <class T> __device__ static void take(State& s, T x, std::int64_t, const Parts&, std::int64_t) {
    s.take(static_cast<double>(x));
  }
  template <class T> __device__ static void finish(const State& s, const Parts& parts, std::int64_t group) {
    double scale = 1, sum = 0;
    s.total(scale, sum);
    write<T>(parts, group, scale * sqrt(sum));
  }
};

} // namespace

Failure reduce_sums(Queue queue, const ReduceJob& job) {
  switch (job.kind) {
  case ReduceKind::sum:
    return start_floating<Sum>(queue, job);
  case ReduceKind::mean:
    return start_floating<Mean>(queue, job);
  case ReduceKind::size_sum:
    return start_floating<SizeSum>(queue, job);
  case ReduceKind::variance:
  case ReduceKind::deviation:
    return start_floating<Variance>(queue, job);
  case ReduceKind::root_squares:
    return start_floating<RootSquares>(queue, job);
  default:
    return "there is no such reduction";
  }
}

} // namespace eg::cuda
