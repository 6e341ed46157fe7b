#include "apps/report/image_figures.h"

#include "apps/report/pictures.h"
#include "apps/report/shuffle.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

namespace eg::report {

using permute::Permutation;
namespace {

/// Position embeddings of the patches alone, [patches, dim].
Tensor positions(const nn::Vit& model) {
  const Tensor all = model.position_embedding.squeeze(0);
  return all.slice(0, model.config.special_tokens(), all.size(0)).contiguous();
}

} // namespace

Tensor raw_image(const data::ImageDataset& data, std::int64_t i) {
  return Tensor::from<std::uint8_t>(data.pixels(i), {data.channels(), data.height(), data.width()}).to(DType::f32);
}

void add_shuffles(Page& page, const training::VitTrainer& trainer, std::int64_t most) {
  const data::ImageDataset& data = trainer.test_data();
  const std::int64_t patch = trainer.options().model.patch;
  const Permutation columns = Permutation::random_nonidentity(trainer.options().model.patch_elements(), {7, 100});
  const Permutation none;
  for (std::int64_t i = 0; i < std::min(most, data.size()); ++i) {
    const Tensor image = raw_image(data, i);
    const Permutation rows =
        Permutation::random_nonidentity(trainer.options().model.patches(), {7, static_cast<std::uint64_t>(i)});
    page.figures(
        {{picture(image), fmt::format("{}: original", data.class_names()[static_cast<std::size_t>(data.label(i))])},
         {picture(shuffle_image(image, patch, rows, none)), "patches shuffled by P_R"},
         {picture(shuffle_image(image, patch, none, columns)), "features within patches shuffled"},
         {picture(shuffle_image(image, patch, rows, columns)), "both"}},
        240);
  }
}

training::VitOptions small_training(const std::string& data, const std::string& data_dir, std::uint64_t seed) {
  training::VitOptions options;
  options.data = data;
  options.data_dir = data_dir;
  options.train_limit = 512;
  options.test_limit = 3;
  options.steps = 100;
  options.batch = 32;
  options.model.patch = 4;
  options.model.layers = 1;
  options.model.encoder.dim = 32;
  options.model.encoder.heads = 4;
  options.model.encoder.mlp = 64;
  options.optimizer = "adam";
  options.lr = 3e-3;
  options.dtype = DType::f64;
  options.seed = seed;
  options.drift_every = 0;
  options.variants = {permute::PermuteMode::none, permute::PermuteMode::rows};
  return options;
}

void add_position_maps(Page& page, training::VitTrainer& trainer, const ProgressCallback& on_progress) {
  const std::int64_t side = trainer.options().model.height() / trainer.options().model.patch;
  const Tensor before = positions(trainer.model(0)).clone();
  while (trainer.step() < trainer.total_steps()) {
    on_progress(static_cast<double>(trainer.step()) / static_cast<double>(trainer.total_steps()),
                fmt::format("position embeddings, step {}", trainer.step()));
    trainer.train_step();
  }
  const Tensor plain = positions(trainer.model(0)), shuffled = positions(trainer.model(1));
  const Tensor fixed = nn::sinusoidal_positions(side * side, plain.size(1), DType::f64);
  page.figures({{position_map(before, side), "learned, before training"},
                {position_map(plain, side), fmt::format("after {} steps, plain", trainer.step())},
                {position_map(shuffled, side), fmt::format("after {} steps, rows shuffled: apart by {:.1e}",
                                                           trainer.step(), relative_error(shuffled, plain))},
                {position_map(fixed, side), "sinusoidal: constants, no training moves them"}},
               256);
}

} // namespace eg::report
