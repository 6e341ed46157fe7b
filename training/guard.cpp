#include "training/guard.h"

#include "core/base/bytes.h"
#include "training/checkpoint.h"
#include "training/checkpoint_state.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>

namespace eg::training {
namespace {

constexpr std::size_t remembered = 64, enough = 16;
constexpr const char* key = "guard";

/// A NaN has a sign that says nothing.
double unsigned_nan(double value) { return std::isnan(value) ? std::nan("") : value; }

/// How to train again after a run has stopped.
std::string after_divergence(const std::string& out) {
  if (out.empty()) return {};
  const std::vector<std::int64_t> steps = checkpoint_steps(out);
  if (steps.empty())
    return fmt::format("; {} holds no checkpoint, so that --out {} can be used again", out, shell_word(out));
  return fmt::format("; {} keeps its checkpoint of step {}: give another --out, or --overwrite", out, steps.back());
}

/// The error that ends a run. `who`: "" or which model.
[[noreturn]] void stop(const RunOptions& options, const std::string& what, std::int64_t step, const std::string& who) {
  throw ValueError(fmt::format("train: {} at step {}{}; use a smaller lr or clip{}", what, step, who,
                               after_divergence(options.out)));
}

} // namespace

void StepGuard::begin(std::int64_t step) {
  step_ = step;
  skip_reason_.clear();
}

bool StepGuard::skip(std::string why, double loss, const std::string& who) {
  if (!std::isfinite(loss) && options_.on_divergence == OnDivergence::stop) stop(options_, why, step_, who);
  ++skipped_;
  ++in_a_row_;
  if (in_a_row_ >= options_.skip_limit)
    stop(options_, fmt::format("{} steps in a row were skipped; the last because {}", in_a_row_, why), step_, who);
  skip_reason_ = std::move(why);
  return false;
}

double StepGuard::median() const {
  std::vector<double> sorted(losses_.begin(), losses_.end());
  const auto middle = sorted.begin() + static_cast<std::ptrdiff_t>(sorted.size() / 2);
  std::nth_element(sorted.begin(), middle, sorted.end());
  return *middle;
}

bool StepGuard::check_part(double loss, const std::string& who) {
  if (options_.accumulate == 1) return check_loss(loss, who);
  return std::isfinite(loss) || skip(fmt::format("the loss is {}", unsigned_nan(loss)), loss, who);
}

bool StepGuard::check_loss(double loss, const std::string& who) {
  if (!std::isfinite(loss)) return skip(fmt::format("the loss is {}", unsigned_nan(loss)), loss, who);
  if (options_.spike_guard <= 0.0 || losses_.size() < enough) return true;
  const double usual = median();
  if (loss <= options_.spike_guard * usual) return true;
  return skip(fmt::format("the loss is {:.4g}, above {} times the usual {:.4g}", loss, options_.spike_guard, usual),
              loss, who);
}

bool StepGuard::check_gradients(double norm, double loss, const std::string& who) {
  if (!std::isfinite(norm)) return skip(fmt::format("the gradients' norm is {}", unsigned_nan(norm)), norm, who);
  in_a_row_ = 0;
  if (options_.spike_guard > 0.0) {
    losses_.push_back(loss);
    if (losses_.size() > remembered) losses_.pop_front();
  }
  return true;
}

void StepGuard::add_state(nlohmann::ordered_json& state) const {
  state[key] = {{"refused", skipped_}, {"in_a_row", in_a_row_}, {"losses", losses_}};
}

void StepGuard::read_state(const nlohmann::json& state, const std::string& source) {
  skipped_ = in_a_row_ = 0;
  losses_.clear();
  if (!state.contains(key)) return;
  try {
    const nlohmann::json& kept = state.at(key);
    skipped_ = kept.at("refused").get<std::int64_t>();
    in_a_row_ = kept.at("in_a_row").get<std::int64_t>();
    losses_ = kept.at("losses").get<std::deque<double>>();
  } catch (const nlohmann::json::exception&) {
    throw DamagedCheckpoint(source + ": '" + key + "' does not say which steps were refused");
  }
  if (skipped_ < 0 || in_a_row_ < 0 || in_a_row_ > skipped_ || losses_.size() > remembered)
    throw DamagedCheckpoint(source + ": '" + key + "' does not say which steps were refused");
}

} // namespace eg::training
