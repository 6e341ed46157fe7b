#pragma once
// Puts a module into training or evaluation mode for one scope.

#include "nn/module.h"

namespace eg::nn {

/// A module in train(training) while this lives, afterwards as it was before, whatever was thrown.
class ModeScope {
public:
  ModeScope(Module& module, bool training) : module_(module), was_(module.training()) { module_.train(training); }
  ~ModeScope() { module_.train(was_); }
  ModeScope(const ModeScope&) = delete;
  ModeScope& operator=(const ModeScope&) = delete;

private:
  Module& module_;
  bool was_;
};

} // namespace eg::nn
