// bench step: whole steps of models: training, inference, decoding.

#include "cli/bench/bench.h"
#include "cli/bench/step_cases.h"

#include "core/allocator.h"
#include "core/reduction.h"
#include "core/work_meter.h"

#include <fmt/format.h>

namespace eg::cli::bench {
namespace {

void run(const StepCase& c, const Options& options, Output& output) {
  const std::int64_t batch = options.batch > 0 ? options.batch : c.batch;
  const std::unique_ptr<Workload> work = c.make({batch, {options.seed, 0}, options.dtype});
  const double parts = work->parts();
  double flops = 0;
  {
    const WorkMeter meter;
    work->run();
    flops = meter.total().flops;
  }
  Timing timing = measure([&] { work->run(); }, options.seconds, 2, 5);
  timing.median_ms /= parts;
  timing.best_ms /= parts;
  timing.cpu_ms /= parts;
  output.write({.bench = "step",
                .engine = options.exact ? "equigrad exact" : "equigrad",
                .name = std::string(c.name),
                .batch = batch,
                .timing = timing,
                .items = static_cast<double>(batch),
                .work_flops = flops / parts,
                .extra = fmt::format(R"(, "dtype": "{}")", name_of(options.dtype))});
}

} // namespace

void step(const Options& options, Output& output) {
  const ReductionScope reduction(options.exact ? Reduction::exact : Reduction::fast);
  std::vector<StepCase> cases = vit_cases();
  for (const StepCase& c : text_cases()) cases.push_back(c);
  bool found = false;
  for (const StepCase& c : cases)
    if (options.matches(c.name)) {
      found = true;
      run(c, options, output);
      allocator::release_cache();
    }
  if (!found) throw no_such_case("step", options.name, cases);
}

} // namespace eg::cli::bench
