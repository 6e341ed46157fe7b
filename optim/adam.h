#pragma once
// Declares Adam and AdamW, which Muon uses for parameters other than hidden matrices. Not for users: they call
// optim::adam().

#include "optim/kernels.h"
#include "optim/optimizer.h"

namespace eg::optim {

class Adam : public Optimizer {
public:
  /// `decoupled`: AdamW. Throws ValueError for options out of range.
  Adam(std::vector<Tensor> parameters, const AdamOptions& options, bool decoupled);
  std::string name() const override { return writer(); }

protected:
  /// For a derived rule that keeps other state for some parameters, as `plan` says.
  Adam(std::vector<Tensor> parameters, const AdamOptions& options, bool decoupled, StatePlan plan);
  static StatePlan moments() { return alike({"exp_avg", "exp_avg_sq"}); }
  void begin_step(double learning_rate) override;
  void update(const Piece& piece) const override;
  void update_on_device(Device device, const Piece& alike, const device::UpdateParts& parts) const override;
  const char* writer() const override { return decoupled_ ? "adamw" : "adam"; }

private:
  AdamNumbers numbers_for(const Piece& piece) const;
  bool decoupled_;
  AdamOptions options_;
  double first_correction_ = 1.0; ///< 1 - beta1^t
  double root_scale_ = 1.0;       ///< 1 / sqrt(1 - beta2^t)
};

} // namespace eg::optim
