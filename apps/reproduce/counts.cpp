// CVPR Figure 8 and paper 001 Figure 5: multiply-adds counted by hearing the operations of an encoder, and what
// permuting costs in a training step.

#include "apps/reproduce/experiments.h"
#include "apps/reproduce/vision.h"
#include "core/call.h"
#include "core/measure/work_meter.h"
#include "core/memory/allocator.h"
#include "core/meta.h"
#include "core/ops/list.h"
#include "nn/init.h"
#include "permute/permuted_pass.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace eg::reproduce {
namespace {

/// Multiply-adds of the calls of linear layers: the numbers of x times the outputs of each.
class LinearCounter : private Recorder {
public:
  LinearCounter() { open_recorder(this); }
  ~LinearCounter() override { close_recorder(this); }
  LinearCounter(const LinearCounter&) = delete;
  LinearCounter& operator=(const LinearCounter&) = delete;

  double multiply_adds() const { return sum_; }

private:
  void record(const Event& event) override {
    constexpr std::array layers = {&linear_op, &linear_gelu_op, &linear_int8_op, &linear_bf16_op};
    if (std::find(layers.begin(), layers.end(), event.op) != layers.end())
      sum_ += static_cast<double>(event.in[0].numel()) * static_cast<double>(event.in[1].size(0));
  }
  bool observes() const override { return true; }
  bool only_counts() const override { return true; }
  double sum_ = 0.0;
};

/// One image through the encoder of the plan's model, in shapes alone.
double recorded_multiply_adds(const nn::VitConfig& config) {
  const MetaTensorScope tensors;
  const MetaCallScope calls;
  const nn::init::SkipScope skip;
  const nn::Vit model(config, RandomKey{});
  const Tensor z = Tensor::zeros({1, config.tokens(), config.encoder.dim}, DType::f32);
  const LinearCounter counter;
  model.encode(z);
  return counter.multiply_adds();
}

nn::VitConfig encoder_of(const Plan& plan) {
  nn::VitConfig config = plan.train.model;
  config.image = plan.count("image");
  config.channels = 3;
  config.classes = plan.count("classes");
  nn::check(config);
  return config;
}

/// d (3 d + d) for Q, K, V and the projection and 2 d m for the MLP, times tokens and blocks.
double derived_multiply_adds(const nn::VitConfig& c) {
  const auto d = static_cast<double>(c.encoder.dim), m = static_cast<double>(c.encoder.mlp);
  return static_cast<double>(c.tokens() * c.layers) * (4.0 * d * d + 2.0 * d * m);
}

/// P_R Z and Z P_C, before the encoder and undone behind it, as products with matrices.
double permutation_products(const nn::VitConfig& c) {
  const auto t = static_cast<double>(c.tokens()), d = static_cast<double>(c.encoder.dim);
  return 2.0 * (t * t * d + t * d * d);
}

/// Flops of the same by gathers, recorded.
double recorded_gathers(const nn::VitConfig& c) {
  const auto key = permute::BlocksKey::random(c.encoder, 1, permute::KeyForm::residual, RandomKey{1, 1});
  const Tensor z = Tensor::zeros({1, c.tokens(), c.encoder.dim}, DType::f32);
  const Tensor rows = permute::row_permutations(1, c.tokens(), RandomKey{1, 2});
  const WorkMeter meter;
  const permute::PermutedPass pass{.rows = rows, .columns = &key.residual};
  pass.leave(pass.enter(z));
  return meter.total().flops;
}

} // namespace

void operation_counts(const Plan& plan, const RunContext&, Outcome& o) {
  const nn::VitConfig config = encoder_of(plan);
  const double passes = plan.number("passes");
  const double heard = recorded_multiply_adds(config), derived = derived_multiply_adds(config);
  const double plain = passes * heard, permuted = passes * (heard + permutation_products(config));
  const auto giga = [](double count) { return std::vector<double>{count / 1e9}; };
  o.setting = fmt::format("encoder of {} blocks, width {}, MLP {}, {} tokens; linear layers of one image, times {:.0f} "
                          "(forward, and twice as much backward, for each of two)",
                          config.layers, config.encoder.dim, config.encoder.mlp, config.tokens(), passes);
  o.lines = {
      {.what = "plain", .paper = "100.4 G", .ours = giga(plain), .unit = "G", .kind = Kind::count},
      {.what = "with four products with permutation matrices",
       .paper = "102.1 G",
       .ours = giga(permuted),
       .unit = "G",
       .kind = Kind::count},
      {.what = "more by products", .paper = "1.7 %", .ours = {100.0 * (permuted / plain - 1.0)}, .kind = Kind::count},
      {.what = "more by gathers",
       .paper = "",
       .ours = {recorded_gathers(config) / 1e9},
       .unit = "G",
       .kind = Kind::count}};
  o.claims = {{.what = "multiply-adds heard from the operations minus those derived from the sizes",
               .value = std::abs(heard - derived),
               .because = "T L (4 d^2 + 2 d m)"},
              {.what = "operations of permuting by gathers",
               .value = recorded_gathers(config),
               .because = "a gather moves, it does not compute"}};
  o.remarks.push_back("products inside attention, norms and activations are not in the paper's count; that the factor "
                      "is 6 follows from its numbers, which it does not explain");
}

