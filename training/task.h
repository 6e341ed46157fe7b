#pragma once
// Declares what a training run requires of the model that is trained.

#include "core/base/interrupt.h"
#include "data/dataset.h"
#include "training/checkpoint.h"
#include "training/guard.h"
#include "training/options.h"

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace eg::distributed {
class Communicator;
} // namespace eg::distributed

namespace eg::training {

/// Where a step stands before it is taken.
struct StepContext {
  std::int64_t step = 0;  ///< steps done
  std::int64_t epoch = 0; ///< number of the step's epoch, from 0
  double lr = 0.0;
  StepGuard* guard = nullptr; ///< asked before the update
  StopFlag stop = nullptr;    ///< this process is to stop
  bool* stops = nullptr;      ///< becomes true when some process is to stop
};

/// A step or a test that was just done.
struct MetricsContext {
  data::Split split = data::Split::train;
  std::int64_t step = 0; ///< steps done
  std::int64_t epoch = 0;
  double lr = 0.0;
  double per_s = 0.0; ///< units (images, tokens) a second
};

/// One or several models with their data, loss and optimisers. What a step does depends on the options and the step's
/// number alone, so that a resumed run has the bits of an uninterrupted one.
class Task {
public:
  Task() = default;
  virtual ~Task() = default;
  Task(const Task&) = delete;
  Task& operator=(const Task&) = delete;

  /// All options, as config.json and checkpoints hold them.
  virtual nlohmann::ordered_json options_json() const = 0;
  /// The default options: what an older equigrad did where its checkpoints lack an option.
  virtual nlohmann::ordered_json default_options() const = 0;
  /// What the rows of these options say.
  virtual std::vector<OptionInfo> option_infos() const = 0;
  virtual std::int64_t steps_per_epoch() const = 0;
  /// Joins the processes of the run, before anything else. Throws ValueError for a task that needs one process.
  virtual void join(distributed::Communicator& processes) = 0;
  /// Makes `step` the next one.
  virtual void seek(std::int64_t step) = 0;
  /// Takes the next step of every model, without the update where context.guard refuses it. Returns how many units it
  /// learnt from.
  virtual std::int64_t train(const StepContext& context) = 0;
  /// Measures every model on the test data. When `stop` becomes true it ends early: the values then cover a part of the
  /// data, and the caller discards them. Returns the units of the whole test set.
  virtual std::int64_t test(StopFlag stop) = 0;
  /// What the last train() or test() gave, as a line of metrics.jsonl.
  virtual nlohmann::ordered_json record(const MetricsContext& context) = 0;

  /// Files of a checkpoint beside state.json, without which it is damaged.
  virtual std::vector<std::string> checkpoint_files() const = 0;
  virtual void save(const CheckpointWriter& writer) const = 0;
  /// What other processes than the one that writes do meanwhile.
  virtual void help_to_save() const {}
  /// Reads them back; the optimisers have made `updates`, as many as steps but for those that were skipped. Throws
  /// FileError.
  virtual void load(const std::string& checkpoint, std::int64_t updates) = 0;
  /// Adds to state.json what load() must find again: which key, which data.
  virtual void add_state(nlohmann::ordered_json& state) const;
  /// Throws ValueError when a checkpoint's state is not this run's.
  virtual void check_state(const nlohmann::json& state, const std::string& checkpoint) const;
  /// Writes what came out into the run folder.
  virtual void save_result(const std::string& folder) const = 0;
};

/// What config.json and checkpoints record of a task's options: given as --config, they describe a run from its
/// beginning.
nlohmann::ordered_json recorded_options(const Task& task);

} // namespace eg::training
