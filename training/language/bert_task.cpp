#include "training/language/bert_task.h"

#include <nlohmann/json.hpp>

namespace eg::training {

PermutedEncoder encoder_of(const ClassifyOptions& o, SplitTraining split) {
  if (split.encoder) check_split(o, o.permute, split);
  return PermutedEncoder(o, {.form = o.key_form, .key = o.key, .draws = {.model = "bert"}}, std::move(split));
}

void restore_blocks(nn::Module& bert, const ClassifyOptions& options) {
  if (!permutes_columns(options.permute)) return;
  PermutedEncoder encoder = encoder_of(options, {});
  const nn::BertConfig& config = dynamic_cast<const nn::Bert&>(bert).config;
  encoder.draw_columns(config.encoder, config.layers);
  encoder.uncouple(bert);
}

BertModelTask::BertModelTask(std::unique_ptr<const ClassifyOptions> options, std::unique_ptr<hub::Model> model,
                             PermutedEncoder encoder, DataFingerprint data_fingerprint)
    : HubModelTask(*options, std::move(encoder)), o_(std::move(options)) {
  data_fingerprint_ = std::move(data_fingerprint);
  const nn::BertConfig& config = dynamic_cast<const nn::Bert&>(model->module()).config;
  if (permutes_columns(o_->permute)) encoder_.draw_columns(config.encoder, config.layers);
  add_model(o_->permute, std::move(model), o_->start);
}

nlohmann::ordered_json BertModelTask::options_json() const { return training::options_json(*o_); }
std::vector<OptionInfo> BertModelTask::option_infos() const { return option_table(*o_).infos(*o_); }
nlohmann::ordered_json BertModelTask::default_options() const { return training::options_json(ClassifyOptions()); }

std::pair<nn::BlockConfig, std::int64_t> BertModelTask::blocks_config() const {
  return {bert().config.encoder, bert().config.layers};
}

Tensor BertModelTask::hidden_in_step(const nn::BertInput& input, std::int64_t step, std::int64_t first,
                                     RandomKey dropout) const {
  // The blocks' dropout is what blocks elsewhere draw, who know the step alone.
  RandomKey key = dropout_key(o_->seed, step);
  if (first > 0) key = key.fold(static_cast<std::uint64_t>(first));
  const Tensor z = bert().embed(input, dropout.fold(0));
  const Tensor rows = rows_of(z, step * o_->batch + first, data::Split::train);
  return encoder_.encode(o_->permute, z, input.attention_mask, rows, step,
                         [&](const Tensor& x, const Tensor& mask) { return bert().encode(x, mask, key); });
}

Tensor BertModelTask::hidden_in_test(const nn::BertInput& input, std::int64_t first) const {
  const Tensor z = bert().embed(input);
  // Each test has orders of its own.
  const Tensor rows = rows_of(z, first + (this->step() << 22), data::Split::test);
  return encoder_.encode(o_->permute, z, input.attention_mask, rows, {},
                         [&](const Tensor& x, const Tensor& mask) { return bert().encode(x, mask); });
}

Tensor BertModelTask::rows_of(const Tensor& z, std::int64_t first, data::Split split) const {
  return permutes_rows(o_->permute) ? there(encoder_.rows(first, z.size(0), z.size(1), split)) : Tensor{};
}

} // namespace eg::training