namespace {

/// Milliseconds of a step and peak bytes of a run of some steps, after two to warm up.
struct Cost {
  std::vector<double> ms;
  double peak_mb = 0.0;
};

Cost cost_of(const VitOptions& options, std::int64_t steps, const RunContext& work) {
  VitTrainer trainer(options, work.stop);
  const auto step = [&] {
    if (work.stop != nullptr && work.stop->load()) throw Interrupted("reproduce: interrupted while measuring");
    return trainer.train_step();
  };
  step();
  step();
  allocator::reset_peak();
  Cost cost;
  for (std::int64_t i = 0; i < steps; ++i) cost.ms.push_back(1e3 * static_cast<double>(options.batch) / step().per_s);
  cost.peak_mb = static_cast<double>(allocator::stats().peak_bytes) / 1e6;
  return cost;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

} // namespace

void costs_on_the_edge(const Plan& plan, const RunContext& work, Outcome& o) {
  const std::int64_t steps = plan.count("measured_steps"), rounds = plan.count("rounds");
  const std::vector<PermuteMode> modes{PermuteMode::none, PermuteMode::rows, PermuteMode::columns, PermuteMode::both};
  std::vector<Cost> costs(modes.size());
  for (std::int64_t round = 0; round < rounds; ++round)
    for (std::size_t i = 0; i < modes.size(); ++i) { // in turn: the machine may have other work
      if (work.on_progress)
        work.on_progress((static_cast<double>(round) + static_cast<double>(i) / 4.0) / static_cast<double>(rounds),
                         fmt::format("{} permuted", permute::name_of(modes[i])));
      VitOptions options = options_for(plan, work, plan.seeds.front(), {modes[i]});
      options.steps = steps + 2;
      options.epochs = 0;
      options.checkpoint_every = 0;
      const Cost cost = cost_of(options, steps, work);
      costs[i].ms.insert(costs[i].ms.end(), cost.ms.begin(), cost.ms.end());
      costs[i].peak_mb = std::max(costs[i].peak_mb, cost.peak_mb);
    }
  const auto line = [&](const char* what, std::size_t i, const char* paper) {
    o.lines.push_back({.what = fmt::format("{}: time of a step", what),
                       .paper = paper,
                       .ours = {median(costs[i].ms)},
                       .unit = "ms",
                       .decimals = 1});
    o.lines.push_back({.what = fmt::format("{}: peak memory", what),
                       .paper = i == 0   ? "19.3 GiB"
                                : i == 3 ? "19.7 GiB"
                                         : "",
                       .ours = {costs[i].peak_mb},
                       .unit = "MB",
                       .decimals = 1});
  };
  line("plain", 0, "");
  line("tokens permuted", 1, "");
  line("features permuted", 2, "");
  line("both", 3, "");
  o.lines.push_back({.what = "both over plain: time",
                     .paper = "",
                     .ours = {median(costs[3].ms) / median(costs[0].ms)},
                     .unit = "x",
                     .decimals = 3});
  o.lines.push_back({.what = "both over plain: memory",
                     .paper = "1.02 x",
                     .ours = {costs[3].peak_mb / costs[0].peak_mb},
                     .unit = "x",
                     .decimals = 3});
  VitOptions shown_options = options_for(plan, work, plan.seeds.front(), {PermuteMode::none});
  shown_options.checkpoint_every = 0;
  const VitTrainer shown(shown_options, work.stop);
  o.setting = setting_of(shown, 1) + fmt::format("; medians of {} steps in {} rounds, in turn", steps * rounds, rounds);
  o.remarks.push_back("the paper measures ViT-Base at batch 256 on a GPU; convergence curves are those of cvpr-T3, "
                      "which are equal");
}

} // namespace eg::reproduce
