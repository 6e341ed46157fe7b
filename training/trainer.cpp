#include "training/trainer.h"

#include <nlohmann/json.hpp>

namespace eg::training {

Trainer::Trainer(std::unique_ptr<Run> run, std::unique_ptr<ModelTask> task)
    : run_(std::move(run)), task_(std::move(task)) {
  run_->begin(*task_);
  task_->begin_elsewhere();
}

Record Trainer::train_step() {
  run_->train_step();
  return task_->last();
}

Record Trainer::test(StopFlag stop) {
  run_->test(stop);
  return task_->last();
}

nn::StateDict Trainer::plain_weights(std::size_t variant) const {
  nn::StateDict weights = module(variant).state_dict();
  if (!permutes_columns(mode(variant))) return weights;
  for (auto& [name, value] : weights) value = value.to(Device::cpu()); // where the moves are made
  return task_->encoder().uncoupled(weights);
}

nlohmann::ordered_json Trainer::options_json() const { return task_->options_json(); }

Record Trainer::test_without_key(StopFlag stop) {
  task_->forget_key();
  const Record found = test(stop);
  if (stop != nullptr && stop->load()) throw Interrupted("train: interrupted while tested without the key");
  return found;
}

Result Trainer::run(const Callbacks& callbacks, StopFlag stop) {
  Result result;
  double units = 0.0;
  double before = run_->seconds();
  RunCallbacks calls;
  calls.step = [&] {
    result.train = task_->last();
    units += result.train.per_s * (run_->seconds() - before);
    before = run_->seconds();
    if (callbacks.step) callbacks.step(result.train);
  };
  calls.test = [&] {
    if (callbacks.test) callbacks.test(task_->last());
  };
  calls.checkpoint = callbacks.checkpoint;
  calls.skipped = callbacks.skipped;
  calls.epoch = callbacks.epoch;
  calls.ends = callbacks.ends;
  {
    struct Told {
      ModelTask& task;
      ~Told() { task.on_testing({}); } // also when the run throws: what the function refers to ends with this call
    } const told{*task_};
    task_->on_testing(callbacks.testing);
    run_->run(calls, stop);
  }
  result.steps = run_->step();
  result.seconds = run_->seconds();
  result.per_s = result.seconds > 0.0 ? units / result.seconds : 0.0;
  result.test = task_->last();
  result.skipped = run_->skipped();
  result.best = run_->best_step();
  return result;
}

} // namespace eg::training
