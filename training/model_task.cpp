#include "training/model_task.h"

#include "autograd/tape.h"
#include "data/bytes.h"
#include "data/safetensors.h"
#include "training/run.h"
#include "training/step.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>

namespace eg::training {
namespace {

constexpr const char* model_file = "model.safetensors";
constexpr const char* optimizer_file = "optimizer.safetensors";

/// A module in eval() while this lives, in train() afterwards, whatever was thrown.
class Evaluating {
public:
  explicit Evaluating(nn::Module& module) : module_(module) { module_.eval(); }
  ~Evaluating() { module_.train(); }
  Evaluating(const Evaluating&) = delete;
  Evaluating& operator=(const Evaluating&) = delete;

private:
  nn::Module& module_;
};

} // namespace

ModelTask::ModelTask(const RunOptions& options, std::unique_ptr<hub::Model> model)
    : options_(options), model_(std::move(model)) {
  model_->module().train();
  model_->module().to(options.dtype);
  parameters_ = model_->module().parameters();
  for (const nn::Parameter& p : model_->module().named_parameters()) names_.push_back(p.name);
  optimizer_ = optim::make_optimizer(options.optimizer, parameters_, options.weight_decay, options.eps);
}

std::int64_t ModelTask::train(const Place& place) {
  const std::int64_t units = draw_batch(place.step);
  const RandomKey dropout = key_of(options_, draw_dropout).fold(static_cast<std::uint64_t>(place.step));
  sums_ = {.counts = has_accuracy()};
  take_step(*optimizer_, options_, options_.batch, place.lr, [&](std::int64_t first, std::int64_t last) {
    Tape tape;
    const PartLoss found = loss_of(first, last, dropout.fold(static_cast<std::uint64_t>(first)));
    const double loss = found.loss.item();
    if (!std::isfinite(loss)) throw_diverged(options_, loss, place.step, "");
    sums_.loss += loss * found.weight;
    sums_.correct += found.correct;
    sums_.weight += found.weight;
    return tape.gradient(found.loss, parameters_);
  });
  return units;
}

std::int64_t ModelTask::test(data::StopFlag stop) {
  const Evaluating evaluating(model_->module());
  const PauseRecording pause;
  sums_ = {.counts = has_accuracy()};
  return measure(sums_, stop);
}

nlohmann::ordered_json ModelTask::record(const Occasion& o) {
  last_ = {.split = o.split,
           .step = o.step,
           .epoch = o.epoch,
           .loss = sums_.loss / std::max(sums_.weight, 1.0),
           .accuracy = sums_.counts ? sums_.correct / std::max(sums_.weight, 1.0) : no_accuracy,
           .lr = o.lr,
           .per_s = o.per_s};
  nlohmann::ordered_json line{
      {"split", data::name_of(o.split)}, {"step", o.step}, {"epoch", o.epoch}, {"loss", last_.loss}};
  if (sums_.counts) line["accuracy"] = last_.accuracy;
  line["lr"] = o.lr;
  line[std::string(unit()) + "_per_s"] = o.per_s;
  return line;
}

std::vector<std::string> ModelTask::checkpoint_files() const { return {model_file, optimizer_file}; }

void ModelTask::save(const CheckpointWriter& writer) const {
  data::save_safetensors(writer.path(model_file), model_->module().state_dict());
  data::save_safetensors(writer.path(optimizer_file), optimizer_tensors(*optimizer_, names_));
}

void ModelTask::load(const std::string& checkpoint, std::int64_t step) {
  load_model_and_optimizer(model_->module(), data::join_path(checkpoint, model_file), *optimizer_, names_,
                           data::join_path(checkpoint, optimizer_file));
  optimizer_->set_steps(step);
}

} // namespace eg::training
