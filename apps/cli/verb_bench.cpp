#include "apps/cli/bench/bench.h"
#include "apps/cli/bench/counts.h"
#include "apps/cli/device_flag.h"
#include "apps/cli/precision.h"
#include "apps/cli/shell/arguments.h"
#include "apps/cli/shell/verb.h"

#include <memory>

namespace eg::cli {

namespace {

struct Request {
  bench::Options options;
  std::string what;
  std::string dtype = "f32";
  std::string weights = "f32", device;
  bench::CountOptions counts;
  bool counted = false; // run by valgrind
};

/// Instructions instead of times.
int counted(Request& r, const CommonOptions& common) {
  if (r.what != "ops" || r.options.exact || r.dtype != "f32")
    throw UsageError("--store and --against are for bench ops in f32, without --exact");
  if (!r.counts.store.empty() && !r.counts.against.empty())
    throw UsageError("--store writes counts and --against compares with them; give one of them");
  r.counts.name = r.options.name;
  if (!r.counted) return bench::counts(r.counts, common.talks());
  bench::counted_calls(r.counts.name);
  return done;
}

} // namespace

Job declare_bench(CLI::App& app, const CommonOptions& common) {
  auto request = std::make_shared<Request>();
  app.add_option("what", request->what,
                 "step: training steps of models; gemm: matrix products; ops: every operation; scaling: the cost of a "
                 "step against tokens, width, depth, batch, threads")
      ->required()
      ->type_name("WHAT")
      ->check(one_of({"step", "gemm", "ops", "scaling"}));
  app.add_option("--case", request->options.name, "One case only (default: all)")->type_name("NAME");
  app.add_option("--batch", request->options.batch, "bench step: images a step (default: the case's own)")
      ->check(whole_number(1, std::int64_t{1} << 20))
      ->type_name("N");
  app.add_option("--dtype", request->dtype,
                 "f32, f64, or bf16 (step, gemm): f32 whose matrix products round their operands to bf16")
      ->check(one_of({"f32", "f64", "bf16"}))
      ->type_name("TYPE")
      ->capture_default_str();
  app.add_option("--seconds", request->options.seconds, "Time for each case, after warm-up")
      ->check(number(0.01, 3600.0))
      ->type_name("X")
      ->capture_default_str();
  app.add_flag("--checkpoint", request->options.checkpoint,
               "bench step: blocks keep their input alone and compute the rest again in the backward pass");
  app.add_flag("--exact", request->options.exact,
               "bench step, ops: with exact reductions; ops: the rows that have an exact kernel, and how much slower");
  common.files
      ->result(app.add_option("--store", request->counts.store,
                              "bench ops: counts the instructions of some hot calls, and writes them here"))
      ->type_name("FILE");
  common.files
      ->input(app.add_option("--against", request->counts.against,
                             "bench ops: counts them, compares with a stored file and names slower calls; the "
                             "exit status is 1 where there are any"))
      ->type_name("FILE");
  app.add_option("--tolerance", request->counts.tolerance, "bench ops --against: percent more that are not slower")
      ->check(number(0.0, 1000.0))
      ->type_name("X")
      ->capture_default_str();
  app.add_option("--counter", request->counts.counter,
                 "bench ops --store, --against: processor (perf_event_open), or valgrind, whose counts are the same on "
                 "all x86 machines with AVX2 (default: the file's; processor where the system allows it)")
      ->check(one_of({"processor", "valgrind"}))
      ->type_name("WHO");
  app.add_flag("--counted", request->counted)->group("");
  add_weights(app, request->weights, "bench step --case gpt2-decode: ");
  add_device(app, request->device, "bench step: ");
  return [request, &common] {
    if (request->what == "gemm" && request->options.exact)
      throw UsageError(
          "--exact has no effect on bench gemm, which compares our product with OpenBLAS's; bench ops --case matmul "
          "times the exact product");
    if (request->what == "scaling" && request->options.exact)
      throw UsageError("--exact has no effect on bench scaling; bench step and bench ops time exact reductions");
    if (request->what != "step" && request->options.checkpoint)
      throw UsageError("--checkpoint has an effect on bench step alone");
    if (request->what != "step" && request->options.batch != 0)
      throw UsageError(fmt::format("--batch has no effect on bench {}, whose cases have sizes of their own; only bench "
                                   "step has batches",
                                   request->what));
    if (request->what == "step") request->options.device = requested_device(request->device);
    if (request->dtype == "bf16") {
      if (request->what != "step" && request->what != "gemm")
        throw UsageError("--dtype bf16 is for bench step and bench gemm");
      if (request->options.exact) throw UsageError("--dtype bf16 has no effect on exact reductions");
      request->options.products = effective_precision("bf16", "f32", request->options.device);
      request->options.refused_bf16 = request->options.products == MatmulPrecision::full;
    } else {
      request->options.dtype = dtype_named(request->dtype);
    }
    request->options.weights = requested_weight_storage(request->weights, request->dtype);
    if (request->what != "step" && request->options.weights != nn::WeightStorage::full)
      throw UsageError("--weights has an effect on bench step --case gpt2-decode alone");
    if (request->what != "step" && !request->device.empty())
      throw UsageError("--device has an effect on bench step alone");
    if (request->what != "step" && !requested_device("").is_cpu())
      throw UsageError(
          fmt::format("EQUIGRAD_DEVICE has no effect on bench {}, which computes on the CPU; unset it", request->what));
    request->options.seed = common.seed;
    if (request->counted || request->counts.asked()) return counted(*request, common);
    bench::Output output(common.json, common.talks());
    if (request->what == "step") bench::step(request->options, output);
    if (request->what == "gemm") bench::gemm(request->options, output);
    if (request->what == "scaling") bench::scaling(request->options, output);
    if (request->what == "ops") bench::ops(request->options, output);
    output.finish();
    return int{done};
  };
}

} // namespace eg::cli
