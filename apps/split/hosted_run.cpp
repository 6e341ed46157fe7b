#include "apps/split/hosted_run.h"

#include "apps/net/service.h"
#include "apps/split/recipe.h"
#include "core/base/bytes.h"
#include "core/gemm/matmul_precision.h"
#include "core/ops.h"
#include "data/safetensors.h"
#include "nn/heads.h"
#include "nn/init.h"
#include "nn/mode_scope.h"
#include "training/checkpoint_state.h"
#include "training/parameter_groups.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <filesystem>
#include <limits>

namespace eg::split_learning {

using net::ProtocolError;
using net::RefusalCode;
namespace {

enum Draw : std::uint64_t { draw_weights = 1 };

[[noreturn]] void wrong(const std::string& what) { throw ProtocolError(RefusalCode::wrong_tensor, "split: " + what); }

/// What a model's own initialiser gives such parameters.
void draw_parameters(nn::Module& module, RandomKey key) {
  std::uint64_t tag = 0;
  for (nn::Parameter& p : module.named_parameters()) {
    const RandomKey own = key.fold(tag++);
    if (p.value.rank() == 2)
      nn::init::trunc_normal(p.value, 0.02, own);
    else
      nn::init::constant(p.value, p.name.find("norm") != std::string::npos && p.name.ends_with("weight") ? 1.0 : 0.0);
  }
}

} // namespace

EncoderBlocks::EncoderBlocks(std::int64_t layers, const nn::BlockConfig& c) : config(c) {
  const nn::init::SkipScope weights_come_later;
  for (std::int64_t i = 0; i < layers; ++i) {
    blocks_.push_back(std::make_unique<nn::Block>(c, RandomKey{}));
    register_module(fmt::format("blocks.{}", i), *blocks_.back());
  }
}

Tensor EncoderBlocks::operator()(const Tensor& z, const Tensor& mask, RandomKey dropout) const {
  return nn::run_blocks(blocks_, z, {.mask = nn::key_mask(mask, z.size(0), z.size(1))}, dropout);
}

HostedRun::HostedRun(const training::EncoderRecipe& recipe, HostedPlace place)
    : recipe_(recipe), place_(std::move(place)), blocks_(recipe.layers, recipe.block) {
  if (!place_.folder.empty()) {
    lock_ = std::make_unique<training::RunLock>(place_.folder);
    training::remove_leftovers(place_.folder);
  }
  blocks_.to(recipe_.run.dtype);
  names_ = nn::parameter_names(blocks_);
  parameters_ = blocks_.parameters();
  optimizer_ = training::optimizer_for(recipe_.run, blocks_, names_);
  schedule_ = training::schedule_of(recipe_.run, recipe_.run.steps);
}

void HostedRun::put(const std::string& name, const Tensor& value) {
  if (begun_) throw ProtocolError(RefusalCode::unexpected, "split: training has begun; weights come before");
  const auto at = std::find(names_.begin(), names_.end(), name);
  if (at == names_.end()) wrong(fmt::format("the encoder has no weight '{}'", name));
  Tensor& mine = parameters_[static_cast<std::size_t>(at - names_.begin())];
  if (value.dtype() != mine.dtype() || value.shape() != mine.shape())
    wrong(fmt::format("'{}' is {} {}, not {} {}", name, name_of(mine.dtype()), mine.shape().str(),
                      name_of(value.dtype()), value.shape().str()));
  net::require_finite(value, "a weight");
  mine.copy_from(value);
  put_.insert(name);
}

void HostedRun::begin(bool draw) {
  if (begun_) throw ProtocolError(RefusalCode::unexpected, "split: training has begun already");
  if (draw ? !put_.empty() : put_.size() != names_.size())
    throw ProtocolError(RefusalCode::unexpected,
                        fmt::format("split: {} of {} weights are there", put_.size(), names_.size()));
  if (draw) draw_parameters(blocks_, RandomKey{place_.seed, 0}.fold(draw_weights));
  begun_ = true;
}

void HostedRun::require_begun() const {
  if (!begun_) throw ProtocolError(RefusalCode::unexpected, "split: the encoder has no weights yet");
}

void HostedRun::require_input(const Tensor& z, const Tensor& mask) const {
  require_begun();
  const std::int64_t dim = recipe_.block.dim;
  if (z.dtype() != recipe_.run.dtype || z.rank() != 3 || z.size(2) != dim)
    wrong(fmt::format("z must be {} [batch, tokens, {}], not {} {}", name_of(recipe_.run.dtype), dim,
                      name_of(z.dtype()), z.shape().str()));
  if (mask.defined() && (mask.rank() != 2 || mask.size(0) != z.size(0) || mask.size(1) != z.size(1)))
    wrong(fmt::format("mask must be [{}, {}], not {}", z.size(0), z.size(1), mask.shape().str()));
  net::require_finite(z, "z");
}

Tensor HostedRun::forward(std::int64_t step, const Tensor& z, const Tensor& mask) {
  require_input(z, mask);
  const std::int64_t next = waiting_ ? *waiting_ + 1 : step_;
  if (step != next && step != waiting_)
    throw ProtocolError(RefusalCode::out_of_order, fmt::format("split: step {} where step {} is next", step, next));
  if (step >= recipe_.run.steps)
    throw ProtocolError(RefusalCode::out_of_order,
                        fmt::format("split: step {} of a run of {} steps", step, recipe_.run.steps));
  step_ = step; // also when the pass fails: the edge has left out the one that waited
  drop_pending();
  const MatmulPrecisionScope products(recipe_.run.precision);
  Pending now{.tape = std::make_unique<Tape>(), .z = z, .y = {}};
  now.y = blocks_(z, mask, training::dropout_key(place_.seed, step));
  now.tape->close();
  Tensor y = now.y;
  pending_ = std::move(now);
  waiting_ = step;
  return y;
}

Tensor HostedRun::backward(std::int64_t step, const Tensor& dy) {
  require_begun();
  if (!pending_ || waiting_ != step)
    throw ProtocolError(RefusalCode::no_forward, fmt::format("split: no forward pass of step {} is waiting", step));
  if (dy.dtype() != pending_->y.dtype() || dy.shape() != pending_->y.shape())
    wrong(fmt::format("dy must be {} {}, not {} {}", name_of(pending_->y.dtype()), pending_->y.shape().str(),
                      name_of(dy.dtype()), dy.shape().str()));
  net::require_finite(dy, "dy");
  const MatmulPrecisionScope products(recipe_.run.precision);
  std::vector<Tensor> of = parameters_;
  of.push_back(pending_->z);
  const Pending used = std::move(*pending_);
  pending_.reset(); // whatever happens: its tape is used up
  std::vector<Tensor> gradients = used.tape->gradient(used.y, of, dy);
  Tensor dz = gradients.back();
  gradients.pop_back();
  for (const Tensor& g : gradients) net::require_finite(g, "the gradient of a weight");
  optimizer_->step(gradients, schedule_.at(step));
  step_ = step + 1;
  waiting_.reset();
  return dz;
}

Tensor HostedRun::evaluate(const Tensor& z, const Tensor& mask) {
  require_input(z, mask);
  const MatmulPrecisionScope products(recipe_.run.precision);
  const PauseRecording pause;
  const nn::ModeScope evaluating(blocks_, false);
  return blocks_(z, mask, {});
}

Tensor HostedRun::weight(const std::string& name) const {
  require_begun();
  const auto at = std::find(names_.begin(), names_.end(), name);
  if (at == names_.end()) wrong(fmt::format("the encoder has no weight '{}'", name));
  return parameters_[static_cast<std::size_t>(at - names_.begin())];
}

void HostedRun::save(std::int64_t step, std::optional<std::int64_t> best) {
  require_begun();
  const bool skipped = waiting_ && step == *waiting_ + 1; // the edge did not take the step that waits
  if (step != step_ && !skipped)
    throw ProtocolError(RefusalCode::out_of_order,
                        fmt::format("split: step {} cannot be saved at step {}", step, step_));
  if (skipped) {
    drop_pending();
    step_ = step;
  }
  best_ = best;
  write_checkpoint(true);
}

void HostedRun::save_unasked() {
  require_begun();
  write_checkpoint(false);
}

namespace {

/// Whether a checkpoint was written unasked, as far as it can be read.
bool is_unasked(const std::string& checkpoint) {
  try {
    const nlohmann::json state = training::read_checkpoint_state(checkpoint);
    return state.contains("unasked") && state["unasked"] == true;
  } catch (const FileError&) {
    return false;
  }
}

std::string checkpoint_of(const HostedPlace& place, std::int64_t step) {
  return join_path(place.folder, "checkpoints/" + training::checkpoint_name(step));
}

/// Removes checkpoints that were written unasked, but for that of `step`.
void remove_unasked(const HostedPlace& place, std::int64_t step) {
  std::error_code left;
  for (const std::int64_t other : training::checkpoint_steps(place.folder))
    if (other != step && is_unasked(checkpoint_of(place, other)))
      std::filesystem::remove_all(checkpoint_of(place, other), left); // what stays is removed another time
}

} // namespace

void HostedRun::write_checkpoint(bool asked) {
  if (place_.folder.empty()) return;
  const std::vector<std::int64_t> there = training::checkpoint_steps(place_.folder);
  if (!asked) // one that the edge counts on stays one
    asked = std::find(there.begin(), there.end(), step_) != there.end() && !is_unasked(checkpoint_of(place_, step_));
  training::CheckpointWriter writer(place_.folder, step_, best_);
  data::save_safetensors(writer.path("model.safetensors"), blocks_.state_dict());
  data::save_safetensors(writer.path("optimizer.safetensors"), training::optimizer_tensors(*optimizer_, names_));
  nlohmann::ordered_json state{{"format", "equigrad-checkpoint"},
                               {"version", training::checkpoint_version},
                               {"step", step_},
                               {"options", recipe_json(recipe_)},
                               {"updates", optimizer_->steps()},
                               {"peer", place_.peer},
                               {"seed", place_.seed},
                               {"files", writer.files()}};
  if (best_) state["best"] = *best_;
  if (waiting_) state["waiting"] = *waiting_;
  if (!asked) state["unasked"] = true;
  write_file(writer.path("state.json"), std::string_view(state.dump(2) + "\n"));
  writer.commit();
  remove_unasked(place_, step_);
  const auto keep = asked ? static_cast<std::size_t>(place_.keep) : std::numeric_limits<std::size_t>::max();
  training::prune_checkpoints(place_.folder, step_, keep, best_);
}

namespace {

/// Throws ProtocolError when a checkpoint's state is of another peer or of another recipe.
void require_same_run(const nlohmann::json& state, const std::string& checkpoint, const training::EncoderRecipe& recipe,
                      const HostedPlace& place) {
  if (!state.contains("peer") || state["peer"] != place.peer)
    throw ProtocolError(RefusalCode::unknown_run, "split: there is no such run of yours");
  training::EncoderRecipe then = recipe_of(state["options"], checkpoint);
  then.run.steps = recipe.run.steps; // a resumed run may get more
  then.run.precision = recipe.run.precision;
  if (const std::string other = differences(then, recipe); !other.empty())
    throw ProtocolError(RefusalCode::other_recipe, "split: the run began otherwise: " + other);
}

/// The state of a checkpoint of that run whose files are those that were written.
nlohmann::json verified_state(const std::string& checkpoint, const training::EncoderRecipe& recipe,
                              const HostedPlace& place) {
  nlohmann::json state = training::read_checkpoint_state(checkpoint);
  require_same_run(state, checkpoint, recipe, place);
  training::verify_checkpoint_files(checkpoint, state, {"model.safetensors", "optimizer.safetensors"});
  if (!state.contains("updates") || !state["updates"].is_number_unsigned())
    throw training::DamagedCheckpoint(checkpoint + ": state.json does not say how many updates there were");
  return state;
}

/// A damaged checkpoint is as good as none: an earlier one may be whole.
template <class Use> void refuse_damage(std::int64_t step, Use&& use) {
  try {
    use();
  } catch (const training::DamagedCheckpoint&) {
    throw ProtocolError(RefusalCode::no_checkpoint, fmt::format("split: the checkpoint of step {} is damaged", step));
  }
}

} // namespace

void HostedRun::require_restorable(const training::EncoderRecipe& recipe, const HostedPlace& place, std::int64_t step) {
  refuse_damage(step, [&] { verified_state(checkpoint_of(place, step), recipe, place); });
}

void HostedRun::load(const std::string& checkpoint) {
  const nlohmann::json state = verified_state(checkpoint, recipe_, place_);
  training::load_model(blocks_, join_path(checkpoint, "model.safetensors"));
  training::load_optimizer(*optimizer_, names_, join_path(checkpoint, "optimizer.safetensors"));
  optimizer_->set_steps(state["updates"].get<std::int64_t>());
  step_ = state["step"].get<std::int64_t>();
  const auto found = [&](const char* key) -> std::optional<std::int64_t> {
    if (!state.contains(key) || !state[key].is_number_unsigned()) return {};
    return state[key].get<std::int64_t>();
  };
  drop_pending();
  best_ = found("best");
  waiting_ = found("waiting");
  if (state.contains("seed") && state["seed"].is_number_unsigned()) place_.seed = state["seed"].get<std::uint64_t>();
  begun_ = true;
}

void HostedRun::restore(std::optional<std::int64_t> step) {
  std::vector<std::int64_t> there;
  if (!place_.folder.empty()) there = training::checkpoint_steps(place_.folder);
  const std::int64_t wanted = step ? *step : there.empty() ? -1 : there.back();
  if (std::find(there.begin(), there.end(), wanted) == there.end())
    throw ProtocolError(RefusalCode::no_checkpoint,
                        fmt::format("split: there is no checkpoint of step {}; there are {}", wanted,
                                    there.empty() ? "none" : fmt::format("{}", fmt::join(there, ", "))));
  refuse_damage(wanted, [&] { load(checkpoint_of(place_, wanted)); });
}

} // namespace eg::split_learning
