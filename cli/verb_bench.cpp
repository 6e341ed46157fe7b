#include "cli/bench/bench.h"
#include "cli/verb.h"

#include <memory>

namespace eg::cli {

Job declare_bench(CLI::App& app, const CommonOptions& common) {
  struct Request {
    bench::Options options;
    std::string what;
    std::string dtype = "f32";
  };
  auto request = std::make_shared<Request>();
  app.add_option("what", request->what, "step: training steps of models; gemm: matrix products; ops: every operation")
      ->required()
      ->check(CLI::IsMember({"step", "gemm", "ops"}));
  app.add_option("--case", request->options.name, "One case only (default: all)");
  app.add_option("--batch", request->options.batch, "Batch size of a step (default: the case's own)")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 20));
  app.add_option("--dtype", request->dtype, "f32 or f64")->check(CLI::IsMember({"f32", "f64"}))->capture_default_str();
  app.add_option("--seconds", request->options.seconds, "Time for each case, after warm-up")
      ->check(CLI::Validator(
          [](const std::string& text) {
            return text.find_first_of("nN") == std::string::npos ? std::string() : text + " is not a time";
          },
          ""))
      ->check(CLI::Range(0.01, 3600.0))
      ->capture_default_str();
  return [request, &common] {
    request->options.dtype = dtype_named(request->dtype);
    request->options.seed = common.seed;
    bench::Output output(common.json, common.talks());
    if (request->what == "step") bench::step(request->options, output);
    if (request->what == "gemm") bench::gemm(request->options, output);
    if (request->what == "ops") bench::ops(request->options, output);
    return int{done};
  };
}

} // namespace eg::cli
