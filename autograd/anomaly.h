#pragma once
// Finds the operation that produced the first NaN.

#include "core/call.h"

namespace eg {

struct AnomalyOptions {
  bool infinities = true; ///< infinite values count too; false: NaN only, for models that compute with -Inf masks
};

/// While it lives, every operation of this thread is looked at when it is done, in the forward pass, in the rules that
/// a tape runs and in what a checkpoint recomputes. The first one whose output holds a NaN (or an infinity) throws
/// NumericError, which names the operation, its place in the model, the output's counts and the range of every input:
/// smallest and largest finite value, and how many are not finite. What a user's rule computes in loops of its own, and
/// sums of gradients, are looked at when the rule is done. Views are passed over: they compute nothing.
/// One more read of every output: slower, never another result.
///
///     const DetectAnomaly watch;
///     Tape tape;
///     ...
class DetectAnomaly : private Recorder {
public:
  explicit DetectAnomaly(AnomalyOptions options = {});
  ~DetectAnomaly() override;
  DetectAnomaly(const DetectAnomaly&) = delete;
  DetectAnomaly& operator=(const DetectAnomaly&) = delete;

private:
  void record(const Event& event) override;
  void rule_done(const RuleEvent& event) override;
  bool observes() const override { return true; }
  AnomalyOptions options_;
};

} // namespace eg
