#pragma once
// Lists the samples and refused calls of conv2d and its two adjoints.

#include "core/op.h"

#include <vector>

namespace eg::conv {

std::vector<Sample> forward_samples(DType dtype);
std::vector<Sample> input_samples(DType dtype);
std::vector<Sample> weight_samples(DType dtype);
std::vector<Refusal> forward_refuses();
std::vector<Refusal> input_refuses();
std::vector<Refusal> weight_refuses();

} // namespace eg::conv
