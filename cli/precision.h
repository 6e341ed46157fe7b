#pragma once
// What --precision and --dtype bf16 ask for, and what this processor gives.

#include "core/products.h"

#include <CLI/CLI.hpp>

#include <string>
#include <string_view>

namespace eg::cli {

/// Declares --precision f32|bf16 for a verb whose tensors are f32 or f64.
void add_precision(CLI::App& app, std::string& precision);

/// What who asks for `precision` gets: bf16 where the processor has it and it pays; else f32, and a line on stderr says
/// why. Throws UsageError for bf16 together with `dtype` f64.
Products granted(std::string_view precision, std::string_view dtype);

} // namespace eg::cli
