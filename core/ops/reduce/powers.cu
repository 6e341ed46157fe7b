// Products, norms of any power and log sum exp on a device.

#include "core/ops/reduce/reduce_kernels.h"

#include "core/ops/reduce/product.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/ops/reduce/powers.cu"
#include "core/simd/simd-inl.h"

namespace eg::cuda {
namespace {

__device__ inline double exp_of(double x) {
  const hwy::HWY_NAMESPACE::ScalableTag<double> d;
  return HWY_NAMESPACE::Exp(d, x);
}

struct Factors {
  using State = reduce::Product;
  __device__ static State none() { return {}; }
  __device__ static State join(State a, const State& b) {
    a.times(b);
    return a;
  }
  template <class T> __device__ static void take(State& s, T x, std::int64_t, const Parts&, std::int64_t) {
    s.times(static_cast<double>(x));
  }
  template <class T> __device__ static void finish(State s, const Parts& parts, std::int64_t group) {
    write<T>(parts, group, s.value());
  }
};

struct PowerNorm : Adding {
  template <class T> __device__ static void take(State& s, T x, std::int64_t, const Parts& parts, std::int64_t group) {
    s += pow(fabs(static_cast<double>(x)) / parts.given[group], parts.p);
  }
  template <class T> __device__ static void finish(State s, const Parts& parts, std::int64_t group) {
    const double largest = parts.given[group];
    const bool plain = largest == 0 || !std::isfinite(largest);
    write<T>(parts, group, plain ? largest : largest * pow(s, 1.0 / parts.p));
  }
};

struct LogSumExp : Adding {
  template <class T> __device__ static void take(State& s, T x, std::int64_t, const Parts& parts, std::int64_t group) {
    s += exp_of(static_cast<double>(x) - parts.given[group]);
  }
  template <class T> __device__ static void finish(State s, const Parts& parts, std::int64_t group) {
    const double largest = parts.given[group];
    write<T>(parts, group, std::isfinite(largest) ? largest + log(s) : largest);
  }
};

} // namespace

Failure reduce_powers(Queue queue, const ReduceJob& job) {
  switch (job.kind) {
  case ReduceKind::product:
    return start_floating<Factors>(queue, job);
  case ReduceKind::power_norm:
    return start_floating<PowerNorm>(queue, job);
  case ReduceKind::log_sum_exp:
    return start_floating<LogSumExp>(queue, job);
  default:
    return "there is no such reduction";
  }
}

} // namespace eg::cuda
