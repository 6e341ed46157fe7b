#pragma once
// What the tasks with a BERT share: the way through its blocks, and what checkpoints remember of it. For the tasks of
// this folder.

#include "nn/bert.h"
#include "training/checkpoint_state.h"
#include "training/classify.h"
#include "training/model_task.h"
#include "training/passage.h"

#include <memory>
#include <string>

namespace eg::training {

/// Throws ValueError when the options ask for permutations and there is no passage that makes them.
void require_passage(const ClassifyOptions& options, const Passage* passage);

class BertModelTask : public HubModelTask {
public:
  nlohmann::ordered_json options_json() const final;
  nlohmann::ordered_json default_options() const final;
  std::vector<std::string> free_options() const final { return {"key"}; }
  void add_state(nlohmann::ordered_json& state) const final;
  void check_state(const nlohmann::json& state, const std::string& checkpoint) const final;
  void save(const CheckpointWriter& writer) const final;
  void load(const std::string& checkpoint, std::int64_t updates) final;
  void save_result(const std::string& folder) const final;

  /// The trainer of a run, begun or resumed.
  static std::unique_ptr<Trainer> trainer(std::unique_ptr<Run> run, std::unique_ptr<BertModelTask> task);

protected:
  /// `passage`: null for the model's own blocks. `source_print`: what checkpoints remember of the data.
  BertModelTask(std::unique_ptr<const ClassifyOptions> options, std::unique_ptr<hub::Model> model,
                std::shared_ptr<Passage> passage, SourcePrint source_print);

  const ClassifyOptions& options() const { return *o_; }
  const nn::Bert& bert() const { return dynamic_cast<const nn::Bert&>(model().module()); }
  /// The last hidden states [B, T, dim] of a part of a training step's batch that begins at its text `first`.
  Tensor hidden_in_step(const nn::BertInput& input, std::int64_t step, std::int64_t first, RandomKey dropout) const;
  /// The same in a test, of texts that begin with test text `first`.
  Tensor hidden_in_test(const nn::BertInput& input, std::int64_t first) const;

private:
  Tensor encode(const Tensor& z, const Tensor& mask, const Passing& passing) const;
  std::int64_t total_steps() const { return o_->steps > 0 ? o_->steps : o_->epochs * steps_per_epoch(); }

  std::unique_ptr<const ClassifyOptions> o_;
  std::shared_ptr<Passage> passage_;
  SourcePrint source_print_;
};

} // namespace eg::training
