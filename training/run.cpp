#include "training/run.h"

#include "core/base/bytes.h"
#include "core/base/json.h"
#include "core/device/device.h"
#include "core/reduction.h"
#include "training/metrics_log.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <optional>

namespace eg::training {
namespace {

using Clock = std::chrono::steady_clock;

/// Says that the results in a run folder are those of its last step; away while the run trains.
std::string complete_mark(const std::string& folder) { return join_path(folder, "complete.json"); }

void unmark_complete(const std::string& folder) {
  std::error_code code;
  std::filesystem::remove(complete_mark(folder), code);
  if (code) throw FileError(fmt::format("{}: cannot remove: {}", complete_mark(folder), code.message()));
}

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

/// Throws DistributedError that names the process and the option where one has another value than process 0.
void require_same_options(distributed::Communicator& processes, const nlohmann::ordered_json& mine) {
  const std::vector<std::string> all = processes.gather(mine.dump());
  const nlohmann::ordered_json first = nlohmann::ordered_json::parse(all.front(), nullptr, false);
  for (std::size_t p = 1; p < all.size(); ++p) {
    if (all[p] == all.front()) continue;
    const nlohmann::ordered_json other = nlohmann::ordered_json::parse(all[p], nullptr, false);
    std::string what = "other options than process 0"; // of another program
    for (const auto& [key, value] : first.items())
      if (other.is_object() && other.contains(key) && other[key] != value) {
        what = fmt::format("{} {}, and process 0 has {}", key, other[key].dump(), value.dump());
        break;
      }
    throw distributed::DistributedError(
        fmt::format("{} has {}", processes.processes()[p].words(static_cast<int>(p)), what));
  }
}

} // namespace

void Task::add_state(nlohmann::ordered_json&) const {}
void Task::check_state(const nlohmann::json&, const std::string&) const {}

nlohmann::ordered_json recorded_options(const Task& task) {
  nlohmann::ordered_json options = task.options_json();
  const nlohmann::ordered_json defaults = task.default_options();
  for (const OptionInfo& option : task.option_infos())
    if (option.resume == OnResume::once) options[option.key] = defaults.at(option.key);
  return options;
}

void Run::begin(Task& task) {
  const ReductionScope sums(reduction_of(options_));
  task_ = &task;
  require_same_run(task);
  task.join(processes_);
  per_epoch_ = task.steps_per_epoch();
  total_ = options_.steps > 0 ? options_.steps : options_.epochs * per_epoch_;
  if (total_ > most_steps)
    throw ValueError(
        fmt::format("train: {} epochs of {} batches are more than {} steps", options_.epochs, per_epoch_, most_steps));
  guard_ = StepGuard(options_);
  schedule_ = schedule_of(options_, total_);
  if (const Device device = device::usable(options_.device); !device.is_cpu())
    notes_.push_back(fmt::format("the model is trained on {}", device.str()));
  if (options_.warmup > total_)
    notes_.push_back(
        fmt::format("the warm-up of {} steps is longer than the run of {}: the learning rate never reaches "
                    "{}",
                    options_.warmup, total_, options_.lr));
  if (!options_.resume.empty()) resume();
  processes_.require_same("the step of the checkpoint that it found", std::to_string(step_));
  if (!options_.out.empty()) best_.emplace(options_, saved_at_);
  if (best_ && !best_->note().empty()) notes_.push_back(best_->note());
  first_ = step_;
}

/// Throws DistributedError where a process trains something else.
void Run::require_same_run(const Task& task) {
  if (processes_.alone()) return;
  nlohmann::ordered_json options = task.options_json(), state;
  for (const OptionInfo& option : task.option_infos())
    if (option.path != OptionPath::none || option.resume >= OnResume::beside) options.erase(option.key);
  task.add_state(state);
  processes_.require_same("the program's version", EQUIGRAD_VERSION);
  require_same_options(processes_, options);
  processes_.require_same("the data", state.dump());
}

/// With several processes the answer that all have agreed on.
bool Run::asked_to_stop(StopFlag stop) const {
  return stops_ || (processes_.alone() && stop != nullptr && stop->load());
}

std::int64_t Run::epoch_of(std::int64_t step) const { return step / per_epoch_; }

nlohmann::ordered_json Run::train_step() {
  const MatmulPrecisionScope products(options_.precision);
  const ReductionScope sums(reduction_of(options_));
  const Clock::time_point begin = Clock::now();
  guard_.begin(step_);
  const StepContext context{step_, epoch_of(step_), schedule_.at(step_), &guard_, stop_, &stops_};
  const std::int64_t units = task_->train(context);
  ++step_;
  const double seconds = seconds_since(begin);
  seconds_ += seconds;
  nlohmann::ordered_json record =
      task_->record({data::Split::train, step_, context.epoch, context.lr, static_cast<double>(units) / seconds});
  if (!guard_.skip_reason().empty()) record["skipped"] = guard_.skip_reason();
  return record;
}

nlohmann::ordered_json Run::test(StopFlag stop) {
  const MatmulPrecisionScope products(options_.precision);
  const ReductionScope sums(reduction_of(options_));
  const Clock::time_point begin = Clock::now();
  const std::int64_t units = task_->test(stop);
  const std::int64_t last = std::max<std::int64_t>(step_, 1) - 1;
  return task_->record({data::Split::test, step_, epoch_of(last), schedule_.at(last),
                        static_cast<double>(units) / seconds_since(begin)});
}

bool Run::wants_test() const {
  if (step_ == total_) return false; // the last test belongs to the result
  if (options_.evaluate_every > 0) return step_ % options_.evaluate_every == 0;
  return options_.epochs > 0 && step_ % per_epoch_ == 0;
}

/// The steps of a run, with what is written and reported between them.
class Run::Loop {
public:
  Loop(Run& run, const RunCallbacks& callbacks, StopFlag stop)
      : run_(run), options_(run.options_), callbacks_(callbacks), stop_(stop) {
    if (!options_.out.empty()) open_folder();
    // The process before may have died between a test and its mark.
    const std::optional<nlohmann::ordered_json> kept = metrics_ ? metrics_->kept_test() : std::nullopt;
    if (run_.processes_.decided(kept.has_value())) keep_best(kept.value_or(nlohmann::ordered_json()));
  }
  void train() {
    if (owes_test()) test();
    bool ended = run_.step_ == run_.total_;
    if (ended) finish();
    while (!ended) {
      leave_if_stopped();
      step();
      if (callbacks_.skipped && !run_.guard_.skip_reason().empty()) callbacks_.skipped(run_.guard_.skip_reason());
      const bool last = run_.step_ == run_.total_;
      if (!last && options_.checkpoint_every > 0 && run_.step_ % options_.checkpoint_every == 0) checkpoint();
      if (run_.wants_test()) test();
      if (last) finish();
      if (callbacks_.epoch && run_.step_ % run_.per_epoch_ == 0) callbacks_.epoch();
      ended = last || (callbacks_.ends && callbacks_.ends());
      if (ended && !last) finish();
    }
  }

private:
  void open_folder() {
    run_.claim_folder();
    unmark_complete(options_.out);
    write_json(join_path(options_.out, "config.json"), recorded_options(*run_.task_));
    const std::int64_t known = run_.step_ - (run_.unwritten_.empty() ? 0 : 1);
    metrics_.emplace(options_, KeptMetrics{.through = options_.resume.empty() ? -1 : known,
                                           .test_again = run_.step_ == run_.total_ && known == run_.step_,
                                           .at = run_.step_});
    if (!run_.unwritten_.empty()) metrics_->write(nlohmann::ordered_json::parse(run_.unwritten_));
    run_.unwritten_.clear();
  }

