#pragma once
// Runs a training: steps, schedule, tests, metrics, checkpoints, resuming, the run folder, interruption. What is
// trained is a Task.

#include "core/base/function_ref.h"
#include "core/base/interrupt.h"
#include "distributed/communicator.h"
#include "training/best.h"
#include "training/guard.h"
#include "training/option.h"
#include "training/run_lock.h"
#include "training/task.h"

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace eg::training {

/// Functions that are called during a training; any may be empty.
struct RunCallbacks {
  std::function<void()> step; ///< after every step
  std::function<void()> test;
  std::function<void(const std::string& folder)> checkpoint;
  std::function<void(const std::string& why)> skipped; ///< after a step whose update was left out
  std::function<void()> epoch; ///< after the last step of an epoch and the test that is due there
  std::function<bool()> ends;  ///< asked after every step (and its test): true ends the run as if it were the last one
};

/// One run of training, from the first step or from a checkpoint to the last.
class Run {
public:
  /// `processes`: those that train together, which must outlive the run; null for this one alone. The first of them
  /// chooses the run folder and writes; the others read what is resumed from.
  /// Locks the run folder (it is made when it is missing) for as long as this lives. Sets options.precision to what is
  /// used, full where gemm::bf16_refusal() refuses bf16 on the CPU, and options.device to the device's whole name.
  /// Throws DeviceError when the device is not there, ValueError when the folder holds another run that may not be
  /// overwritten, FileError.
  explicit Run(RunOptions& options, distributed::Communicator* processes = nullptr);

  /// Sets what is trained, which must live as long as the run, and resumes from options.resume, if given: from the
  /// newest checkpoint that is whole. Throws ValueError, FileError.
  void begin(Task& task);

  /// Takes one step. Returns its line of metrics.
  nlohmann::ordered_json train_step();
  /// Tests. Returns its line of metrics.
  nlohmann::ordered_json test(StopFlag stop);
  /// Trains to the last step (or to the one where callbacks.ends() says so), tests, and writes metrics, checkpoints and
  /// results into the run folder. When `stop` becomes true, writes a checkpoint after the present step and throws
  /// Interrupted.
  void run(const RunCallbacks& callbacks, StopFlag stop);
  /// Writes <out>/checkpoints/step-N: complete or not at all. Returns the folder.
  std::string save_checkpoint();

  const distributed::Communicator& processes() const { return processes_; }
  std::int64_t step() const { return step_; }
  std::int64_t total() const { return total_; }
  std::int64_t epoch_of(std::int64_t step) const;
  /// Seconds in training steps, of this process.
  double seconds() const { return seconds_; }
  /// Steps since the run began whose update was left out.
  std::int64_t skipped() const { return guard_.skipped(); }
  /// Step of the checkpoint that did best in its test; nothing without one.
  std::optional<std::int64_t> best_step() const { return best_ ? best_->step() : std::nullopt; }
  /// Notes for people, to be shown before the first step. One sentence each.
  const std::vector<std::string>& notes() const { return notes_; }
  void note(std::string sentence) { notes_.push_back(std::move(sentence)); }

private:
  class Loop;
  void require_same_run(const Task& task);
  bool asked_to_stop(StopFlag stop) const;
  void resume();
  void resume_from(const std::string& checkpoint);
  void claim_folder();
  bool wants_test() const;

  std::unique_ptr<distributed::Communicator> alone_; ///< where no processes were given
  distributed::Communicator& processes_;
  RunOptions options_; ///< without `out` in processes that do not write
  StopFlag stop_ = nullptr;
  bool stops_ = false;            ///< some process is to stop
  std::unique_ptr<RunLock> lock_; ///< of the run folder; null without one
  Task* task_ = nullptr;
  optim::Schedule schedule_;
  std::int64_t step_ = 0, first_ = 0, total_ = 0, per_epoch_ = 1;
  double seconds_ = 0.0;
  bool discards_later_checkpoints_ =
      false;                   ///< the folder has checkpoints of later steps, which go with the next one that is saved
  std::int64_t saved_at_ = -1; ///< step of the folder's newest checkpoint that is this run's
  StepGuard guard_;
  std::optional<BestCheckpoint> best_;
  bool claimed_ = false;  ///< what another run has left in the folder is gone
  std::string unwritten_; ///< the present step's line of metrics (JSON), which could not be written
  std::vector<std::string> notes_;
};

/// Finds the newest checkpoint of a run or checkpoint folder that is not damaged and calls read(its options, where they
/// stand). Returns the run folder that it lies in. Throws ValueError when it is of another model than `model`;
/// FileError; one that a newer equigrad wrote, or that may not be read, is an error and never passed over.
std::string read_options_of_run(const std::string& folder, const std::string& model,
                                FunctionRef<void(const nlohmann::json& options, const std::string& source)> read);

/// The options that a run or checkpoint folder was made with (`defaults` where it is silent), to resume from it: resume
/// is the folder and out the run's own ("" for a checkpoint that was taken out of its run). Throws as
/// read_options_of_run.
template <class Options>
Options options_to_resume(const std::string& folder, const std::string& model, const Options& defaults) {
  Options options = defaults;
  const std::string run =
      read_options_of_run(folder, model, [&](const nlohmann::json& json, const std::string& source) {
        options = defaults;
        apply_options(options, json, source);
      });
  options.resume = folder;
  options.out = run;
  return options;
}

/// Whether the folder options.out holds a checkpoint with the options `asked` (JSON), found by `found()`. Not compared:
/// where the run is and what it leaves beside its result; what a run completes and was not asked for. `options`: of
/// both.
bool holds_run_with(const std::string& out, const nlohmann::ordered_json& asked, const std::vector<OptionInfo>& options,
                    FunctionRef<nlohmann::ordered_json()> found);

/// Sets options.resume where the folder options.out holds a run with the same options, which options_of_run(folder)
/// reads; sets options.overwrite otherwise, so that a new run replaces what is there.
template <class Options, class OptionsOfRun> void resume_or_restart(Options& options, OptionsOfRun&& options_of_run) {
  if (options.out.empty()) return;
  if (holds_run_with(options.out, options_json(options), option_table(options).infos(options),
                     [&] { return options_json(options_of_run(options.out)); }))
    options.resume = options.out;
  else
    options.overwrite = true;
}

} // namespace eg::training
