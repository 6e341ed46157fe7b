// The largest and smallest of groups on a device, and questions about their elements.

#include "core/ops/reduce/reduce_kernels.h"

namespace eg::cuda {
namespace {

template <bool largest> struct Extreme {
  struct State {
    double value;
    std::int64_t place;
  };
  /// a comes before b: it is further out, or the first NaN.
  __device__ static bool wins(double a, double b) { return (largest ? a > b : a < b) || (a != a && b == b); }
  __device__ static State none() { return {largest ? -INFINITY : INFINITY, -1}; }
  __device__ static State join(State a, State b) {
    if (a.place < 0 || b.place < 0) return a.place < 0 ? b : a;
    if (wins(a.value, b.value)) return a;
    if (wins(b.value, a.value)) return b;
    return a.place < b.place ? a : b;
  }
  template <class T> __device__ static void take(State& s, T x, std::int64_t place, const Parts&, std::int64_t) {
    if (s.place < 0 || wins(static_cast<double>(x), s.value)) s = {static_cast<double>(x), place};
  }
  template <class T> __device__ static void finish(State s, const Parts& parts, std::int64_t group) {
    write<T>(parts, group, s.value);
    if (parts.places != nullptr) parts.places[group] = s.place;
  }
};

struct LargestSize {
  using State = double;
  __device__ static State none() { return 0; }
  __device__ static State join(State a, State b) { return b > a || b != b ? b : a; }
  template <class T> __device__ static void take(State& s, T x, std::int64_t, const Parts&, std::int64_t) {
    s = join(s, fabs(static_cast<double>(x)));
  }
  template <class T> __device__ static void finish(State s, const Parts& parts, std::int64_t group) {
    write<T>(parts, group, s);
  }
};

struct Nonzeros {
  using State = std::int64_t;
  __device__ static State none() { return 0; }
  __device__ static State join(State a, State b) { return a + b; }
  template <class T> __device__ static void take(State& s, T x, std::int64_t, const Parts&, std::int64_t) {
    s += x != T{} ? 1 : 0;
  }
  template <class T> __device__ static void finish(State s, const Parts& parts, std::int64_t group) {
    if (parts.kind == ReduceKind::nonzeros)
      static_cast<std::int64_t*>(parts.y)[group] = s;
    else
      static_cast<bool*>(parts.y)[group] = parts.kind == ReduceKind::any ? s > 0 : s == parts.n;
  }
};

} // namespace

Failure reduce_extremes(Queue queue, const ReduceJob& job) {
  switch (job.kind) {
  case ReduceKind::largest:
    return start_floating<Extreme<true>>(queue, job);
  case ReduceKind::smallest:
    return start_floating<Extreme<false>>(queue, job);
  case ReduceKind::largest_size:
    return start_floating<LargestSize>(queue, job);
  case ReduceKind::any:
  case ReduceKind::all:
  case ReduceKind::nonzeros:
    return visit_dtype(job.type, [&]<class T>() { return start<Nonzeros, T>(queue, job); });
  default:
    return "there is no such reduction";
  }
}

} // namespace eg::cuda
