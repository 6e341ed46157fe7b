// Batches of images and what a ViT loses on them.

#include "training/vit_task.h"

#include "core/ops.h"
#include "data/mix.h"
#include "nn/metrics.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <utility>

namespace eg::training {
namespace {

/// Parts of the run that draw random numbers, beside those of its permutations (vit_setup.cpp).
constexpr std::uint64_t draw_mix = 6;

/// How many samples were right: of mixed ones, the shares that the largest logits name; of attributes, the share of
/// them that the logits' signs name.
double count_right(const Tensor& logits, const Samples& samples) {
  const PauseRecording pause;
  if (!samples.shares.defined()) return static_cast<double>(nn::count_in_top(logits, samples.labels));
  const Tensor scores = logits.to(Device::cpu()), shares = samples.shares.to(Device::cpu()); // a few numbers
  if (!samples.attributes) return sum(gather(shares, 1, argmax(scores, -1).unsqueeze(1))).item();
  const Tensor named = gt(scores, 0.0).to(scores.dtype());
  const Tensor right = named * shares + affine(named, -1.0, 1.0) * affine(shares, -1.0, 1.0);
  return sum(mean(right, {1})).item();
}

/// The mean loss over samples: cross-entropy of classes; of attributes the mean of their binary cross-entropies.
Tensor mean_loss(const Tensor& logits, const Samples& samples, double label_smoothing) {
  if (!samples.shares.defined()) return cross_entropy(logits, samples.labels, label_smoothing);
  if (!samples.attributes) return soft_cross_entropy(logits, samples.shares, label_smoothing);
  return bce_with_logits(logits, affine(samples.shares, 1.0 - label_smoothing, 0.5 * label_smoothing));
}

/// The logits of an encoder's output and the loss of them. With a distillation token both classifiers' mean.
struct HeadOutput {
  Tensor logits, loss;
};
HeadOutput apply_head(const nn::Vit& model, const Tensor& z, const Samples& samples, double label_smoothing) {
  if (!model.config.distillation) {
    const Tensor logits = model.head(z);
    return {logits, mean_loss(logits, samples, label_smoothing)};
  }
  const nn::Vit::TwoLogits two = model.heads(z);
  const Tensor taught = samples.taught.defined() ? cross_entropy(two.distillation, samples.taught, label_smoothing)
                                                 : mean_loss(two.distillation, samples, label_smoothing);
  return {(two.classes + two.distillation) * 0.5, (mean_loss(two.classes, samples, label_smoothing) + taught) * 0.5};
}

} // namespace

Samples Samples::cut(std::int64_t first, std::int64_t last) const {
  const auto part = [&](const Tensor& x) { return x.defined() ? x.slice(0, first, last) : x; };
  return {part(images), part(labels), part(shares), attributes, part(rows), part(taught)};
}

Tensor permuted_hidden(const nn::Vit& model, const Tensor& images, const Tensor& rows, const permute::BlocksKey* key,
                       RandomKey dropout_key) {
  const permute::PermutedPass pass{.rows = rows, .columns = key != nullptr ? &key->residual : nullptr};
  return pass.through(model.embed(images, nn::Vit::embedding_key(dropout_key)),
                      [&](const Tensor& z) { return model.encode(z, dropout_key); });
}

Tensor permuted_logits(const nn::Vit& model, const Tensor& images, const Tensor& rows, const permute::BlocksKey* key,
                       RandomKey dropout_key) {
  return model.head(permuted_hidden(model, images, rows, key, dropout_key));
}

void VitTask::seek(std::int64_t step) {
  loader_step_ = step;
  loader_->seek(step / loader_->batches_per_epoch(), step % loader_->batches_per_epoch());
}

void VitTask::take_part(std::int64_t first, std::int64_t last) {
  if (data::Mixing{o_->mixup, o_->cutmix}.any()) return; // an image is blended with any other of its batch
  part_begin_ = first;
  part_end_ = last;
  open_loaders();
}

Tensor VitTask::rows(std::int64_t first_sample, std::int64_t samples, data::Split split) const {
  for (const Variant& v : all_variants())
    if (permute::permutes_rows(v.mode)) return encoder_.rows(first_sample, samples, o_->model.tokens(), split);
  return {};
}

Samples VitTask::made_samples(std::int64_t step) {
  if (loader_step_ != step) seek(step); // the step was begun before, and failed
  loader_step_ = step + 1;
  const data::Batch batch = loader_->next();
  const bool attributes = batch.attributes.defined();
  Samples samples{batch.images, batch.labels, batch.attributes, attributes};
  if (const data::Mixing mixing{o_->mixup, o_->cutmix}; mixing.any()) {
    const Tensor targets = attributes ? batch.attributes : one_hot(batch.labels, material_.train.classes(), o_->dtype);
    const RandomKey key = RandomKey{o_->seed, 0}.fold(draw_mix).fold(static_cast<std::uint64_t>(step));
    data::MixedBatch mixed = data::mix(mixing, batch.images, targets, key);
    samples.images = std::move(mixed.images);
    samples.shares = std::move(mixed.targets);
  }
  samples.rows = rows(step * o_->batch, o_->batch, data::Split::train); // the whole batch's: one draw
  if (samples.rows.defined()) samples.rows = samples.rows.slice(0, part_begin_, part_begin_ + samples.size());
  if (teacher_) samples.taught = teacher_->classes(samples.images);
  return samples;
}

void VitTask::make_ahead(std::int64_t step) {
  if (device().is_cpu() || step >= total_steps() || (ahead_ && ahead_->step == step)) return;
  const PauseRecording pause;
  Ahead ahead{.step = step};
  try {
    const Samples samples = made_samples(step);
    ahead.samples.attributes = samples.attributes;
    ahead.tensors = begin_upload(samples.tensors());
  } catch (...) {
    ahead.error = std::current_exception();
  }
  ahead_ = std::move(ahead);
}

std::int64_t VitTask::draw_batch(std::int64_t step) {
  batch_step_ = step;
  std::optional<Ahead> before = std::exchange(ahead_, std::nullopt);
  if (!before || before->step != step) {
    const Samples samples = made_samples(step);
    samples_ = samples.with(there(samples.tensors()));
  } else {
    if (before->error) std::rethrow_exception(before->error);
    samples_ = before->samples.with(before->tensors->take());
  }
  return o_->batch;
}

Tensor VitTask::hidden(const Variant& v, const Tensor& images, const Tensor& rows, RandomKey dropout,
                       std::optional<std::int64_t> step) const {
  const nn::Vit& model = vit_of(v);
  return encoder_.encode(v.mode, model.embed(images, nn::Vit::embedding_key(dropout)), {}, rows, step,
                         [&](const Tensor& z, const Tensor&) { return model.encode(z, dropout); });
}

PartLoss VitTask::loss_of(const Variant& v, std::int64_t first, std::int64_t last, RandomKey) {
  RandomKey dropout = dropout_key(o_->seed, batch_step_);
  if (first > 0) dropout = dropout.fold((std::uint64_t{1} << 32) + static_cast<std::uint64_t>(first));
  const Samples samples = samples_.cut(first - part_begin_, last - part_begin_);
  const Tensor z = hidden(v, samples.images, samples.rows, dropout, batch_step_);
  const auto [logits, loss] = apply_head(vit_of(v), z, samples, o_->label_smoothing);
  make_ahead(batch_step_ + 1); // while the device computes what is queued
  return {.loss = loss, .weight = static_cast<double>(samples.size()), .correct = count_right(logits, samples)};
}

ModelTask::TestBatch VitTask::measure(const Variant& v, std::int64_t b) {
  const data::Batch batch = test_loader_->batch(0, b);
  Samples samples{batch.images, batch.labels, batch.attributes, batch.attributes.defined()};
  const std::int64_t seen = step() * material_.test.size() + b * o_->batch; // each test has orders of its own
  samples.rows = rows(seen, samples.size(), data::Split::test);
  samples = samples.with(there(samples.tensors()));
  const Tensor z = hidden(v, samples.images, samples.rows, {}, {});
  const Tensor logits = vit_of(v).head(z);
  const auto weight = static_cast<double>(samples.size());
  return {.loss = mean_loss(logits, samples, 0.0).item() * weight,
          .correct = count_right(logits, samples),
          .weight = weight};
}

} // namespace eg::training
