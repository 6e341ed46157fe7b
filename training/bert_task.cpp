#include "training/bert_task.h"

#include "core/base/bytes.h"
#include "training/elsewhere.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace eg::training {
namespace {

/// The model, which the passage has seen.
std::unique_ptr<hub::Model> entered(std::unique_ptr<hub::Model> model, Passage* passage) {
  if (passage != nullptr) passage->enter(dynamic_cast<nn::Bert&>(model->module()));
  return model;
}

auto learning_here(const Passage* passage) {
  return [passage](std::vector<std::string> learning, const hub::Model& model) {
    if (passage == nullptr) return learning;
    return passage->learning_here(std::move(learning), dynamic_cast<const nn::Bert&>(model.module()));
  };
}

} // namespace

void require_passage(const ClassifyOptions& o, const Passage* passage) {
  if (o.permute != "none" && passage == nullptr)
    throw ValueError(fmt::format("train: permute is {}: permute::bert_run knows how", o.permute));
}

BertModelTask::BertModelTask(std::unique_ptr<const ClassifyOptions> options, std::unique_ptr<hub::Model> model,
                             std::shared_ptr<Passage> passage, SourcePrint source_print)
    : HubModelTask(*options, options->start, entered(std::move(model), passage.get()), learning_here(passage.get())),
      o_(std::move(options)), passage_(std::move(passage)), source_print_(std::move(source_print)) {}

nlohmann::ordered_json BertModelTask::options_json() const { return training::options_json(*o_); }
nlohmann::ordered_json BertModelTask::default_options() const { return training::options_json(ClassifyOptions()); }

void BertModelTask::add_state(nlohmann::ordered_json& state) const {
  HubModelTask::add_state(state);
  remember_sources(state, source_print_);
  if (passage_) passage_->add_state(state);
}

void BertModelTask::check_state(const nlohmann::json& state, const std::string& checkpoint) const {
  HubModelTask::check_state(state, checkpoint);
  require_same_sources(state, checkpoint, source_print_);
  if (passage_) passage_->check_state(state, checkpoint);
}

void BertModelTask::save(const CheckpointWriter& writer) const {
  if (passage_) passage_->save(writer.best());
  HubModelTask::save(writer);
}

void BertModelTask::load(const std::string& checkpoint, std::int64_t updates) {
  HubModelTask::load(checkpoint, updates);
  if (passage_) passage_->load(read_checkpoint_state(checkpoint), total_steps());
}

void BertModelTask::save_result(const std::string& folder) const {
  if (passage_) passage_->finish(const_cast<nn::Bert&>(bert()));
  HubModelTask::save_result(folder);
  if (!passage_) return;
  for (const char* model : {"model", "model-ema"})
    if (const std::string place = join_path(folder, model); folder_exists(place)) passage_->mark(place);
}

Tensor BertModelTask::encode(const Tensor& z, const Tensor& mask, const Passing& passing) const {
  return passage_ ? passage_->encode(bert(), z, mask, passing) : bert().encode(z, mask, passing.dropout);
}

Tensor BertModelTask::hidden_in_step(const nn::BertInput& input, std::int64_t step, std::int64_t first,
                                     RandomKey dropout) const {
  // The blocks' dropout is what blocks elsewhere draw, who know the step alone.
  RandomKey blocks = dropout_key(o_->seed, step);
  if (first > 0) blocks = blocks.fold(static_cast<std::uint64_t>(first));
  return encode(bert().embed(input, dropout.fold(0)), input.attention_mask,
                {.step = step, .first = step * o_->batch + first, .dropout = blocks});
}

Tensor BertModelTask::hidden_in_test(const nn::BertInput& input, std::int64_t first) const {
  return encode(bert().embed(input), input.attention_mask, {.first = first});
}

std::unique_ptr<Trainer> BertModelTask::trainer(std::unique_ptr<Run> run, std::unique_ptr<BertModelTask> task) {
  BertModelTask& begun = *task;
  auto trainer = std::make_unique<Trainer>(std::move(run), std::move(task));
  if (begun.passage_ && begun.o_->resume.empty()) begun.passage_->begin(begun.bert(), begun.total_steps());
  return trainer;
}

} // namespace eg::training
