#pragma once
// Shares functions on lists of tensors within this folder. Not for users.

#include "autograd/tape.h"

#include <algorithm>
#include <iterator>
#include <vector>

namespace eg::autograd {

/// The floating tensors of a list: those that have gradients.
inline std::vector<Tensor> floating(const std::vector<Tensor>& list) {
  std::vector<Tensor> found;
  std::copy_if(list.begin(), list.end(), std::back_inserter(found), flows);
  return found;
}

/// Whether a list has this very tensor.
inline bool contains(const std::vector<Tensor>& list, const Tensor& t) {
  return std::any_of(list.begin(), list.end(), [&](const Tensor& x) { return x.id() == t.id(); });
}

} // namespace eg::autograd
