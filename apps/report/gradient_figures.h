#pragma once
// Draws gradients, attention and error against depth of small permuted transformers, computed while the page is made.

#include "apps/report/page.h"

#include <cstdint>
#include <functional>
#include <string>

namespace eg::report {

/// Told before each piece of work: which part of all it is (0 to 1) and what it does. May throw to end the work.
using ProgressCallback = std::function<void(double part, const std::string& what)>;

/// dL/dW of three weights, what the theorem makes of it, dL/dW of the permuted model, and how far they are apart.
void add_gradient_maps(Page& page, std::uint64_t seed);

/// S of a block, head by head in mean, for Z and for P_R Z P_C, and mapped back.
void add_attention_maps(Page& page, std::uint64_t seed);

/// Error of outputs and gradients for stacks of 1 to 12 blocks in f64 and f32, and how many elements have other bits
/// with ordinary and with exact reductions.
void add_depth(Page& page, std::uint64_t seed, const ProgressCallback& on_progress);

} // namespace eg::report
