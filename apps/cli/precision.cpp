#include "apps/cli/precision.h"

#include "apps/cli/shell/arguments.h"
#include "apps/cli/shell/verb.h"

#include "core/gemm/gemm_bf16.h"

#include <cstdio>
#include <fmt/format.h>

namespace eg::cli {

void add_precision(CLI::App& app, std::string& precision, bool whole_numbers) {
  const std::string bf16 =
      "bf16: matrix products round their operands to bf16 and add in f32, where the processor is faster at that";
  if (whole_numbers)
    app.add_option("--precision", precision,
                   "f32; " + bf16 +
                       "; int8, with --weights int8: prompts are rounded to 8 bits as well, a scale for each token, "
                       "and whole numbers are added (default f32)")
        ->check(one_of({"f32", "bf16", "int8"}))
        ->type_name("TYPE");
  else
    app.add_option("--precision", precision, "f32, or " + bf16 + " (default f32)")
        ->check(one_of({"f32", "bf16"}))
        ->type_name("TYPE");
}

MatmulPrecision effective_precision(std::string_view precision, std::string_view dtype, Device device) {
  const MatmulPrecision asked = matmul_precision_named(precision);
  if (asked == MatmulPrecision::full) return asked;
  if (dtype == "f64")
    throw UsageError(fmt::format("--precision {} has no effect on f64; it is for --dtype f32", precision));
  if (asked == MatmulPrecision::int8) {
    if (!device.is_cpu())
      throw UsageError(fmt::format("--precision int8 is for the CPU; the model computes on {}", device.str()));
    return asked;
  }
  const std::string refusal = device.is_cpu() ? gemm::bf16_refusal() : "";
  if (refusal.empty()) return asked;
  std::fputs(fmt::format("equigrad: bf16: {}\n", refusal).c_str(), stderr);
  return MatmulPrecision::full;
}

void add_weights(CLI::App& app, std::string& weights, const std::string& where) {
  app.add_option("--weights", weights,
                 where + "how weights lie in memory: f32, bf16 (half the bytes) or int8 (a quarter, a scale for each "
                         "row); sums are in f32; decoding waits for memory, so fewer bytes are faster (default f32)")
      ->check(one_of({"f32", "bf16", "int8"}))
      ->type_name("TYPE");
}

nn::WeightStorage requested_weight_storage(std::string_view weights, std::string_view dtype) {
  const nn::WeightStorage asked = nn::weight_storage_named(weights);
  if (asked != nn::WeightStorage::full && dtype == "f64")
    throw UsageError(fmt::format("--weights {} makes no sense with --dtype f64: it is for models in f32", weights));
  return asked;
}

} // namespace eg::cli
