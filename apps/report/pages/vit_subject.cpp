#include "apps/report/pages/vit_subject.h"

#include "apps/report/pages/run_model.h"
#include "core/base/bytes.h"
#include "data/safetensors.h"
#include "training/checkpoint_state.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace eg::pages {
namespace {

/// The weights of a run's final model, in a trainer that has made no step.
OpenedVit final_model(const RunFolder& run, training::VitOptions options, std::int64_t step, const FigureOptions& o) {
  const std::string weights = join_path(run.path, "model.safetensors");
  if (!file_exists(weights))
    throw FileError(run.path +
                    ": its blocks are elsewhere, and no final model is here: it comes when training is done");
  options.resume.clear();
  const permute::PermuteMode mode = options.variants.empty() ? options.permute : options.variants.front();
  options.variants.clear();
  options.permute = mode;
  if (!carries_key(run.path, options.key)) {
    options.key.clear();
    options.permute = permute::PermuteMode::none;
    options.from_permuted = false;
  }
  OpenedVit found{std::make_unique<training::VitTrainer>(options, o.stop), step, true};
  const data::NamedTensors read = data::load_safetensors(weights).tensors;
  nn::StateDict into = found.trainer->model(0).state_dict();
  for (auto& [name, value] : into) {
    const auto from = std::find_if(read.begin(), read.end(), [&, n = name](const auto& one) { return one.first == n; });
    if (from == read.end() || !(from->second.shape() == value.shape()))
      throw FileError(fmt::format("{}: its '{}' is none of this run", weights, name));
    value.copy_from(from->second);
  }
  return found;
}

} // namespace

OpenedVit opened_vit(const RunFolder& run, const FigureOptions& o) {
  const auto defaults = run.model == "deit" ? training::deit_defaults() : training::VitOptions();
  training::VitOptions options = training::options_of_run(run.path, defaults);
  options.out.clear();
  options.device = "cpu"; // wherever it was trained
  options.checkpoint_every = 0;
  override_data_paths(options, o);
  const nlohmann::json state = training::newest_state(run.path);
  if (state.contains("elsewhere")) return final_model(run, std::move(options), state["step"].get<std::int64_t>(), o);
  OpenedVit found{std::make_unique<training::VitTrainer>(options, o.stop)};
  found.step = found.trainer->step();
  return found;
}

VitSubject::VitSubject(const OpenedVit& opened)
    : trainer_(*opened.trainer), step_(opened.step), model_(trainer_.model(trainer_.variants() - 1)),
      key_(permute::permutes_columns(trainer_.mode(trainer_.variants() - 1)) ? trainer_.column_key() : nullptr),
      pixels_(trainer_.pixels()), loader_(trainer_.test_data(), {.batch_size = trainer_.options().batch,
                                                                 .shuffle = false,
                                                                 .normalization = pixels_,
                                                                 .dtype = trainer_.options().dtype,
                                                                 .workers = 0}) {}

Predictions VitSubject::predict(std::int64_t samples, StopFlag stop) const {
  Predictions found{.classes = data().class_names()};
  each_batch(samples, stop, [&](const Tensor& images, const Tensor& labels) { found.add(logits(images), labels); });
  return found;
}

std::vector<Tensor> VitSubject::attention(std::int64_t image) const {
  const PauseRecording pause;
  const std::int64_t batch = trainer_.options().batch;
  const Tensor images = loader_.batch(0, image / batch).images.slice(0, image % batch, image % batch + 1);
  Tensor z = model_.embed(images);
  if (key_ != nullptr) z = key_->apply_columns(z);
  std::vector<Tensor> scores;
  for (const auto& trace : model_.trace_encoder(z)) scores.push_back(trace.scores);
  return scores;
}

} // namespace eg::pages
