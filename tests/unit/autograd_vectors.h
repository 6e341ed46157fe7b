#pragma once
// Short vectors for the tests of the tape.

#include "core/tensor.h"

#include <initializer_list>
#include <vector>

namespace eg::test {

inline Tensor vec(std::initializer_list<double> values) {
  return Tensor::from<double>(values, {static_cast<std::int64_t>(values.size())});
}

inline std::vector<double> list(const Tensor& t) { return t.to_vector<double>(); }

} // namespace eg::test
