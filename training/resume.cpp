// The run folder: who may use it, checkpoints, and going on from them.

#include "core/base/bytes.h"
#include "core/base/words.h"
#include "core/device/device.h"
#include "core/gemm/gemm_bf16.h"
#include "training/checkpoint_state.h"
#include "training/option.h"
#include "training/run.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <bit>
#include <filesystem>
#include <iterator>
#include <map>

namespace eg::training {
namespace {

/// The lock of the run folder, with what a killed process left in it removed; null without a folder.
std::unique_ptr<RunLock> lock_folder(const std::string& folder) {
  if (folder.empty()) return nullptr;
  auto lock = std::make_unique<RunLock>(folder);
  remove_leftovers(folder);
  return lock;
}

/// RUN of the path RUN/checkpoints/step-N, however much of it is written out; "" for a checkpoint that lies elsewhere,
/// whose folders are no run's.
std::string run_of(const std::string& checkpoint) {
  namespace fs = std::filesystem;
  const auto plain = [](const fs::path& path) {
    const fs::path normal = path.lexically_normal();
    return normal.has_filename() ? normal : normal.parent_path(); // without a slash at the end
  };
  fs::path path = plain(checkpoint);
  const bool whole = std::distance(path.begin(), path.end()) > 2 && *path.begin() != "..";
  if (!whole) path = plain(fs::absolute(path));
  if (path.parent_path().filename() != "checkpoints") return {};
  return path.parent_path().parent_path().string();
}

/// The run is resumed in the folder that it was in.
bool resumes_in_place(const RunOptions& o) {
  namespace fs = std::filesystem;
  if (o.resume.empty()) return false;
  const bool checkpoint = file_exists(join_path(o.resume, "state.json"));
  const std::string run = checkpoint ? run_of(o.resume) : o.resume;
  std::error_code missing;
  return !run.empty() && fs::equivalent(run, o.out, missing);
}

/// Of a run's complete checkpoints; -1 when there is none, as in a folder whose checkpoint has another name.
std::int64_t newest_step(const std::string& run) {
  const std::vector<std::int64_t> steps = checkpoint_steps(run);
  return steps.empty() ? -1 : steps.back();
}

/// Throws ValueError when `out` holds another run that may not be overwritten. Returns what to say when it may be, or
/// "".
std::string require_free_folder(const RunOptions& o) {
  if (o.out.empty() || resumes_in_place(o)) return {};
  if (const std::string other = foreign_file(o.out); !other.empty() && !o.overwrite)
    throw ValueError(fmt::format("train: {} is no run's, and a run would write over it: give another --out", other));
  if (!holds_run(o.out)) return {};
  if (!holds_results(o.out))
    return o.out + " holds the metrics of a run that ended before its first checkpoint, which are replaced";
  const std::vector<std::int64_t> steps = checkpoint_steps(o.out);
  const std::string what =
      fmt::format("{} already holds a run{}", o.out, steps.empty() ? "" : fmt::format(" (step {})", steps.back()));
  if (!o.overwrite)
    throw ValueError(fmt::format("train: {}: give another --out{}, or --overwrite", what,
                                 steps.empty() ? "" : fmt::format(", or --resume {} to go on", shell_word(o.out))));
  return what + ", which is overwritten";
}

/// Whether a run may be resumed with the value `now` of an option that was `then`.
bool may_resume(OnResume how, const nlohmann::json& then, const nlohmann::json& now) {
  return then == now || how >= OnResume::free || (how == OnResume::same_content && then != "" && now != "");
}

void require_same_options(const nlohmann::json& then, const Task& task, const std::string& source) {
  const nlohmann::json present = task.options_json(), defaults = task.default_options();
  std::map<std::string, OnResume> how;
  for (const OptionInfo& option : task.option_infos()) how[option.key] = option.resume;
  std::string different;
  for (const auto& [key, value] : present.items()) {
    const nlohmann::json& before = (then.contains(key) ? then : defaults).at(key);
    if (!may_resume(how[key], before, value))
      different += fmt::format("{}{} {} (now {})", different.empty() ? "" : ", ", key, before.dump(), value.dump());
  }
  if (!different.empty()) throw ValueError(fmt::format("train: {} was made with other options: {}", source, different));
}

/// The shards of a batch before; 1 where the batch was whole.
std::int64_t recorded_shards(const nlohmann::json& then, const std::string& source) {
  const char* key = option_key(&RunOptions::shards);
  if (!then.contains(key)) return 1;
  if (!then.at(key).is_number_unsigned())
    throw DamagedCheckpoint(fmt::format("{}: {} is {}, not a count", source, key, then.at(key).dump()));
  return std::max<std::int64_t>(then.at(key).get<std::int64_t>(), 1);
}

/// What is wrong with checkpoints that were tried, the newest first.
struct Damage {
  std::size_t count = 0;
  std::string first;

