// Checkpoints of a training run, and going on from them.

#include "data/bytes.h"
#include "permute/checkpoint.h"
#include "permute/checkpoint_state.h"
#include "permute/training_state.h"

#include <nlohmann/json.hpp>

#include <filesystem>

namespace eg::permute {

std::string VitTrainer::State::state_text(const nlohmann::ordered_json& files) const {
  TrainOptions kept = options;
  kept.resume.clear();
  kept.overwrite = false; // a permission for one run
  nlohmann::ordered_json state{{"format", "equigrad-checkpoint"},
                               {"version", checkpoint_version},
                               {"step", step},
                               {"options", options_json(kept)},
                               {"files", files}};
  if (secret) state["key_fingerprint"] = secret->fingerprint();
  return state.dump(2);
}

std::string VitTrainer::save_checkpoint() {
  State& s = *state_;
  if (s.options.out.empty()) throw ValueError("train: a checkpoint needs a run folder: give out");
  s.claim_folder();
  CheckpointWriter writer(s.options.out, s.step);
  for (std::size_t i = 0; i < s.variants.size(); ++i) {
    const std::string tail = s.suffix(i) + ".safetensors";
    data::save_safetensors(writer.path("model" + tail), s.variants[i].model->state_dict());
    data::save_safetensors(writer.path("optimizer" + tail), optimizer_tensors(*s.variants[i].optimizer, s.names));
  }
  data::write_file(writer.path("state.json"), std::string_view(s.state_text(writer.files()) + "\n"));
  const std::string folder = writer.commit();
  s.saved = true;
  prune_checkpoints(s.options.out, s.step, 2); // two, so that a damaged disk block does not cost the run
  return folder;
}

namespace {

/// The run is resumed in the folder that it was in.
bool goes_on_in_place(const TrainOptions& o) {
  namespace fs = std::filesystem;
  if (o.resume.empty()) return false;
  // RUN or RUN/checkpoints/step-N
  const bool checkpoint = data::file_exists(data::join_path(o.resume, "state.json"));
  const fs::path run = checkpoint ? fs::path(o.resume) / ".." / ".." : fs::path(o.resume);
  std::error_code missing;
  return fs::equivalent(run, o.out, missing);
}

} // namespace

std::string require_free_folder(const TrainOptions& o) {
  if (o.out.empty() || goes_on_in_place(o) || !holds_run(o.out)) return {};
  if (!holds_results(o.out))
    return o.out + " holds the metrics of a run that ended before its first checkpoint, which are replaced";
  const std::vector<std::int64_t> steps = checkpoint_steps(o.out);
  const std::string what =
      fmt::format("{} already holds a run{}", o.out, steps.empty() ? "" : fmt::format(" (step {})", steps.back()));
  if (!o.overwrite)
    throw ValueError(
        fmt::format("train: {}: give another --out{}, or --overwrite", what,
                    steps.empty() ? "" : fmt::format(", or --resume {} to go on", data::shell_word(o.out))));
  return what + ", which is overwritten";
}

void VitTrainer::State::claim_folder() {
  if (claimed) return;
  claimed = true;
  // What require_free_folder has let pass.
  if (!goes_on_in_place(options) && holds_run(options.out)) clear_run(options.out);
}

namespace {

/// Options that may differ between a checkpoint and the run that goes on from it: they do not change what was computed,
/// or, as for precision, the processor has a say in them.
constexpr const char* free_options[] = {"steps",          "epochs",           "out", "resume",      "data_dir",
                                        "evaluate_every", "checkpoint_every", "key", "drift_every", "overwrite",
                                        "precision"};

void require_same_options(const nlohmann::json& then, const TrainOptions& now, const std::string& source) {
  nlohmann::json present = nlohmann::json::parse(options_json(now).dump());
  std::string different;
  for (const auto& [key, value] : present.items()) {
    if (std::find(std::begin(free_options), std::end(free_options), key) != std::end(free_options)) continue;
    const std::string before = then.contains(key) ? then.at(key).dump() : "nothing";
    if (before != value.dump())
      different += fmt::format("{}{} {} (now {})", different.empty() ? "" : ", ", key, before, value.dump());
  }
  if (!different.empty()) throw ValueError(fmt::format("train: {} was made with other options: {}", source, different));
}

} // namespace

void VitTrainer::State::load_variant(Variant& v, const std::string& folder, bool main) {
  const std::string tail = (main ? std::string() : fmt::format("_{}", name_of(v.mode))) + ".safetensors";
  const std::string model_path = data::join_path(folder, "model" + tail);
  try {
    v.model->load_state_dict(data::load_safetensors(model_path).tensors);
  } catch (const FileError&) {
    throw;
  } catch (const Error& e) {
    throw FileError(fmt::format("{}: {}", model_path, e.what()));
  }
  const std::string optimizer_path = data::join_path(folder, "optimizer" + tail);
  load_optimizer_tensors(*v.optimizer, names, data::load_safetensors(optimizer_path).tensors, optimizer_path);
  v.optimizer->set_steps(step);
}

void VitTrainer::State::resume(const std::string& folder) {
  std::string damaged;
  for (const std::string& checkpoint : find_checkpoints(folder)) try {
      resume_from(checkpoint);
      if (!damaged.empty())
        notes.push_back(fmt::format("{} is damaged; going on from {} (step {})", damaged, checkpoint, step));
      if (step == total)
        notes.push_back(fmt::format("{}: training is already complete (step {} of {}); to train further, give more "
                                    "steps or epochs",
                                    folder, step, total));
      return;
    } catch (const DamagedCheckpoint& e) {
      if (damaged.empty()) damaged = e.what();
    }
  throw DamagedCheckpoint(damaged);
}

void VitTrainer::State::resume_from(const std::string& checkpoint) {
  const nlohmann::json state = read_checkpoint_state(checkpoint);
  require_same_options(state["options"], options, checkpoint);
  const std::string fingerprint = state.contains("key_fingerprint") ? state["key_fingerprint"].get<std::string>() : "";
  if (fingerprint != (secret ? secret->fingerprint() : ""))
    throw ValueError(fmt::format("train: {} was made with {}", checkpoint,
                                 state.contains("key_fingerprint") ? "another secret key (or none is given now)"
                                                                   : "no secret key, but one is given now"));
  const auto at = state["step"].get<std::int64_t>();
  if (at > total)
    throw ValueError(fmt::format("train: {} is at step {}, beyond the {} steps asked for", checkpoint, at, total));
  std::vector<std::string> needed;
  for (std::size_t i = 0; i < variants.size(); ++i)
    for (const char* what : {"model", "optimizer"}) needed.push_back(what + suffix(i) + ".safetensors");
  verify_checkpoint_files(checkpoint, state, needed);
  step = at;
  for (std::size_t i = 0; i < variants.size(); ++i) load_variant(variants[i], checkpoint, i + 1 == variants.size());
  loader->seek(epoch_of(step), step % loader->batches_per_epoch());
}

bool unfinished_run(const TrainOptions& options) {
  if (options.out.empty() || data::file_exists(data::join_path(options.out, "model.safetensors")) ||
      checkpoint_steps(options.out).empty())
    return false;
  const auto compared = [](const TrainOptions& o) {
    nlohmann::ordered_json all = options_json(o);
    for (const char* place : {"out", "resume", "data_dir", "overwrite", "precision"}) all.erase(place);
    return all;
  };
  try {
    return compared(options_of_run(options.out)) == compared(options);
  } catch (const DamagedCheckpoint&) {
    return false; // nothing to go on from
  }
}

} // namespace eg::permute
