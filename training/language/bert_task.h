#pragma once
// Holds what the tasks with a BERT share: its blocks' pass, and what checkpoints remember. For the tasks of this
// folder.

#include "nn/bert.h"
#include "training/language/classify.h"
#include "training/model_task.h"

#include <memory>
#include <optional>
#include <string>

namespace eg::training {

class BertModelTask : public HubModelTask {
public:
  nlohmann::ordered_json options_json() const final;
  nlohmann::ordered_json default_options() const final;
  std::vector<OptionInfo> option_infos() const final;

protected:
  BertModelTask(std::unique_ptr<const ClassifyOptions> options, std::unique_ptr<hub::Model> model,
                PermutedEncoder encoder, DataFingerprint data_fingerprint);

  const ClassifyOptions& options() const { return *o_; }
  const nn::Bert& bert() const { return dynamic_cast<const nn::Bert&>(module()); }
  /// The last hidden states [B, T, dim] of a part of a training step's batch that begins at its text `first`.
  Tensor hidden_in_step(const nn::BertInput& input, std::int64_t step, std::int64_t first, RandomKey dropout) const;
  /// The same in a test, of texts that begin with test text `first`.
  Tensor hidden_in_test(const nn::BertInput& input, std::int64_t first) const;
  std::pair<nn::BlockConfig, std::int64_t> blocks_config() const final;

private:
  /// Orders of the tokens of Z's texts, which begin with text `first`; undefined where none are permuted.
  Tensor rows_of(const Tensor& z, std::int64_t first, data::Split split) const;

  std::unique_ptr<const ClassifyOptions> o_;
};

/// What permutes the texts of a run of such options. Throws ValueError for options that a split run cannot have,
/// FileError for a key file.
PermutedEncoder encoder_of(const ClassifyOptions& options, SplitTraining split);

} // namespace eg::training
