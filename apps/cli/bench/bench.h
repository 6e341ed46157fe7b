#pragma once
// Shares options and helpers of the benchmarks.

#include "apps/cli/bench/measure.h"

#include "core/base/error.h"
#include "core/dtype.h"
#include "core/gemm/matmul_precision.h"
#include "nn/narrow_weight.h"

#include <fmt/format.h>
#include <string>
#include <string_view>

namespace eg::cli::bench {

struct Options {
  std::string name;       ///< one case, or empty for all
  std::int64_t batch = 0; ///< 0: the case's own
  DType dtype = DType::f32;
  MatmulPrecision products = MatmulPrecision::full; ///< bf16 where it was asked for and is used
  bool refused_bf16 = false;                        ///< asked for, and not used
  double seconds = 5.0;                             ///< per case, after warm-up
  std::uint64_t seed = 0;
  bool checkpoint = false;                             ///< step: activation checkpointing
  nn::WeightStorage weights = nn::WeightStorage::full; ///< step: of models that decode
  bool exact = false; ///< exact reductions; ops: only the rows that have an exact kernel, beside their ordinary one

  bool matches(std::string_view candidate) const { return name.empty() || name == candidate; }
  /// What was computed with: bf16 only where it was used.
  std::string_view dtype_name() const { return products == MatmulPrecision::bf16 ? "bf16" : eg::name_of(dtype); }
  /// "equigrad", with a note where bf16 was asked for and not used.
  std::string engine() const { return refused_bf16 ? "equigrad (f32 in place of bf16)" : "equigrad"; }
};

/// ValueError that lists the cases there are.
template <class Cases> ValueError no_such_case(std::string_view bench, std::string_view name, const Cases& cases) {
  std::string known;
  for (const auto& c : cases) known += fmt::format("{}{}", known.empty() ? "" : ", ", c.name);
  return ValueError(fmt::format("bench {}: there is no case '{}'; there are {}", bench, name, known));
}

/// Whole training steps of models.
void step(const Options& options, Output& output);
/// Matrix products through our tiles beside OpenBLAS's own threads.
void gemm(const Options& options, Output& output);
/// How a training step's cost grows with tokens, width, depth, batch and threads.
void scaling(const Options& options, Output& output);
/// Every row of the registry at sizes that models use.
void ops(const Options& options, Output& output);

} // namespace eg::cli::bench
