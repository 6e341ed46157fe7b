#include "cli/verb.h"
#include "cli/verify_job.h"

#include "permute/report/run_report.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <memory>

namespace eg::cli {

Job declare_verify(CLI::App& app, const CommonOptions& common) {
  struct Request {
    permute::VerifyOptions options;
    std::string dtype = "both";
    std::string report;
  };
  auto request = std::make_shared<Request>();
  permute::VerifyOptions& o = request->options;
  app.add_option("--filter", o.filter, "Glob over ids (thm*, eq7?); see docs/theory.md")->capture_default_str();
  app.add_option("--dtype", request->dtype, "f64, f32 or both")
      ->check(CLI::IsMember({"f64", "f32", "both"}))
      ->capture_default_str();
  app.add_option("--tokens", o.tokens, "Rows of Z")->capture_default_str();
  app.add_option("--dim", o.dim, "Columns of Z")->capture_default_str();
  app.add_option("--heads", o.heads, "Attention heads")->capture_default_str();
  app.add_option("--hidden", o.hidden, "Width of the MLP")->capture_default_str();
  app.add_option("--layers", o.layers, "Encoder blocks of the models")->capture_default_str();
  app.add_option("--batch", o.batch, "Samples, each with a P_R of its own")->capture_default_str();
  app.add_option("--steps", o.steps, "Training steps of the twins")->capture_default_str();
  app.add_option("--report", request->report, "Also write the results as one HTML file");
  return [request, &common, &app]() -> int {
    if (app.count("--seed") > 0) request->options.seed = common.seed;
    std::vector<DType> dtypes;
    if (request->dtype != "f32") dtypes.push_back(DType::f64);
    if (request->dtype != "f64") dtypes.push_back(DType::f32);
    const std::vector<permute::VerifyResult> results = verify_all(request->options, dtypes, !common.quiet);
    if (common.talks()) print_table(results);
    write_json(common, nlohmann::json::parse(permute::to_json(results)));
    if (!request->report.empty()) permute::report::identity_report(results).save(request->report);
    return failures(results) == 0 ? done : check_failed;
  };
}

} // namespace eg::cli
