#pragma once
// Models in evaluation for a while.

#include "nn/module.h"

namespace eg::nn {

/// A module in eval() while this lives, in train() afterwards, whatever was thrown.
class Evaluating {
public:
  explicit Evaluating(Module& module) : module_(module) { module_.eval(); }
  ~Evaluating() { module_.train(); }
  Evaluating(const Evaluating&) = delete;
  Evaluating& operator=(const Evaluating&) = delete;

private:
  Module& module_;
};

} // namespace eg::nn
