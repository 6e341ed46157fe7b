// What a VitTrainer keeps in checkpoints and leaves in its run folder.

#include "data/bytes.h"
#include "permute/training_state.h"
#include "training/checkpoint.h"

namespace eg::permute {

std::vector<std::string> VitTrainer::State::checkpoint_files() const {
  std::vector<std::string> files;
  for (std::size_t i = 0; i < variants.size(); ++i)
    for (const char* what : {"model", "optimizer"}) files.push_back(what + suffix(i) + ".safetensors");
  return files;
}

void VitTrainer::State::save(const training::CheckpointWriter& writer) const {
  for (std::size_t i = 0; i < variants.size(); ++i) {
    const std::string tail = suffix(i) + ".safetensors";
    data::save_safetensors(writer.path("model" + tail), variants[i].model->state_dict());
    data::save_safetensors(writer.path("optimizer" + tail), training::optimizer_tensors(*variants[i].optimizer, names));
  }
}

void VitTrainer::State::load_variant(Variant& v, const std::string& folder, std::int64_t step, bool main) {
  const std::string tail = (main ? std::string() : fmt::format("_{}", name_of(v.mode))) + ".safetensors";
  training::load_model_and_optimizer(*v.model, data::join_path(folder, "model" + tail), *v.optimizer, names,
                                     data::join_path(folder, "optimizer" + tail));
  v.optimizer->set_steps(step);
}

void VitTrainer::State::load(const std::string& checkpoint, std::int64_t step) {
  for (std::size_t i = 0; i < variants.size(); ++i)
    load_variant(variants[i], checkpoint, step, i + 1 == variants.size());
}

void VitTrainer::State::add_state(nlohmann::ordered_json& state) const {
  if (secret) state["key_fingerprint"] = secret->fingerprint();
}

void VitTrainer::State::check_state(const nlohmann::json& state, const std::string& checkpoint) const {
  const std::string fingerprint = state.contains("key_fingerprint") ? state["key_fingerprint"].get<std::string>() : "";
  if (fingerprint != (secret ? secret->fingerprint() : ""))
    throw ValueError(fmt::format("train: {} was made with {}", checkpoint,
                                 state.contains("key_fingerprint") ? "another secret key (or none is given now)"
                                                                   : "no secret key, but one is given now"));
}

void VitTrainer::State::save_result(const std::string& folder) const {
  for (std::size_t i = 0; i < variants.size(); ++i)
    data::save_safetensors(data::join_path(folder, "model" + suffix(i) + ".safetensors"),
                           variants[i].model->state_dict());
}

} // namespace eg::permute
