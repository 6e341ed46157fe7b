#pragma once
// What becomes of a step that should not be taken: a loss or a gradient that is no finite number, a loss far above the
// usual one.

#include "core/tensor.h"
#include "training/options.h"

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

namespace eg::training {

/// Looks at every step before its update. A step is refused when its loss or a gradient is NaN or infinite
/// (options.on_divergence: the run stops, or the update is left out), and, with options.spike_guard X, when its loss is
/// above X times the median of the last 64 losses that were admitted (from the 17th on). A refused step counts as a
/// step of the run, not of the optimiser. What is refused depends on losses that a checkpoint holds, so that a run
/// which goes on refuses the same steps.
class StepGuard {
public:
  StepGuard() = default;
  explicit StepGuard(const RunOptions& options) : options_(options) {}

  void begin(std::int64_t step);
  /// Whether to go on with the present step after a part of its batch had that loss; where the part is the whole
  /// (options.accumulate 1), a loss above the usual one is refused here, before gradients are computed. `who`: "" or
  /// which model, for the error. Throws ValueError when the run is to stop, and after options.skip_limit refusals in a
  /// row.
  bool admits(double loss, const std::string& who = "");
  /// Whether to take the step with the batch's mean loss and its gradients, which are clipped to options.clip. Throws
  /// as the other.
  bool admits(double loss, std::vector<Tensor>& gradients, const std::string& who = "");

  /// Why the present step was refused; "" when it was not.
  const std::string& refusal() const { return refusal_; }
  /// Steps that were refused since the run began.
  std::int64_t refused() const { return refused_; }

  /// For state.json. Reading throws DamagedCheckpoint, beginning with `source`, for what is no state of a guard; one
  /// without it (older checkpoints) has refused nothing.
  void add_state(nlohmann::ordered_json& state) const;
  void read_state(const nlohmann::json& state, const std::string& source);

private:
  bool refuse(std::string why, double loss, const std::string& who);
  double median() const;
  bool admits_height(double loss, const std::string& who);

  RunOptions options_;
  std::int64_t step_ = 0, refused_ = 0, in_a_row_ = 0;
  std::deque<double> losses_; ///< admitted, the newest last; none without a spike guard
  std::string refusal_;
};

} // namespace eg::training
