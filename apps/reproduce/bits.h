#pragma once
// Compares models bit for bit.

#include "nn/module.h"

namespace eg::reproduce {

/// How many numbers of two models of one config differ in their bits.
double differing_bits(const nn::StateDict& a, const nn::StateDict& b);

} // namespace eg::reproduce
