// What a VitTrainer keeps in checkpoints and leaves in its run folder.

#include "core/base/bytes.h"
#include "training/blocks_mark.h"
#include "training/checkpoint.h"
#include "training/checkpoint_state.h"
#include "training/key_state.h"
#include "training/split_blocks.h"
#include "training/vit_state.h"

namespace eg::permute {

std::vector<std::string> VitTrainer::State::checkpoint_files() const {
  std::vector<std::string> files;
  for (std::size_t i = 0; i < variants.size(); ++i)
    for (const char* what : {"model", "optimizer", "ema"})
      if (what != std::string_view("ema") || variants[i].average) files.push_back(what + suffix(i) + ".safetensors");
  return files;
}

void VitTrainer::State::save(const training::CheckpointWriter& writer) const {
  if (split.encoder) split.encoder->save(run->step(), writer.best());
  for (std::size_t i = 0; i < variants.size(); ++i) {
    const std::string tail = suffix(i) + ".safetensors";
    data::save_safetensors(writer.path("model" + tail), variants[i].model->state_dict());
    data::save_safetensors(writer.path("optimizer" + tail), training::optimizer_tensors(*variants[i].optimizer, names));
    if (variants[i].average)
      data::save_safetensors(writer.path("ema" + tail),
                             training::average_tensors(*variants[i].average, nn::parameter_names(*variants[i].model)));
  }
}

void VitTrainer::State::load_variant(Variant& v, const std::string& folder, std::int64_t updates, bool main) {
  const std::string tail = (main ? std::string() : fmt::format("_{}", name_of(v.mode))) + ".safetensors";
  training::load_model_and_optimizer(*v.model, join_path(folder, "model" + tail), *v.optimizer, names,
                                     join_path(folder, "optimizer" + tail));
  v.optimizer->set_steps(updates);
  if (v.average) training::load_average(*v.average, nn::parameter_names(*v.model), join_path(folder, "ema" + tail));
}

void VitTrainer::State::load(const std::string& checkpoint, std::int64_t updates) {
  for (std::size_t i = 0; i < variants.size(); ++i)
    load_variant(variants[i], checkpoint, updates, i + 1 == variants.size());
  if (!split.encoder) return;
  const nlohmann::json state = training::read_checkpoint_state(checkpoint);
  split.encoder->resume(recipe(), state.at("elsewhere").get<std::string>(), state.at("step").get<std::int64_t>());
}

void VitTrainer::State::add_state(nlohmann::ordered_json& state) const {
  training::remember_sources(state, source_print);
  remember_key(state, secret ? &*secret : nullptr);
  if (start) state["model"] = start->model->config();
  if (split.encoder) remember_place(state, split);
}

void VitTrainer::State::check_state(const nlohmann::json& state, const std::string& checkpoint) const {
  training::require_same_sources(state, checkpoint, source_print);
  if (start) training::require_same_model(state, checkpoint, start->model->config());
  require_same_key(state, checkpoint, secret ? &*secret : nullptr);
  require_same_place(state, checkpoint, split.encoder != nullptr);
}

std::optional<nlohmann::json> VitTrainer::State::folder_config() const {
  return start ? std::optional(start->model->config())
               : vision_config(options.model, train_images.class_names(), pixels());
}

void VitTrainer::State::save_result(const std::string& folder) const {
  const std::unique_ptr<nn::Vit> whole = split.encoder ? whole_model(ending_moves()) : nullptr;
  for (std::size_t i = 0; i < variants.size(); ++i) {
    const Variant& v = variants[i];
    const std::string tail = suffix(i) + ".safetensors";
    data::save_safetensors(join_path(folder, "model" + tail), (whole ? *whole : *v.model).state_dict());
    if (v.average)
      data::save_safetensors(join_path(folder, "model_ema" + tail),
                             training::average_tensors(*v.average, nn::parameter_names(*v.model)));
  }
  const nn::Vit& main = whole ? *whole : *variants.back().model;
  const std::optional<nlohmann::json> config = folder_config();
  const bool permuted = permutes_columns(variants.back().mode);
  const std::optional<BlocksMark> mark =
      permuted ? mark_of(split, options.key_form, secret ? &*secret : nullptr) : std::nullopt;
  write_blocks_mark(folder, mark);
  if (!config) return;
  save_vision_model(main, *config, pixels(), join_path(folder, "model"));
  write_blocks_mark(join_path(folder, "model"), mark);
}

} // namespace eg::permute
