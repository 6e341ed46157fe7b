// bench step: vision transformers. GELU, biases, pre-norm, a class token, learned positions.

#include "apps/cli/bench/step_cases.h"
#include "nn/vit.h"

namespace eg::cli::bench {
namespace {

struct Sizes {
  std::int64_t image, patch, classes, dim, layers, heads, mlp;
  const char* optimizer;
};

nn::VitConfig config_of(const Sizes& s, bool checkpoint) {
  nn::VitConfig config;
  config.image = s.image;
  config.patch = s.patch;
  config.classes = s.classes;
  config.layers = s.layers;
  config.encoder.dim = s.dim;
  config.encoder.heads = s.heads;
  config.encoder.mlp = s.mlp;
  config.encoder.checkpoint = checkpoint;
  return config;
}

class VitTraining : public Workload {
public:
  VitTraining(const Sizes& s, const Setting& setting)
      : model_(config_of(s, setting.checkpoint), setting.key.fold(1)),
        images_(random_normal({setting.batch, 3, s.image, s.image}, setting.key.fold(2), 0.0, 1.0, setting.dtype)),
        labels_(random_integers({setting.batch}, setting.key.fold(3), 0, s.classes)),
        step_(s.optimizer, converted(model_, setting.dtype)) {}
  void run() override {
    step_([&] { return cross_entropy(model_(images_), labels_); });
  }

private:
  static std::vector<Tensor> converted(nn::Vit& model, DType dtype) {
    model.to(dtype);
    return model.parameters();
  }
  nn::Vit model_;
  Tensor images_, labels_;
  TrainingStep step_;
};

constexpr Sizes cifar{32, 4, 10, 512, 6, 1, 512, "adam"};
constexpr Sizes wide{32, 4, 10, 512, 6, 8, 2048, "adam"};
constexpr Sizes tiny{32, 4, 10, 192, 12, 3, 768, "adam"};
constexpr Sizes base{224, 16, 1000, 768, 12, 12, 3072, "sgd"};

template <const Sizes& sizes> std::unique_ptr<Workload> make(const Setting& setting) {
  return std::make_unique<VitTraining>(sizes, setting);
}

} // namespace

std::vector<StepCase> vit_cases() {
  return {{"vit-cifar", 64, make<cifar>},
          {"vit-cifar-wide", 64, make<wide>},
          {"vit-tiny", 64, make<tiny>},
          {"vit-base", 4, make<base>}};
}

} // namespace eg::cli::bench
