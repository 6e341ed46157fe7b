#include "training/model_task.h"

#include "autograd/tape.h"
#include "core/base/bytes.h"
#include "data/safetensors.h"
#include "nn/mode_scope.h"
#include "training/parameter_groups.h"
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
constexpr const char* average_file = "ema.safetensors";

} // namespace

ModelTask::ModelTask(const RunOptions& options, std::shared_ptr<nn::Module> module, std::vector<std::string> trained)
    : options_(options), module_(std::move(module)), names_(std::move(trained)) {
  module_->eval(); // between steps
  module_->to(options.dtype);
  parameters_ = nn::parameters_named(*module_, names_);
  optimizer_ = optimizer_for(options, *module_, names_);
  if (options.ema > 0.0) average_.emplace(module_->parameters(), options.ema);
}

hub::Model& ModelTask::model() { throw ValueError("train: the model is of none of Hugging Face's families"); }

std::int64_t ModelTask::train(const Place& place) {
  const nn::ModeScope learning(*module_, true);
  const std::int64_t units = draw_batch(place.step);
  const RandomKey dropout = key_of(options_, draw_dropout).fold(static_cast<std::uint64_t>(place.step));
  sums_ = {.counts = has_accuracy()};
  const auto part = [&](std::int64_t first, std::int64_t last) -> PartGradients {
    Tape tape;
    const PartLoss found = loss_of(first, last, dropout.fold(static_cast<std::uint64_t>(first)));
    const double loss = found.loss.item();
    sums_.loss += loss * found.weight;
    sums_.correct += found.correct;
    sums_.weight += found.weight;
    if (!place.guard->admits(loss)) return {};
    return {.loss = loss, .gradients = tape.gradient(found.loss, parameters_)};
  };
  const bool taken = take_step(*optimizer_, options_, options_.batch, place, part);
  if (average_ && taken) average_->update(optimizer_->steps());
  return units;
}

std::int64_t ModelTask::test(StopFlag stop) {
  const PauseRecording pause;
  sums_ = average_sums_ = {.counts = has_accuracy()};
  std::int64_t units = measure(sums_, stop);
  if (average_) {
    const nn::ParameterScope averaged(*module_, average_->values());
    units += measure(average_sums_, stop);
  }
  return units;
}

nlohmann::ordered_json ModelTask::record(const Occasion& o) {
  last_ = {.split = o.split,
           .step = o.step,
           .epoch = o.epoch,
           .loss = sums_.mean_loss(),
           .accuracy = sums_.accuracy(),
           .auc = sums_.auc,
           .ema_loss = no_accuracy,
           .ema_accuracy = no_accuracy,
           .lr = o.lr,
           .per_s = o.per_s};
  nlohmann::ordered_json line{
      {"split", data::name_of(o.split)}, {"step", o.step}, {"epoch", o.epoch}, {"loss", last_.loss}};
  if (sums_.counts) line["accuracy"] = last_.accuracy;
  if (!std::isnan(last_.auc)) line["auc"] = last_.auc;
  if (average_ && o.split == data::Split::test) {
    line["ema_loss"] = last_.ema_loss = average_sums_.mean_loss();
    last_.ema_accuracy = average_sums_.accuracy();
    if (sums_.counts) line["ema_accuracy"] = last_.ema_accuracy;
  }
  line["lr"] = o.lr;
  line[std::string(unit()) + "_per_s"] = o.per_s;
  return line;
}

std::vector<std::string> ModelTask::checkpoint_files() const {
  std::vector<std::string> files{model_file, optimizer_file};
  if (average_) files.emplace_back(average_file);
  return files;
}

void ModelTask::save(const CheckpointWriter& writer) const {
  data::save_safetensors(writer.path(model_file), module_->state_dict());
  data::save_safetensors(writer.path(optimizer_file), optimizer_tensors(*optimizer_, names_));
  if (average_)
    data::save_safetensors(writer.path(average_file), average_tensors(*average_, nn::parameter_names(*module_)));
}

void ModelTask::load(const std::string& checkpoint, std::int64_t updates) {
  load_model_and_optimizer(*module_, join_path(checkpoint, model_file), *optimizer_, names_,
                           join_path(checkpoint, optimizer_file));
  optimizer_->set_steps(updates);
  if (average_) load_average(*average_, nn::parameter_names(*module_), join_path(checkpoint, average_file));
}

void ModelTask::with_average(FunctionRef<void()> save) const {
  if (!average_) return;
  const nn::ParameterScope averaged(*module_, average_->values());
  save();
}

void ModelTask::save_result(const std::string& folder) const {
  save_model(join_path(folder, "model"));
  with_average([&] { save_model(join_path(folder, "model-ema")); });
}

HubModelTask::HubModelTask(const RunOptions& options, const FineTuning& start, std::shared_ptr<hub::Model> model,
                           const LearningHere& here)
    : ModelTask(options, {model, &model->module()},
                [&] {
                  std::vector<std::string> learning = trained_parameters(model->module(), model->bindings(), start);
                  return here ? here(std::move(learning), *model) : learning;
                }()),
      model_(std::move(model)) {}

void HubModelTask::add_state(nlohmann::ordered_json& state) const { state["model"] = model_->config(); }

void HubModelTask::check_state(const nlohmann::json& state, const std::string& checkpoint) const {
  require_same_model(state, checkpoint, model_->config());
}

} // namespace eg::training
