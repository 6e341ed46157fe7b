#pragma once
// Resolves --precision, --dtype bf16 and --weights to what this processor supports.

#include "core/base/device.h"
#include "core/gemm/matmul_precision.h"
#include "nn/narrow_weight.h"

#include <CLI/CLI.hpp>

#include <string>
#include <string_view>

namespace eg::cli {

/// Declares --precision f32|bf16 for a verb whose tensors are f32 or f64; f32|bf16|int8 where `whole_numbers`.
void add_precision(CLI::App& app, std::string& precision, bool whole_numbers = false);

/// The precision actually used: int8; bf16 on a device, or where the processor supports it and is faster; otherwise
/// f32, with a warning on stderr. Throws UsageError for bf16 and int8 together with `dtype` f64, and for int8 on a
/// device.
MatmulPrecision effective_precision(std::string_view precision, std::string_view dtype, Device device = {});

/// Declares --weights f32|bf16|int8; its description begins with `where`.
void add_weights(CLI::App& app, std::string& weights, const std::string& where = "");

/// How weights are to lie in memory. Throws UsageError for bf16 and int8 together with `dtype` f64.
nn::WeightStorage requested_weight_storage(std::string_view weights, std::string_view dtype);

} // namespace eg::cli
