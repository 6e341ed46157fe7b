#pragma once
// Shares what the experiments with vision transformers have in common. Training resumes where it was interrupted, and
// any model is tested with any permutation before its encoder.

#include "apps/reproduce/experiment.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace eg::reproduce {

using permute::PermuteMode;
using training::VitOptions;
using training::VitTrainer;

/// Reports the share of several trainings of equal length that is done.
class Parts {
public:
  Parts(const RunContext& work, std::size_t parts) : work_(work), parts_(static_cast<double>(parts)) {}
  void report(double share_of_part, const std::string& what) const;
  void next() { done_ += 1.0; }

private:
  const RunContext& work_;
  double parts_, done_ = 0.0;
};

/// The plan's options for one run with a seed.
VitOptions options_for(const Plan& plan, const RunContext& work, std::uint64_t seed, std::vector<PermuteMode> variants);

/// Trains to the end in the folder `name`; an existing run with the same options is resumed. `images`:
/// for training and testing, instead of those that the options name. Throws Interrupted.
std::unique_ptr<VitTrainer> trained(VitOptions options, const RunContext& work, const std::string& name, Parts& parts,
                                    std::optional<std::pair<data::ImageDataset, data::ImageDataset>> images = {});

/// The permutation of test images in the encoder.
struct Shuffle {
  bool rows = false;                       ///< another P_R for each image
  const permute::BlocksKey* key = nullptr; ///< P_C before the encoder and its inverse behind it
};
/// A model's predictions for test images.
struct Answers {
  Tensor logits;                     ///< [N, classes]
  std::vector<std::int64_t> classes; ///< by image; of images with attributes 0 or 1 by image and attribute
  double accuracy = 0.0;             ///< share of these that is right, in percent
};
/// Of logits [N, classes] and `labels`: [N] i64, or attributes [N, names].
Answers answers_from(Tensor logits, const Tensor& labels);
/// The accuracy of guessing, in percent: one in so many classes; of attributes the mean share of the answer
/// that is right more often.
double blind_accuracy(const data::ImageDataset& images);
/// The model on the trainer's test images. Throws Interrupted.
Answers answers_of(const VitTrainer& trainer, const nn::Vit& model, const Shuffle& shuffle, const RunContext& work);

/// How many images the two models see differently.
double differing(const Answers& a, const Answers& b);
/// Largest difference of logits over the largest logit.
double logit_difference(const Answers& a, const Answers& b);

/// The claim that no test image is seen differently. `differing`: how many are.
Claim none_differ(const std::string& what, double differing, const std::string& because);

/// A copy of a model with these options whose encoder is moved by `key`.
std::unique_ptr<nn::Vit> moved_by(const nn::Vit& model, const VitOptions& options, const permute::BlocksKey& key);

/// How many parameters' elements differ in their bits between coupled variants (the plain one first) after a short
/// training in exact mode, mapped back: the plan's "exact_steps" steps of "exact_batch" images.
double differing_bits_in_exact_mode(const Plan& plan, const RunContext& work, const std::vector<PermuteMode>& variants);

/// "cifar10: 10000 training and 2000 test images, ..." for Outcome::setting.
std::string setting_of(const VitTrainer& trainer, std::size_t seeds);

} // namespace eg::reproduce