  void add(const DamagedCheckpoint& e) {
    if (count++ == 0) first = e.what();
  }
  std::string words() const {
    return count < 2 ? first : fmt::format("{}; damaged like {} before it", first, count_of(count - 1, "checkpoint"));
  }
};

} // namespace

namespace {

/// The shards of a run that a launcher of MPI started, where they are not given: RunOptions::shards.
void complete_shards(RunOptions& options, const distributed::Communicator& processes) {
  const auto n = static_cast<std::uint64_t>(processes.size());
  const auto batch = static_cast<std::uint64_t>(options.batch);
  if (options.shards == 0 && !processes.transport().empty())
    options.shards =
        static_cast<std::int64_t>(std::max(std::bit_ceil(n), std::min<std::uint64_t>(8, std::bit_floor(batch))));
  need(options.shards == 0 || options.shards <= options.batch, options, options.shards,
       fmt::format("must be at most the batch of {}, not {}", options.batch, options.shards));
  need(!options.shard_optimizer || options.shards > 0, options, options.shard_optimizer,
       "divides the optimiser over processes: start them with mpirun");
  need(processes.alone() || options.shards >= processes.size(), options, options.shards,
       fmt::format("is {}, and there are {} processes: some would have nothing to do", options.shards, n));
}

} // namespace

Run::Run(RunOptions& options, distributed::Communicator* processes)
    : alone_(processes == nullptr ? std::make_unique<distributed::Communicator>() : nullptr),
      processes_(processes == nullptr ? *alone_ : *processes) {
  const Device device = device::usable(options.device);
  options.device = device.str();
  const bool asks_processor = options.precision == MatmulPrecision::bf16 && device.is_cpu();
  const std::string no_bf16 = asks_processor ? gemm::bf16_refusal() : "";
  complete_shards(options, processes_);
  // A processor that others use too may seem slow at bf16 to one process alone.
  if (processes_.decided(!no_bf16.empty()) && asks_processor) options.precision = MatmulPrecision::full;
  std::string overwriting;
  if (processes_.first()) {
    lock_ = lock_folder(options.out);
    overwriting = require_free_folder(options);
  }
  options.out = processes_.broadcast(options.out);
  options_ = options;
  if (!processes_.first()) options_.out.clear();
  if (!overwriting.empty()) notes_.push_back(overwriting);
  if (!no_bf16.empty() && processes_.first()) notes_.push_back("bf16: " + no_bf16);
}

void Run::claim_folder() {
  if (claimed_) return;
  claimed_ = true;
  // What require_free_folder has let pass.
  if (!resumes_in_place(options_) && holds_run(options_.out)) clear_run(options_.out);
}

std::string Run::save_checkpoint() {
  if (options_.out.empty()) throw ValueError("train: a checkpoint needs a run folder: give out");
  claim_folder();
  const std::optional<std::int64_t> best = best_ ? best_->step() : std::nullopt;
  CheckpointWriter writer(options_.out, step_, best);
  task_->save(writer);
  nlohmann::ordered_json state{{"format", "equigrad-checkpoint"},
                               {"version", checkpoint_version},
                               {"step", step_},
                               {"options", recorded_options(*task_)},
                               {"files", writer.files()}};
  if (!unwritten_.empty()) state["unwritten"] = unwritten_;
  guard_.add_state(state);
  task_->add_state(state);
  write_file(writer.path("state.json"), std::string_view(state.dump(2) + "\n"));
  std::string folder = writer.commit();
  saved_at_ = step_;
  discards_later_checkpoints_ = false;
  prune_checkpoints(options_.out, step_, static_cast<std::size_t>(options_.keep), best);
  return folder;
}

void Run::resume() {
  const std::string& folder = options_.resume;
  Damage damage;
  for (const std::string& checkpoint : find_checkpoints(folder)) try {
      resume_from(checkpoint);
      discards_later_checkpoints_ = resumes_in_place(options_) && newest_step(options_.out) > step_;
      if (damage.count > 0)
        notes_.push_back(fmt::format("damaged: {}; going on from {} (step {})", damage.words(), checkpoint, step_));
      else if (discards_later_checkpoints_)
        notes_.push_back(fmt::format("going back to step {}: what {} holds of later steps, up to {}, is given up",
                                     step_, options_.out, newest_step(options_.out)));
      if (step_ == total_)
        notes_.push_back(fmt::format("{}: training is already complete (step {} of {}); to train further, give more "
                                     "steps or epochs",
                                     folder, step_, total_));
      return;
    } catch (const DamagedCheckpoint& e) {
      damage.add(e);
    }
  throw DamagedCheckpoint(damage.words());
}

void Run::resume_from(const std::string& checkpoint) {
  const nlohmann::json state = read_checkpoint_state(checkpoint);
  require_same_options(state["options"], *task_, checkpoint);
  task_->check_state(state, checkpoint);
  const std::int64_t shards = recorded_shards(state["options"], checkpoint);
  if (const auto now = std::max<std::int64_t>(options_.shards, 1); now != shards)
    notes_.push_back(fmt::format("a batch has {} from here on, and had {} before: the bits are no longer those of one "
                                 "run with either",
                                 count_of(static_cast<std::size_t>(now), "shard"), shards));
  const auto at = state["step"].get<std::int64_t>();
  if (at > total_)
    throw ValueError(fmt::format("train: {} is at step {}, beyond the {} steps asked for", checkpoint, at, total_));
  verify_checkpoint_files(checkpoint, state, task_->checkpoint_files());
  guard_.read_state(state, join_path(checkpoint, "state.json"));
  if (guard_.skipped() > at)
    throw DamagedCheckpoint(fmt::format("{}: {} steps of {} were refused", checkpoint, guard_.skipped(), at));
  step_ = at;
  if (resumes_in_place(options_)) saved_at_ = at;
  task_->load(checkpoint, at - guard_.skipped());
  task_->seek(at);
  unwritten_ = state.contains("unwritten") ? state["unwritten"].get<std::string>() : "";
}

std::string read_options_of_run(const std::string& folder, const std::string& model,
                                FunctionRef<void(const nlohmann::json&, const std::string&)> read) {
  Damage damage;
  for (const std::string& checkpoint : find_checkpoints(folder)) try {
      const nlohmann::json state = read_checkpoint_state(checkpoint);
      const nlohmann::json& options = state.at("options");
      // Runs of `train vit` do not say so.
      const std::string of = options.contains("model") && options["model"].is_string() ? options["model"] : "vit";
      if (of != model)
        throw ValueError(fmt::format("train: {} is a run of `train {}`, not of `train {}`", folder, of, model));
      try {
        read(options, join_path(checkpoint, "state.json"));
      } catch (const ValueError& e) {
        throw DamagedCheckpoint(e.what());
      }
      return run_of(checkpoint);
    } catch (const DamagedCheckpoint& e) {
      damage.add(e);
    }
  throw DamagedCheckpoint(damage.words());
}

bool holds_run_with(const std::string& out, const nlohmann::ordered_json& asked, const std::vector<OptionInfo>& options,
                    FunctionRef<nlohmann::ordered_json()> found) {
  if (out.empty() || checkpoint_steps(out).empty()) return false;
  const auto compared = [&](nlohmann::ordered_json all) {
    for (const OptionInfo& option : options) {
      const bool unasked = option.completed && asked.at(option.key) == "";
      if (option.resume >= OnResume::beside || unasked) all.erase(option.key);
    }
    return all;
  };
  try {
    return compared(found()) == compared(asked);
  } catch (const DamagedCheckpoint&) {
    return false; // nothing to resume from
  }
}

} // namespace eg::training
