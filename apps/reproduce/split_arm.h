#pragma once
// Trains one arm of split learning: a vision transformer whose features pass a defence before its blocks.

#include "apps/reproduce/defended.h"
#include "apps/reproduce/vision.h"

#include "apps/attacks/accountant.h"
#include "permute/blocks_key.h"

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace eg::reproduce {

using Images = std::pair<data::ImageDataset, data::ImageDataset>; ///< to train, to test

/// Pictures of a set by number, in [-1, 1], [N, C, H, W].
Tensor pictures_of(const data::ImageDataset& images, std::span<const std::int64_t> numbers, DType dtype);

/// The same from training to attack: the model, its key and what leaves the edge.
class SplitArm {
public:
  /// A model at its start: all arms of a seed begin coupled.
  SplitArm(const Plan& plan, const Arm& arm, const Images& images, std::uint64_t seed);

  /// Trains it; `on_progress` is called before each step with its share and may throw. Keeps F1 as it was at the ends
  /// of `rounds` equal parts of the training.
  void train(std::int64_t rounds, const std::function<void(double)>& on_progress);
  /// Of the test images, protected as in training.
  Answers answers(const std::function<void(double)>& on_progress) const;
  /// What leaves the edge for images [N, C, H, W]; `round`: under that round's F1, else the final one.
  attacks::Leaving leaving(const Tensor& pictures, RandomKey key, std::optional<std::size_t> round = {}) const;

  const nn::Vit& model() const { return *model_; }
  const Arm& arm() const { return arm_; }
  const permute::BlocksKey* key() const { return key_ ? &*key_ : nullptr; }
  double epsilon() const { return epsilon_; } ///< of DP-SGD
  std::string about() const;                  ///< the model and the training in a few words

private:
  Tensor loss(const Tensor& logits, const Tensor& wanted) const;
  Tensor targets(std::span<const std::int64_t> numbers) const;
  void train_ordinarily(std::int64_t rounds, const std::function<void(double)>& on_progress);
  void train_privately(const std::function<void(double)>& on_progress);
  std::vector<Tensor> trained_parameters() const;

  const Plan& plan_;
  Arm arm_;
  Images images_;
  RandomKey root_;
  std::unique_ptr<nn::Vit> model_;
  std::optional<permute::BlocksKey> key_;
  std::vector<std::pair<Tensor, Tensor>> edges_; ///< F1's weight and bias at the end of each round
  double epsilon_ = 0.0;
};

} // namespace eg::reproduce
