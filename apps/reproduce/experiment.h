#pragma once
// Lists the experiments: which table or figure, and the function that reproduces it.

#include "apps/reproduce/outcome.h"
#include "apps/reproduce/plan.h"

#include <atomic>
#include <functional>
#include <memory>
#include <span>
#include <string>

namespace eg::reproduce {

/// The environment of an experiment: its paths and its progress callback.
struct RunContext {
  std::string data_dir; ///< empty: EQUIGRAD_DATA
  std::string folder;   ///< run folders of its trainings are here: a second call resumes them
  const std::atomic<bool>* stop = nullptr;
  std::function<void(double done, const std::string& what)> on_progress; ///< share of the whole; may be empty
};

struct Experiment {
  const char* id;    ///< that of docs/catalogue.md
  const char* title; ///< what is shown
  const char* place; ///< table and paper
  void (*run)(const Plan& plan, const RunContext& work, Outcome& outcome);
  double seconds;     ///< what it took at the small scale on two cores (docs/reproduction.md): the dearest begin first
  bool times = false; ///< some of its numbers are times, which other work on the machine lengthens
};

/// All experiments, in the order of the papers.
std::span<const Experiment> experiments();
/// Throws ValueError with the nearest id.
const Experiment& experiment_named(const std::string& id);

/// Does it: title, place, time and what its function found. Throws Interrupted when work.stop becomes true, and what
/// training throws.
Outcome reproduce(const Experiment& experiment, const Plan& plan, const RunContext& work);

} // namespace eg::reproduce
