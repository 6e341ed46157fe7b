#pragma once
// Skips a step whose loss or gradient is not a finite number, or whose loss is far above the usual one.

#include "core/tensor.h"
#include "training/options.h"

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

namespace eg::training {

/// Decides before every update whether the step is skipped. It is when its loss or its gradient is NaN or infinite
/// (options.on_divergence: the run stops, or the update is left out), and, with options.spike_guard X, when its loss is
/// above X times the median of the last 64 losses of steps that were taken (from the 17th on). A skipped step counts as
/// a step of the run, not of the optimiser. The decision depends on losses that a checkpoint holds, so a resumed run
/// skips the same steps. All checks throw ValueError when the run is to stop, and after options.skip_limit skipped
/// steps in a row; `who`: "" or which model, for the error.
class StepGuard {
public:
  StepGuard() = default;
  explicit StepGuard(const RunOptions& options) : options_(options) {}

  void begin(std::int64_t step);
  /// Whether to continue after a part of the batch had that loss; where the part is the whole (options.accumulate 1), a
  /// loss spike is skipped here, before gradients are computed.
  bool check_part(double loss, const std::string& who = "");
  /// Whether the batch's mean loss is finite and no spike.
  bool check_loss(double loss, const std::string& who = "");
  /// Whether the gradient's norm is finite. If so the step with that mean loss counts as taken.
  bool check_gradients(double norm, double loss, const std::string& who = "");

  /// Why the present step was skipped; "" when it was not.
  const std::string& skip_reason() const { return skip_reason_; }
  /// Steps that were skipped since the run began.
  std::int64_t skipped() const { return skipped_; }

  /// For state.json. Reading throws DamagedCheckpoint, beginning with `source`, for a malformed state; one without it
  /// (older checkpoints) has skipped nothing.
  void add_state(nlohmann::ordered_json& state) const;
  void read_state(const nlohmann::json& state, const std::string& source);

private:
  bool skip(std::string why, double loss, const std::string& who);
  double median() const;

  RunOptions options_;
  std::int64_t step_ = 0, skipped_ = 0, in_a_row_ = 0;
  std::deque<double> losses_; ///< of steps taken, the newest last; none without a spike guard
  std::string skip_reason_;
};

} // namespace eg::training
