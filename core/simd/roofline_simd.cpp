#include "core/simd/roofline.h"
#include "core/threads/parallel.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <vector>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/simd/roofline_simd.cpp"
#include "core/simd/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace eg::HWY_NAMESPACE {
namespace {

/// Chains of fused multiply-adds, more than the processor needs to hide their latency; returns the flops done.
template <class T> double Chains(std::int64_t rounds, T* sink) {
  constexpr int chains = 12; // more would not stay in AVX2's registers
  const hn::ScalableTag<T> d;
  hn::Vec<decltype(d)> sums[chains];
  for (int i = 0; i < chains; ++i) sums[i] = hn::Set(d, static_cast<T>(i));
  const auto factor = hn::Set(d, static_cast<T>(0.999)), term = hn::Set(d, static_cast<T>(0.001));
  for (std::int64_t r = 0; r < rounds; ++r) HWY_UNROLL(16)
  for (int i = 0; i < chains; ++i) sums[i] = hn::MulAdd(sums[i], factor, term);
  for (int i = 1; i < chains; ++i) sums[0] = hn::Add(sums[0], sums[i]);
  *sink = hn::GetLane(sums[0]);
  return 2.0 * chains * static_cast<double>(hn::Lanes(d)) * static_cast<double>(rounds);
}
double ChainsF32(std::int64_t rounds, float* sink) { return Chains(rounds, sink); }
double ChainsF64(std::int64_t rounds, double* sink) { return Chains(rounds, sink); }

} // namespace
} // namespace eg::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace eg {

HWY_EXPORT(ChainsF32);
HWY_EXPORT(ChainsF64);

namespace {

double seconds_of(FunctionRef<void()> work) {
  const auto began = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
}

/// The best of several runs of about 10 ms on every thread, 10^9 a second. work(thread) returns what it did.
double best_rate(FunctionRef<double(std::int64_t thread)> work) {
  const std::int64_t threads = parallel::threads();
  double best = 0;
  for (int run = 0; run < 6; ++run) { // the first wakes the threads
    std::vector<double> done(static_cast<std::size_t>(threads));
    const double seconds = seconds_of([&] {
      parallel::for_each(threads, 1, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) done[static_cast<std::size_t>(i)] = work(i);
      });
    });
    double sum = 0;
    for (const double amount : done) sum += amount;
    best = std::max(best, sum / seconds / 1e9);
  }
  return best;
}

} // namespace

double Roofline::least_ms(const Work& work, DType dtype) const {
  return std::max(work.flops / (dtype == DType::f64 ? gflops_f64 : gflops_f32), work.bytes / gb_per_s) / 1e6;
}

Roofline measure_roofline() {
  constexpr std::int64_t rounds = 1 << 20;
  std::vector<double> sinks(static_cast<std::size_t>(parallel::threads()));
  const auto sink = [&](std::int64_t i) { return &sinks[static_cast<std::size_t>(i)]; };
  Roofline line;
  line.gflops_f32 = best_rate([&](std::int64_t i) {
    float end = 0;
    const double flops = HWY_DYNAMIC_DISPATCH(ChainsF32)(rounds, &end);
    *sink(i) = end;
    return flops;
  });
  line.gflops_f64 = best_rate([&](std::int64_t i) { return HWY_DYNAMIC_DISPATCH(ChainsF64)(rounds, sink(i)); });
  const std::size_t share = (std::size_t{64} << 20) / sinks.size();
  std::vector<char> from(share * sinks.size(), 1), to(from.size());
  line.gb_per_s = best_rate([&](std::int64_t i) {
    const std::size_t at = static_cast<std::size_t>(i) * share;
    std::memcpy(to.data() + at, from.data() + at, share);
    return 2.0 * static_cast<double>(share);
  });
  return line;
}

} // namespace eg
#endif
