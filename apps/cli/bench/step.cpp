// bench step: whole steps of models: training, inference, decoding.

#include "apps/cli/bench/bench.h"
#include "apps/cli/bench/step_cases.h"
#include "apps/cli/shell/verb.h"

#include "core/device/device.h"
#include "core/gemm/blas.h"
#include "core/measure/work_meter.h"
#include "core/memory/allocator.h"
#include "core/reduction.h"
#include "core/simd/roofline.h"
#include "core/strided.h"

#include <fmt/format.h>

namespace eg::cli::bench {
namespace {

/// An estimate of the least that a step needs: the flops at the speed of large matrix products, and each byte once:
/// what is resident (a decoder's weights again for each token) and what the step adds to it, at the speed of memory.
struct Floor {
  double gflops = 0;
  Roofline roofline;

  explicit Floor(DType dtype) : roofline(measure_roofline()) {
    visit_floating(dtype, [&]<class T>() {
      constexpr std::int64_t n = 1536;
      const Tensor a = Tensor::ones({n, n}, dtype), b = Tensor::ones({n, n}, dtype);
      Tensor c = Tensor::empty({n, n}, dtype);
      const auto product = [&] {
        blas::gemm_tiled<T>(n, n, n, T(1), {a.data<T>(), n, false}, {b.data<T>(), n, false}, T(0), c.mutable_data<T>(),
                            n);
      };
      gflops = 2.0 * n * n * n / measure(product, 0.3).best_ms / 1e6;
    });
  }
  double ms(double flops, double bytes) const { return flops / gflops / 1e6 + bytes / roofline.gb_per_s / 1e6; }
};

/// Bytes of tensors that are alive where the work is done.
std::size_t live_bytes(Device device) {
  return device.is_cpu() ? allocator::stats().live_bytes : device::memory_stats(device).live_bytes;
}

/// The most bytes of a device's allocator at once; 0 for the CPU.
double device_peak_mb(Device device) {
  return device.is_cpu() ? 0.0 : static_cast<double>(device::memory_stats(device).peak_bytes) / 1e6;
}

/// What the step needs at least, and of what speed that is, for the line; nothing on a device, whose speed is unknown.
std::string floor_fields(Workload& work, const Options& options, double flops, double ms);

/// Bytes that one run must move.
double unavoidable_bytes(Workload& work) {
  const auto resident = static_cast<double>(allocator::stats().live_bytes);
  allocator::reset_peak();
  work.run();
  const double added = static_cast<double>(allocator::stats().peak_bytes) - resident;
  return (work.trains() ? 2.0 : work.parts()) * resident + 2.0 * added;
}

void run(const StepCase& c, const Options& options, Output& output) {
  const std::int64_t batch = options.batch > 0 ? options.batch : c.batch;
  const DeviceScope device(options.device); // where weights and inputs are made
  const std::unique_ptr<Workload> work =
      c.make({batch, {options.seed, 0}, options.dtype, options.checkpoint, options.weights});
  if (options.checkpoint && !work->trains()) {
    if (options.name.empty()) return;
    throw UsageError(fmt::format("--checkpoint has no effect on {}, which does not train", c.name));
  }
  const double parts = work->parts();
  const auto whole_run = [&] {
    work->run();
    device::synchronize(options.device);
  };
  if (!options.device.is_cpu()) device::reset_peak_memory(options.device);
  Timing timing = measure(whole_run, options.seconds, 2, 5);
  timing.median_ms /= parts;
  timing.best_ms /= parts;
  timing.cpu_ms /= parts;
  const double rss_mb = peak_rss_mb(); // before the floor's own arrays
  const double device_mb = device_peak_mb(options.device);
  const double live_mb = static_cast<double>(live_bytes(options.device)) / 1e6;
  double flops = 0;
  const std::uint64_t kernels_before = device::started_kernels(options.device);
  {
    const WorkMeter meter;
    work->run();
    flops = meter.total().flops;
  }
  const std::uint64_t kernels = device::started_kernels(options.device) - kernels_before;
  output.write({.bench = "step",
                .engine = options.exact ? "equigrad exact" : options.engine(),
                .name = std::string(c.name),
                .batch = batch,
                .timing = timing,
                .items = static_cast<double>(batch),
                .work_flops = flops / parts,
                .rss_mb = rss_mb,
                .device_mb = device_mb,
                .extra = fmt::format(
                    R"(, "dtype": "{}", "device": "{}", "checkpoint": {}, "weights": "{}", "live_mb": {:.1f}{}{})",
                    options.dtype_name(), options.device.str(), options.checkpoint, name_of(options.weights), live_mb,
                    options.device.is_cpu() ? ""
                                            : fmt::format(R"(, "device_peak_mb": {:.1f}, "kernels": {:.6g})", device_mb,
                                                          static_cast<double>(kernels) / parts),
                    floor_fields(*work, options, flops, timing.median_ms))});
}

std::string floor_fields(Workload& work, const Options& options, double flops, double ms) {
  if (!options.device.is_cpu()) return {};
  const double bytes = unavoidable_bytes(work);
  const Floor floor(options.dtype);
  const double floor_ms = floor.ms(flops, bytes) / work.parts();
  return fmt::format(R"(, "floor_ms": {:.6g}, "of_floor": {:.4f}, "peak_gflops": {:.6g}, "peak_gb_per_s": {:.6g})",
                     floor_ms, ms / floor_ms, floor.gflops, floor.roofline.gb_per_s);
}

} // namespace

void step(const Options& options, Output& output) {
  const ReductionScope reduction(options.exact ? Reduction::exact : Reduction::fast);
  const MatmulPrecisionScope products(options.products);
  std::vector<StepCase> cases = vit_cases();
  for (const StepCase& c : text_cases()) cases.push_back(c);
  bool found = false;
  for (const StepCase& c : cases)
    if (options.matches(c.name)) {
      if (options.weights != nn::WeightStorage::full && !c.decodes)
        throw ValueError(
            fmt::format("bench step: --weights {} is for a model that decodes (--case gpt2-decode), not for {}",
                        name_of(options.weights), c.name));
      found = true;
      run(c, options, output);
      allocator::release_cache();
    }
  if (!found) throw no_such_case("step", options.name, cases);
}

} // namespace eg::cli::bench