  /// The run was interrupted before or while it tested at this step.
  bool owes_test() const {
    return run_.processes_.decided(metrics_ && !metrics_->kept_test() && run_.step_ > 0 && !options_.resume.empty() &&
                                   run_.wants_test());
  }
  void step() {
    const nlohmann::ordered_json record = run_.train_step();
    if (metrics_) try {
        metrics_->write(record);
      } catch (const FileError& error) { // the step itself is good
        run_.unwritten_ = record.dump();
        throw FileError(error.what() + rescued());
      }
    if (callbacks_.step) callbacks_.step();
  }
  /// "; checkpoint PATH", or nothing when none can be written. Of several processes the others are at the next step,
  /// and would not help.
  std::string rescued() {
    if (!run_.processes_.alone()) return {};
    try {
      return "; checkpoint " + checkpoint();
    } catch (const Error&) { // also of another party that has blocks
      return {};
    }
  }
  void finish() {
    checkpoint();
    if (tested_at_ != run_.step_) test();
  }
  void test() {
    const nlohmann::ordered_json record = run_.test(stop_);
    run_.stops_ = run_.processes_.any(run_.stops_ || (stop_ != nullptr && stop_->load()));
    leave_if_stopped();
    if (metrics_) metrics_->write(record);
    tested_at_ = run_.step_;
    if (callbacks_.test) callbacks_.test();
    keep_best(record);
  }
  void keep_best(const nlohmann::ordered_json& record) {
    if (!run_.processes_.decided(run_.best_ && run_.best_->improves(record))) return;
    checkpoint();
    if (run_.best_) run_.best_->mark(record);
  }
  /// The checkpoint of the present step, which is written unless it is there.
  std::string checkpoint() {
    const bool there = run_.saved_at_ == run_.step_ && !run_.discards_later_checkpoints_;
    if (!run_.processes_.decided(!options_.out.empty() && !there))
      return options_.out.empty() ? std::string()
                                  : join_path(options_.out, "checkpoints/" + checkpoint_name(run_.step_));
    if (!run_.processes_.first()) {
      run_.task_->help_to_save();
      return {};
    }
    std::string path = run_.save_checkpoint();
    if (callbacks_.checkpoint) callbacks_.checkpoint(path);
    return path;
  }
  void leave_if_stopped() {
    if (!run_.asked_to_stop(stop_)) return;
    const std::string path = checkpoint();
    run_.processes_.barrier(); // a process that exits aborts all; process 0 may still be writing
    throw Interrupted(fmt::format("train: interrupted at step {} of {}{}", run_.step_, run_.total_,
                                  path.empty() ? std::string() : "; checkpoint " + path));
  }

  Run& run_;
  const RunOptions& options_;
  const RunCallbacks& callbacks_;
  StopFlag stop_;
  std::int64_t tested_at_ = -1; ///< step of this loop's last test
  std::optional<MetricsLog> metrics_;
};

void Run::run(const RunCallbacks& callbacks, StopFlag stop) {
  first_ = step_;
  stop_ = stop;
  Loop(*this, callbacks, stop).train();
  if (options_.out.empty()) return;
  task_->save_result(options_.out);
  write_json(complete_mark(options_.out), nlohmann::ordered_json{{"step", step_}});
}

} // namespace eg::training
