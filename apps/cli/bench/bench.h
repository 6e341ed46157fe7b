#pragma once
// Declares the benchmarks of `equigrad bench` and the options that they share.

#include "apps/cli/bench/measure.h"

#include "core/base/device.h"
#include "core/base/error.h"
#include "core/dtype.h"
#include "core/gemm/matmul_precision.h"
#include "nn/narrow_weight.h"

#include <fmt/format.h>
#include <string>
#include <string_view>

namespace eg::cli::bench {

/// Options of all benchmarks; "step:" and "ops:" mark those that one benchmark reads.
struct Options {
  std::string name;       ///< one case, or empty for all
  std::int64_t batch = 0; ///< 0: the case's own
  DType dtype = DType::f32;
  MatmulPrecision products = MatmulPrecision::full;    ///< bf16 where it was requested and is used
  bool refused_bf16 = false;                           ///< bf16 was requested, and is not used
  double seconds = 5.0;                                ///< per case, after warm-up
  std::uint64_t seed = 0;                              ///< of random weights and inputs
  bool checkpoint = false;                             ///< step: activation checkpointing
  nn::WeightStorage weights = nn::WeightStorage::full; ///< step: of models that decode
  Device device = {};                                  ///< step: where the models are
  bool exact = false; ///< exact reductions; ops: only the rows that have an exact kernel, beside their ordinary one

  bool matches(std::string_view candidate) const { return name.empty() || name == candidate; }
  /// Name of the type that was computed with: bf16 only where it was used.
  std::string_view dtype_name() const { return products == MatmulPrecision::bf16 ? "bf16" : eg::name_of(dtype); }
  /// "equigrad", with a note where bf16 was requested and not used.
  std::string engine() const { return refused_bf16 ? "equigrad (f32 in place of bf16)" : "equigrad"; }
};

/// The error for a case that `bench` does not have; its message lists the names of `cases`.
template <class Cases> ValueError no_such_case(std::string_view bench, std::string_view name, const Cases& cases) {
  std::string known;
  for (const auto& c : cases) known += fmt::format("{}{}", known.empty() ? "" : ", ", c.name);
  return ValueError(fmt::format("bench {}: there is no case '{}'; there are {}", bench, name, known));
}

// Each writes a line for every case that options.matches, and throws ValueError when there is none.

/// Whole steps of models: training, inference, decoding.
void step(const Options& options, Output& output);
/// Matrix products by our kernel, beside OpenBLAS with its own threads.
void gemm(const Options& options, Output& output);
/// How a training step's cost grows with tokens, width, depth, batch and threads.
void scaling(const Options& options, Output& output);
/// Every op of the registry, at sizes that models use.
void ops(const Options& options, Output& output);

} // namespace eg::cli::bench
