// bench ops: every row of the registry at sizes that models use (op_sizes.h).

#include "apps/cli/bench/bench.h"
#include "apps/cli/bench/op_sizes.h"

#include "core/call.h"
#include "core/measure/work_meter.h"
#include "core/ops.h"
#include "core/reduction.h"
#include "core/registry.h"
#include "core/simd/roofline.h"

namespace eg::cli::bench {
namespace {

/// What the row is called with, as JSON: its speed means nothing without.
std::string shapes_json(const Sample& sample) {
  std::vector<std::string> shapes;
  for (const Tensor& x : sample.in)
    shapes.push_back(x.defined() ? fmt::format("[{}]", fmt::join(x.shape().dims(), ", ")) : "null");
  return fmt::format("[{}]", fmt::join(shapes, ", "));
}

/// The exact kernel in turn with the ordinary one.
void run_exact(const OpDef& op, const Options& options, Output& output) {
  Draw draw{options.dtype, {options.seed, 5}};
  const Sample sample = sample_of_model_size(op, draw);
  const auto ordinary = [&] { call(op, sample.in, sample.attrs); };
  const auto exact = [&] {
    const ReductionScope scope(Reduction::exact);
    call(op, sample.in, sample.attrs);
  };
  const PairedTiming timing = measure_in_turn(exact, ordinary, options.seconds, 0);
  output.write({.bench = "ops",
                .engine = "equigrad exact",
                .name = std::string(op.name),
                .timing = timing.a,
                .items = 1,
                .extra = fmt::format(R"(, "dtype": "{}", "shapes": {}, "ordinary_ms": {:.6g}, "ratio": {:.4g})",
                                     name_of(options.dtype), shapes_json(sample), timing.b.median_ms,
                                     timing.a.median_ms / timing.b.median_ms)});
}

void run(const OpDef& op, const Options& options, const Roofline& roofline, Output& output) {
  Draw draw{options.dtype, {options.seed, 5}};
  const Sample sample = sample_of_model_size(op, draw);
  Work work;
  {
    const WorkMeter meter;
    call(op, sample.in, sample.attrs);
    work = meter.total();
  }
  const Timing timing = measure([&] { call(op, sample.in, sample.attrs); }, options.seconds);
  const double gb_per_s = work.bytes / timing.median_ms / 1e6;
  const double computing = roofline.least_ms({work.flops, 0}, options.dtype);
  const double least = roofline.least_ms(work, options.dtype);
  output.write({.bench = "ops",
                .name = std::string(op.name),
                .timing = timing,
                .items = 1,
                .work_flops = work.flops,
                .extra = fmt::format(R"(, "dtype": "{}", "shapes": {}, "gb_per_s": {:.6g}, "bound": "{}", )"
                                     R"("of_roofline": {:.4f})",
                                     name_of(options.dtype), shapes_json(sample), gb_per_s,
                                     least == computing ? "compute" : "memory", least / timing.median_ms)});
}

} // namespace

void ops(const Options& options, Output& output) {
  struct Name {
    std::string_view name;
  };
  std::vector<Name> names;
  bool found = false;
  const Roofline roofline = options.exact ? Roofline() : measure_roofline();
  for (const OpDef* op : registry()) {
    if (options.exact && op->exact == nullptr) continue;
    names.push_back({op->name});
    if (!options.matches(op->name)) continue;
    found = true;
    options.exact ? run_exact(*op, options, output) : run(*op, options, roofline, output);
  }
  if (!found) throw no_such_case("ops", options.name, names);
}

} // namespace eg::cli::bench
