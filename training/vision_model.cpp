#include "training/vision_model.h"

#include "core/base/bytes.h"
#include "core/base/error.h"
#include "core/base/json.h"
#include "core/meta.h"
#include "core/ops.h"
#include "data/preprocess.h"
#include "nn/hub/folder.h"
#include "nn/hub/timm.h"
#include "nn/init.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <array>

namespace eg::training {
namespace {

/// Writes the classes' names into a config.
void set_classes(nlohmann::json& config, const std::vector<std::string>& classes) {
  nlohmann::json names = nlohmann::json::object(), places = nlohmann::json::object();
  for (std::size_t i = 0; i < classes.size(); ++i) {
    names[std::to_string(i)] = classes[i];
    places[classes[i]] = i;
  }
  for (const char* other : {"num_labels", "problem_type"}) config.erase(other);
  config["id2label"] = names;
  config["label2id"] = places;
}

void require_channels(const nlohmann::json& config, const std::string& folder, std::int64_t channels) {
  if (const std::int64_t found = hub::image_channels(config); found != channels)
    throw ValueError(fmt::format("train: {} takes images of {} channels, these have {}", folder, found, channels));
}

/// (x f - mean) / deviation of pixels x as a Normalization; none where the folder does not say.
std::optional<data::Normalization> pixels_of(const std::string& folder, std::int64_t channels) {
  const std::string path = hub::preprocessing_file(folder);
  if (!file_exists(path)) return {};
  const data::Preprocessing steps = hub::preprocessing_of(folder);
  const double factor = 255.0 * (steps.rescale ? steps.rescale_factor : 1.0);
  data::Normalization out;
  for (std::size_t c = 0; c < static_cast<std::size_t>(channels); ++c) {
    const auto of = [&](const std::vector<double>& values, double otherwise) {
      if (!steps.normalize) return otherwise;
      if (values.size() != 1 && values.size() != static_cast<std::size_t>(channels))
        throw FileError(fmt::format("{}: normalises {} channels, the images have {}", path, values.size(), channels));
      return values.size() == 1 ? values[0] : values[c];
    };
    out.mean.push_back(of(steps.mean, 0.0) / factor);
    out.stddev.push_back(of(steps.deviation, 1.0) / factor);
  }
  return out;
}

/// ViT or DeiT: the name of its class with a classifier.
const char* architecture_for(const std::string& family) {
  return family == "deit" ? "DeiTForImageClassificationWithTeacher" : "ViTForImageClassification";
}

/// transformers' name of an activation.
std::string activation_name(nn::Activation activation) {
  return activation == nn::Activation::gelu_tanh ? "gelu_pytorch_tanh" : std::string(nn::name_of(activation));
}

/// Throws ValueError when a teacher's classes have names, and others than the student's or in another order.
void require_names(const nlohmann::json& config, const std::string& teacher, const std::vector<std::string>& classes) {
  const nlohmann::json names = hub::class_names(config);
  if (!names.is_object()) return;
  for (std::size_t i = 0; i < classes.size(); ++i) {
    const auto name = names.find(std::to_string(i));
    if (name == names.end() || !name->is_string()) return;
    const auto& word = name->get_ref<const std::string&>();
    if (word == fmt::format("LABEL_{}", i) || word == classes[i]) continue; // LABEL_0: nobody named it
    throw ValueError(fmt::format("train: teacher {} calls class {} '{}', the data '{}'; it must have the same classes "
                                 "in the same order",
                                 teacher, i, word, classes[i]));
  }
}

} // namespace

nn::Vit& VisionStart::vit() const { return dynamic_cast<nn::Vit&>(model->module()); }

VisionStart open_vision_start(const FineTuning& options, const std::string& family, const ImageKind& images,
                              double dropout, DType dtype, RandomKey key) {
  const std::string folder = start_folder(options);
  hub::LoadModelOptions load{.dtype = dtype, .key = key, .image_size = std::pair(images.side, images.side)};
  load.adapt = [&](nlohmann::json& config) {
    require_channels(config, folder, images.channels);
    config["architectures"] = {architecture_for(family)};
    config["hidden_dropout_prob"] = dropout;
    config["attention_probs_dropout_prob"] = 0.0;
    set_classes(config, images.classes);
  };
  VisionStart start{.model = open_start(options, family, std::move(load)),
                    .normalization = pixels_of(folder, images.channels)};
  return start;
}

std::optional<nlohmann::json> vision_config(const nn::VitConfig& c, const std::vector<std::string>& classes,
                                            const data::Normalization& pixels) {
  const nn::BlockConfig& e = c.encoder;
  if (c.pooling == nn::Pooling::mean) return hub::timm_config(c, classes, pixels.mean, pixels.stddev);
  if (c.position != nn::PositionEmbedding::learned || !e.pre_norm || e.heads * e.width_of_head() != e.dim ||
      !e.proj_bias || !e.mlp_bias || (c.distillation && !c.distillation_head))
    return {};
  const std::string family = c.distillation ? "deit" : "vit";
  nlohmann::json config = {{"model_type", family},
                           {"architectures", {architecture_for(family)}},
                           {"hidden_size", e.dim},
                           {"num_hidden_layers", c.layers},
                           {"num_attention_heads", e.heads},
                           {"intermediate_size", e.mlp},
                           {"hidden_act", activation_name(e.activation)},
                           {"hidden_dropout_prob", e.dropout},
                           {"attention_probs_dropout_prob", e.attention_dropout},
                           {"layer_norm_eps", e.norm_eps},
                           {"qkv_bias", e.qkv_bias},
                           {"image_size", c.image},
                           {"patch_size", c.patch},
                           {"num_channels", c.channels}};
  set_classes(config, classes);
  return config;
}

void save_vision_model(const nn::Vit& model, const nlohmann::json& config, const data::Normalization& pixels,
                       const std::string& folder) {
  std::unique_ptr<hub::Model> out;
  {
    const MetaTensorScope tensors; // it writes `model`'s own
    const MetaCallScope calls;
    const nn::init::SkipScope skip;
    out = hub::make_model(config, {}, folder);
  }
  out->module().adopt(model.contents());
  const nlohmann::json preprocessor = {{"image_processor_type", "ViTImageProcessor"},
                                       {"do_resize", true},
                                       {"size", {{"height", model.config.height()}, {"width", model.config.width()}}},
                                       {"resample", static_cast<int>(data::PillowFilter::bilinear)},
                                       {"do_rescale", true},
                                       {"rescale_factor", 1.0 / 255.0},
                                       {"do_normalize", true},
                                       {"image_mean", pixels.mean},
                                       {"image_std", pixels.stddev}};
  hub::save_model(*out, folder);
  write_json(join_path(folder, "preprocessor_config.json"), preprocessor);
}

Teacher::Teacher(const std::string& path, const ImageKind& images, const data::Normalization& pixels, DType dtype) {
  const std::string folder = hub::model_folder_of_run(path);
  hub::LoadModelOptions load{.dtype = dtype, .image_size = std::pair(images.side, images.side)};
  load.adapt = [&](nlohmann::json& config) { require_channels(config, folder, images.channels); };
  model_ = hub::load_model(folder, load).model;
  const auto* vit = dynamic_cast<const nn::Vit*>(&model_->module());
  if (vit == nullptr || vit->config.classes != std::ssize(images.classes))
    throw ValueError(fmt::format("train: teacher {} is a {} of {} classes, and not a classifier of {}", path,
                                 model_->architecture(), vit == nullptr ? 0 : vit->config.classes,
                                 images.classes.size()));
  require_names(model_->config(), path, images.classes);
  const std::optional<data::Normalization> own = pixels_of(folder, images.channels);
  if (!own || (own->mean == pixels.mean && own->stddev == pixels.stddev)) return;
  std::vector<double> scale, shift;
  for (std::size_t c = 0; c < pixels.mean.size(); ++c) {
    scale.push_back(pixels.stddev[c] / own->stddev[c]);
    shift.push_back((pixels.mean[c] - own->mean[c]) / own->stddev[c]);
  }
  const Shape shape{images.channels, 1, 1};
  scale_ = Tensor::from(scale, shape).to(dtype);
  shift_ = Tensor::from(shift, shape).to(dtype);
}

std::string Teacher::fingerprint() const {
  const nn::StateDict weights = model_->module().state_dict();
  std::uint32_t crc = 0;
  for (const auto& [name, tensor] : weights) {
    const Tensor packed = tensor.contiguous();
    crc = crc32({reinterpret_cast<const std::uint8_t*>(packed.bytes()), packed.nbytes()}, crc);
  }
  std::string rest = model_->config().dump();
  for (const Tensor* pixels : {&scale_, &shift_})
    if (pixels->defined()) rest += fmt::format(" {}", fmt::join(pixels->to(DType::f64).to_vector<double>(), " "));
  crc = crc32({reinterpret_cast<const std::uint8_t*>(rest.data()), rest.size()}, crc);
  return fmt::format("{} tensors, crc32 {:08x}", weights.size(), crc);
}

Tensor Teacher::classes(const Tensor& images) const {
  const PauseRecording pause;
  const Tensor seen = scale_.defined() ? images * scale_ + shift_ : images;
  return argmax(hub::find(model_->forward({{"pixel_values", seen}}), "logits"), -1);
}

} // namespace eg::training
