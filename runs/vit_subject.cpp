#include "runs/vit_subject.h"

namespace eg::runs {

std::unique_ptr<permute::VitTrainer> opened_vit(const RunFolder& run, const FigureOptions& o) {
  const auto defaults = run.model == "deit" ? permute::deit_defaults() : permute::TrainOptions();
  permute::TrainOptions options = permute::options_of_run(run.path, defaults);
  options.out.clear();
  options.checkpoint_every = 0;
  if (!o.data_dir.empty()) options.data_dir = o.data_dir;
  return std::make_unique<permute::VitTrainer>(options, o.stop);
}

VitSubject::VitSubject(const permute::VitTrainer& trainer)
    : trainer_(trainer), model_(trainer.model(trainer.variants() - 1)),
      key_(permute::permutes_columns(trainer.mode(trainer.variants() - 1)) ? trainer.column_key() : nullptr),
      pixels_(trainer.pixels()), loader_(trainer.test_data(), {.batch_size = trainer.options().batch,
                                                               .shuffle = false,
                                                               .normalization = pixels_,
                                                               .dtype = trainer.options().dtype,
                                                               .workers = 0}) {}

Predictions VitSubject::predict(std::int64_t samples, data::StopFlag stop) const {
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

} // namespace eg::runs
