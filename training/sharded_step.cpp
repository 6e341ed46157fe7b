#include "training/sharded_step.h"

#include "autograd/anomaly.h"
#include "autograd/tape.h"
#include "core/ops.h"
#include "distributed/communicator.h"
#include "training/parameter_groups.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <future>
#include <optional>
#include <type_traits>
#include <utility>

namespace eg::training {
namespace {

/// What a shard gives beside its gradient.
struct ShardValues {
  double loss = 0.0; ///< its mean loss times its samples
  StepSums sums;
  double stops = 0.0; ///< this process is to stop
};
static_assert(std::is_trivially_copyable_v<ShardValues>);

std::string encoded(const std::vector<ShardValues>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(ShardValues)};
}

/// Those of all shards, in order. Throws DistributedError where a process sent too many or too few.
std::vector<ShardValues> decoded(const std::vector<std::string>& of_processes, int shards) {
  std::vector<ShardValues> all(static_cast<std::size_t>(shards));
  for (std::size_t p = 0; p < of_processes.size(); ++p) {
    const distributed::ShardRange range =
        distributed::shards_of(static_cast<int>(p), static_cast<int>(of_processes.size()), shards);
    const std::string& bytes = of_processes[p];
    if (bytes.size() != static_cast<std::size_t>(range.size()) * sizeof(ShardValues))
      throw distributed::DistributedError(
          fmt::format("train: process {} sent the losses of other shards than its {}", p, range.size()));
    std::memcpy(&all[static_cast<std::size_t>(range.first)], bytes.data(), bytes.size());
  }
  return all;
}

distributed::GradientSumOptions sum_options(const RunOptions& options, const std::vector<Tensor>& parameters,
                                            const std::vector<optim::ParameterSettings>& settings) {
  distributed::GradientSumOptions o{.shards = static_cast<int>(options.shards),
                                    .overlap = options.overlap == Overlap::on,
                                    .divided = options.shard_optimizer,
                                    .spread = reduction_of(options) == Reduction::exact}; // its norm needs all sums
  if (options.shard_optimizer) o.whole = DividedOptimizer::whole_parameters(options, parameters, settings);
  return o;
}

} // namespace

ShardedStep::ShardedStep(distributed::Communicator& processes, const RunOptions& options, const nn::Module& module,
                         const std::vector<std::string>& names)
    : processes_(processes), parameters_(nn::parameters_named(module, names)),
      sum_(processes, parameters_, sum_options(options, parameters_, settings_of(options, module, names))) {
  if (options.shard_optimizer)
    divided_ = std::make_unique<DividedOptimizer>(processes, sum_, options, parameters_,
                                                  settings_of(options, module, names), names);
}

bool ShardedStep::take(optim::Optimizer* optimizer, const RunOptions& options, const StepContext& context,
                       LossOfPart loss_of, StepSums& sums, bool& torn, const std::string& who) {
  std::optional<DetectAnomaly> watch;
  if (options.detect_anomaly) watch.emplace();
  const auto shards = static_cast<int>(options.shards);
  const distributed::ShardRange range = sum_.shards();
  std::vector<ShardValues> mine(static_cast<std::size_t>(range.size()));
  std::future<std::vector<std::string>> values;
  for (int k = range.first; k < range.last; ++k) {
    const std::int64_t begin = distributed::shard_begin(options.batch, k, shards);
    const std::int64_t end = distributed::shard_begin(options.batch, k + 1, shards);
    const std::int64_t part = (end - begin + options.accumulate - 1) / options.accumulate;
    ShardValues& found = mine[static_cast<std::size_t>(k - range.first)];
    found.stops = context.stop != nullptr && context.stop->load() ? 1.0 : 0.0;
    for (std::int64_t first = begin; first < end; first += part) {
      const std::int64_t last = std::min(end, first + part);
      sum_.add(k, first == begin, last == end, [&](distributed::GradientSum::Take take) {
        Tape tape;
        const PartLoss loss = loss_of(first, last);
        const double value = loss.loss.item();
        found.loss += value * static_cast<double>(last - first);
        found.sums.add(loss, value);
        if (k + 1 == range.last && last == end) values = processes_.gather_later(encoded(mine));
        const double weight = static_cast<double>(last - first) / static_cast<double>(options.batch);
        tape.gradient_each(weight == 1.0 ? loss.loss : loss.loss * weight, parameters_, take);
      });
    }
  }
  std::vector<Tensor> gradients = sum_.finish();
  double total = 0.0;
  for (const ShardValues& shard : decoded(processes_.wait(std::move(values)), shards)) {
    total += shard.loss;
    sums.loss += shard.sums.loss;
    sums.correct += shard.sums.correct;
    sums.weight += shard.sums.weight;
    if (shard.stops != 0.0 && context.stops != nullptr) *context.stops = true;
  }
  StepGuard& guard = *context.guard;
  const double mean = total / static_cast<double>(options.batch);
  if (!guard.check_loss(mean, who)) return false;
  for (std::size_t i = 0; i < gradients.size(); ++i)
    if (gradients[i].defined()) gradients[i] = gradients[i].to(parameters_[i].device());
  if (!divided_) {
    const double norm =
        options.clip > 0.0 ? optim::clip_gradients(gradients, options.clip) : optim::gradient_norm(gradients);
    if (!guard.check_gradients(norm, mean, who)) return false;
    optimizer->step(gradients, context.lr);
    return true;
  }
  const double norm = divided_->norm(gradients);
  if (!guard.check_gradients(norm, mean, who)) return false;
  torn = true;
  const double scale = options.clip > 0.0 ? optim::clip_factor(norm, options.clip) : 1.0;
  divided_->step(gradients, scale, context.lr);
  torn = false;
  return true;
}

void share_weights(distributed::Communicator& processes, const nn::Module& module) {
  if (processes.alone()) return;
  const PauseRecording pause;
  for (auto& [name, value] : module.state_dict()) {
    Tensor here = value.device().is_cpu() && value.is_contiguous() ? value : value.to(Device::cpu()).clone();
    processes.broadcast(
        {here.mutable_bytes("share_weights"), static_cast<std::size_t>(here.numel()) * size_of(here.dtype())});
    if (here.id() == value.id()) continue;
    Tensor into = value;
    into.copy_from(here);
  }
}

} // namespace eg::training
