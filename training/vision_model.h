#pragma once
// Reads and writes vision transformers as model folders of Hugging Face's format: starting points, teachers and
// results.

#include "data/loader.h"
#include "nn/hub/model.h"
#include "nn/vit.h"
#include "training/fine_tuning.h"

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace eg::training {

/// Images that a model is to take.
struct ImageKind {
  std::int64_t side = 0, channels = 0;
  std::vector<std::string> classes;
};

/// A ViT or DeiT that was read, made to take other images: position embeddings resampled for their size
/// (hub::resample_positions), a fresh classifier where the classes are others.
struct VisionStart {
  std::unique_ptr<hub::Model> model;
  /// What its folder says of pixels (preprocessor_config.json); none where it does not say.
  std::optional<data::Normalization> normalization;

  nn::Vit& vit() const;
};

/// Throws ValueError when the folder's model is of another family ("vit", "deit") or takes another number of channels,
/// FileError.
VisionStart open_vision_start(const FineTuning& options, const std::string& family, const ImageKind& images,
                              double dropout, DType dtype, RandomKey key);

/// The config.json of a ViT, or with a distillation token of a DeiTForImageClassificationWithTeacher, or with mean
/// pooling of timm's ViT (hub::timm_config); none where neither library has such a model: positions that are not
/// learned, post-norm blocks, heads that do not share dim evenly.
std::optional<nlohmann::json> vision_config(const nn::VitConfig& config, const std::vector<std::string>& classes,
                                            const data::Normalization& pixels);

/// Writes such a folder with a preprocessor_config.json. `config`: of a model of the same sizes. Throws FileError.
void save_vision_model(const nn::Vit& model, const nlohmann::json& config, const data::Normalization& pixels,
                       const std::string& folder);

/// A model that says which classes it sees, for another one to learn from (hard distillation: Touvron et al., ICML
/// 2021, equation 3).
class Teacher {
public:
  /// `folder`: a ViT or DeiT with a classifier of the same classes, or a run. `pixels`: how the student's images are
  /// normalised. Throws ValueError when classes, channels or sizes do not fit, FileError.
  Teacher(const std::string& folder, const ImageKind& images, const data::Normalization& pixels, DType dtype);
  /// What tells it from another: "5 tensors, crc32 1a2b3c4d" of its weights, its config and what it does to pixels.
  std::string fingerprint() const;
  /// The likeliest class of each image [B, C, H, W], normalised for the student: i64 [B].
  Tensor classes(const Tensor& images) const;

private:
  std::unique_ptr<hub::Model> model_;
  Tensor scale_, shift_; ///< [C, 1, 1]: from the student's pixels to the teacher's; undefined where they are the same
};

} // namespace eg::training
