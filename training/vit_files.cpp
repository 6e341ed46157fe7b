// What a VitTrainer leaves in its run folder, and its blocks that are elsewhere.

#include "core/base/bytes.h"
#include "data/safetensors.h"
#include "nn/init.h"
#include "training/option.h"
#include "training/vit_task.h"

#include <nlohmann/json.hpp>

namespace eg::training {

void check_split(const VitOptions& o, const SplitTraining& split) {
  option_table(o).check_split(o);
  check_split(o, o.variants.empty() ? o.permute : o.variants.front(), split);
}

std::pair<nn::BlockConfig, std::int64_t> VitTask::blocks_config() const {
  return {o_->model.encoder, o_->model.layers};
}

std::shared_ptr<nn::Vit> VitTask::without_blocks(const nn::Vit& whole) {
  nn::StateDict rest;
  for (const auto& [name, value] : whole.state_dict()) {
    nn::StateDict& part = is_block(name) ? split_start_ : rest;
    part.emplace_back(name, value);
  }
  nn::VitConfig config = o_->model;
  config.layers = 0;
  const nn::init::SkipScope read_right_after;
  auto model = std::make_shared<nn::Vit>(config, RandomKey{});
  model->to(o_->dtype);
  model->load_state_dict(rest);
  return model;
}

std::unique_ptr<nn::Vit> VitTask::whole_model() const {
  const PauseRecording pause;
  std::unique_ptr<nn::Vit> whole;
  {
    const nn::init::SkipScope read_right_after;
    whole = std::make_unique<nn::Vit>(o_->model, RandomKey{});
  }
  whole->to(o_->dtype);
  nn::StateDict all = module().state_dict();
  for (auto& block : encoder_.blocks()) all.push_back(std::move(block));
  whole->load_state_dict(all);
  whole->eval();
  return whole;
}

void VitTask::fetch_blocks() { main_variant().module = whole_model(); }

const nlohmann::json* VitTask::remembered_config() const {
  return material_.start ? &material_.start->model->config() : nullptr;
}

nlohmann::json VitTask::folder_config() const {
  if (material_.start) return material_.start->model->config();
  return vision_config(o_->model, material_.train.class_names(), pixels()).value_or(nlohmann::json());
}

void VitTask::save_result(const std::string& folder) const {
  const std::unique_ptr<nn::Vit> whole = encoder_.elsewhere() ? whole_model() : nullptr;
  if (whole) encoder_.end(*whole);
  const nn::Vit& main = whole ? *whole : vit_of(main_variant());
  write_marked(folder, mark(), [&] {
    for (std::size_t i = 0; i < variants(); ++i) {
      const Variant& v = all_variants()[i];
      const std::string tail = suffix(i) + ".safetensors";
      data::save_safetensors(join_path(folder, "model" + tail), (whole ? *whole : *v.module).state_dict());
      with_average(v, [&] { data::save_safetensors(join_path(folder, "model_ema" + tail), v.module->state_dict()); });
    }
  });
  const nlohmann::json config = folder_config();
  if (config.is_null()) return;
  const std::string model = join_path(folder, "model");
  write_marked(model, mark(), [&] { save_vision_model(main, config, pixels(), model); });
}

VitTrainer::VitTrainer(Parts parts) : Trainer(std::move(parts.run), std::move(parts.task)) {
  task_ = &dynamic_cast<const VitTask&>(task());
}

VitTrainer::VitTrainer(const VitOptions& options, StopFlag stop, const SplitTraining& split,
                       distributed::Communicator* processes)
    : VitTrainer(parts_of(options, stop, split, processes)) {}

VitTrainer::VitTrainer(const VitOptions& options, data::ImageDataset train, data::ImageDataset test,
                       const SplitTraining& split)
    : VitTrainer(parts_of(options, nullptr, std::move(train), std::move(test), split)) {}

const VitOptions& VitTrainer::options() const { return task_->options(); }
const nn::Vit& VitTrainer::model(std::size_t variant) const { return task_->vit(variant); }
nn::StateDict VitTrainer::weights(std::size_t variant) const {
  return task_->encoder().elsewhere() ? task_->whole_model()->state_dict() : model(variant).state_dict();
}
std::vector<Record> VitTrainer::history() const {
  const VitOptions& o = options();
  if (o.resume.empty() || o.out.empty()) return {};
  return read_records(join_path(o.out, "metrics.jsonl"), step(), mode(variants() - 1), unit());
}
const data::ImageDataset& VitTrainer::train_data() const { return task_->train_data(); }
data::Normalization VitTrainer::pixels() const { return task_->pixels(); }
const data::ImageDataset& VitTrainer::test_data() const { return task_->test_data(); }

} // namespace eg::training
