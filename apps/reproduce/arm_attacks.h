#pragma once
// Attacks one arm of split learning, and measures the success.

#include "apps/attacks/metrics.h"
#include "apps/attacks/perceptual_metric.h"
#include "apps/reproduce/defended.h"
#include "apps/reproduce/split_arm.h"

#include <string>

namespace eg::reproduce {

/// Attacks a trained arm and writes what came out into its cell.
class ArmAttacker {
public:
  /// `judge` gives F-SIM's network when it is needed. All must outlive the attacker.
  ArmAttacker(const Plan& plan, const SplitArm& arm, const Images& images, std::uint64_t seed,
              const std::function<const attacks::PerceptualMetric&()>& metric, std::function<void(double)> on_progress);

  /// Equation 88 of paper 000: a decoder trained on the training images, on test images.
  void black_box(Cell& cell) const;
  /// Equation 2 of paper 001: the same with the features of several rounds, on training images that it was not
  /// trained on; rows are aligned between rounds.
  void training(Cell& cell, std::size_t rounds) const;
  /// Equation 3 of paper 001, with the order of rows taken for unknown, and as it is printed.
  void white_box(Cell& cell) const;
  /// Least squares on pairs: Cell::numbers "linear".
  void linear(Cell& cell) const;

  /// The images that are attacked, in [-1, 1], f64.
  static Tensor targets(const Plan& plan, const data::ImageDataset& images);

private:
  void note(Cell& cell, const std::string& attack, const Tensor& found, const Tensor& truth) const;
  Tensor features(const Tensor& pictures, RandomKey key, std::size_t rounds) const;
  std::function<void(std::int64_t)> step_of(std::int64_t steps) const;

  const Plan& plan_;
  const SplitArm& arm_;
  const Images& images_;
  RandomKey root_;
  const std::function<const attacks::PerceptualMetric&()>& metric_;
  std::function<void(double)> on_progress_;
};

/// Up to eight images [N, C, H, W] in [-1, 1] beside each other.
data::Image strip_of(const Tensor& pictures);

} // namespace eg::reproduce
