#include "training/options.h"

#include "core/device/device.h"
#include "optim/optimizer.h"
#include "training/option.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace eg::training {

DecayOn decay_on_named(std::string_view name) {
  for (const DecayOn on : {DecayOn::all, DecayOn::matrices})
    if (name_of(on) == name) return on;
  throw ValueError(fmt::format("decay_on: '{}' is not one of all, matrices", name));
}

std::string_view name_of(DecayOn on) { return on == DecayOn::all ? "all" : "matrices"; }

OnDivergence on_divergence_named(std::string_view name) {
  for (const OnDivergence what : {OnDivergence::stop, OnDivergence::skip})
    if (name_of(what) == name) return what;
  throw ValueError(fmt::format("on_divergence: '{}' is not one of stop, skip", name));
}

std::string_view name_of(OnDivergence what) { return what == OnDivergence::stop ? "stop" : "skip"; }

BestBy best_by_named(std::string_view name) {
  for (const BestBy by : {BestBy::off, BestBy::loss, BestBy::accuracy})
    if (name_of(by) == name) return by;
  throw ValueError(fmt::format("best: '{}' is not one of off, loss, accuracy", name));
}

Overlap overlap_named(std::string_view name) {
  for (const Overlap overlap : {Overlap::on, Overlap::off})
    if (name_of(overlap) == name) return overlap;
  throw ValueError(fmt::format("overlap: '{}' is not one of on, off", name));
}

std::string_view name_of(Overlap overlap) { return overlap == Overlap::on ? "on" : "off"; }

std::string_view name_of(BestBy by) {
  switch (by) {
  case BestBy::off:
    return "off";
  case BestBy::loss:
    return "loss";
  case BestBy::accuracy:
    return "accuracy";
  }
  return "?";
}

namespace {

/// "" stands for the environment's.
bool is_device_name(const std::string& name) {
  try {
    return name.empty() || !Device::parse(name).str().empty();
  } catch (const ValueError&) {
    return false;
  }
}

bool drops(const RunOptions& o) { return o.schedule == optim::Schedule::Kind::step; }

std::string drops_nothing(const RunOptions& o) {
  return unless(drops(o), "a {} schedule has no drops; a step schedule has", name_of(o.schedule));
}

/// How long a run is, and what a step learns from.
void add_steps(OptionTable<RunOptions>& t, const RunHelp& help) {
  using R = RunOptions;
  t.add("steps", &R::steps, "Training steps (give this or --epochs)")
      .must(not_negative, at_most(most_steps))
      .must([](const R& o) { return unless(o.steps <= 0 || o.epochs <= 0, "and epochs cannot both be given"); })
      .must([](const R& o) { return unless(o.steps != 0 || o.epochs != 0, "or epochs must be given"); })
      .resumes(OnResume::free)
      .in_recipe();
  t.add("epochs", &R::epochs, help.epochs).must(not_negative, at_most(1 << 24)).resumes(OnResume::free);
  t.add("batch", &R::batch, help.batch).must(positive, at_most(1 << 22));
  t.add("accumulate", &R::accumulate, "Parts that a batch is cut into: less memory, gradients averaged, one step")
      .must([](const R& o) {
        return unless(o.accumulate > 0 && o.accumulate <= o.batch, "must be from 1 to the batch of {}, not {}", o.batch,
                      o.accumulate);
      })
      .split(1, "must be 1 with the encoder elsewhere: a step is one round trip there and back");
  t.add(
       "shards", &R::shards,
       "Shards of a batch, whose gradients are summed along a tree: a power of two, on which the bits of a run depend, "
       "not on the number of processes (0: 1, or what mpirun's processes need, at least 8)")
      .must([](const R& o) {
        const bool power =
            o.shards >= 0 && std::has_single_bit(static_cast<std::uint64_t>(std::max<std::int64_t>(o.shards, 1)));
        return unless(power, "must be a power of two, or 0, not {}", o.shards);
      })
      .must([](const R& o) {
        return unless(o.shards <= o.batch, "must be at most the batch of {}, not {}", o.batch, o.shards);
      })
      .split_if([](const R& o) { return o.shards <= 1; },
                "must be 0 or 1 with the encoder elsewhere: a step is one round trip there and back")
      .resumes(OnResume::free);
  t.add(
       "shard_optimizer", &R::shard_optimizer,
       "With mpirun: each process keeps the optimiser's state of its part of the weights, updates it, and receives the "
       "rest: less memory, the same bits")
      .must([](const R& o) {
        if (!o.shard_optimizer) return std::string();
        const Device device = device::usable(o.device);
        return unless(device.is_cpu(), "is for the CPU, not for {}", device.str());
      })
      .resumes(OnResume::beside);
  t.word("overlap", &R::overlap, overlap_named,
         "With mpirun: gradients leave while the backward pass goes on; off: behind it")
      .resumes(OnResume::beside);
}

/// The optimiser, and how its learning rate goes.
void add_optimizer(OptionTable<RunOptions>& t) {
  using R = RunOptions;
  t.add("optimizer", &R::optimizer, "sgd, momentum, nesterov, adam, adamw, rmsprop, lion, adafactor or muon")
      .in_recipe();
  t.add("lr", &R::lr, "Learning rate").must(positive).in_recipe();
  t.word("schedule", &R::schedule, optim::schedule_named, "constant, linear, cosine, step (drops) or one-cycle")
      .in_recipe();
  t.add("warmup", &R::warmup, "Steps of linear warm-up; of one-cycle's rise (0: three tenths of all steps)")
      .must(not_negative)
      .in_recipe();
  t.add("final_fraction", &R::final_fraction,
        "Of the learning rate, at the end of a linear, cosine or one-cycle schedule")
      .must(within(0, 1))
      .idle([](const R& o) {
        return unless(optim::has_final_fraction(o.schedule), "a {} schedule {}", name_of(o.schedule),
                      drops(o) ? "falls by drops (--drop-factor)" : "does not fall");
      })
      .in_recipe();
  t.add("drop_every", &R::drop_every,
        "Steps between the drops of a step schedule (0: a third of the steps after warm-up)")
      .must(not_negative)
      .idle(drops_nothing)
      .in_recipe();
  t.add("drop_factor", &R::drop_factor, "What a drop of a step schedule multiplies the learning rate by")
      .must(factor)
      .idle(drops_nothing)
      .in_recipe();
}

/// What is done to weights and gradients besides.
void add_regularisation(OptionTable<RunOptions>& t, const RunHelp& help) {
  using R = RunOptions;
  t.add("weight_decay", &R::weight_decay,
        "Shrinks weights: added to the gradient by sgd, momentum, nesterov, adam and rmsprop, decoupled otherwise")
      .in_recipe();
  t.word("decay_on", &R::decay_on, decay_on_named,
         "What weight decay acts on: all, or matrices: not biases, gains, position embeddings and class tokens")
      .idle([](const R& o) { return unless(o.weight_decay != 0.0, "there is no weight decay (--weight-decay)"); })
      .in_recipe();
  t.add("layer_decay", &R::layer_decay,
        "Learning rate of a block as a share of the next one's, down to the embeddings: 0.75, say, to fine-tune (1: "
        "all alike)")
      .must(factor)
      .split(1.0, "counts blocks from the head, and no side has all");
  t.add("eps", &R::eps, "Epsilon of Adam, AdamW, RMSprop and Muon's AdamW; 1e-6 keeps f32 twins closer together")
      .idle([](const R& o) {
        return unless(optim::rule_traits(o.optimizer).eps, "{} has no epsilon; adam, adamw, rmsprop and muon have",
                      o.optimizer);
      })
      .in_recipe();
  t.add("clip", &R::clip, "Largest joint norm of the gradients (0: no clipping)")
      .must(not_negative)
      .split(0.0, "needs the joint norm of all gradients, and no side has them all");
  t.add("label_smoothing", &R::label_smoothing, help.label_smoothing).must(probability);
  t.add("ema", &R::ema,
        "Decay of a running average of the weights, which is tested and saved beside them: 0.999, say (0: none)")
      .must(probability)
      .split(0.0, "needs all weights here");
}

void add_numbers(OptionTable<RunOptions>& t) {
  using R = RunOptions;
  t.word("dtype", &R::dtype, dtype_named, "f32 or f64")
      .must([](DType dtype) { return unless(is_floating(dtype), "must be f32 or f64, not {}", name_of(dtype)); })
      .in_recipe();
  t.add("device", &R::device,
        "Where the model is trained: cpu, cuda or cuda:N (default: the device of the run or file that is gone on with, "
        "EQUIGRAD_DEVICE, else cpu); a run may be resumed on another one")
      .must([](const std::string& name) {
        return unless(is_device_name(name), "must be cpu, cuda or cuda:N, not '{}'", name);
      })
      .split_if([](const R& o) { return device::usable(o.device).is_cpu(); },
                "must be cpu with the encoder elsewhere: features go over the network from there")
      .resumes(OnResume::beside);
  t.word("precision", &R::precision, matmul_precision_named,
         "f32, or bf16: matrix products round their operands to bf16 and add in f32, where the processor is faster at "
         "that; weights, gradients and optimiser stay f32")
      .must([](const R& o) {
        return unless(o.precision != MatmulPrecision::int8, "int8 is for weights in 8 bits, which do not train");
      })
      .must([](const R& o) {
        return unless(o.precision == MatmulPrecision::full || o.dtype == DType::f32, "bf16 needs dtype f32");
      })
      .resumes(OnResume::beside)
      .in_recipe();
  t.add("exact", &R::exact,
        "Exact sums: the same bits on every processor, and without dropout of a permuted twin; a step takes several "
        "times as long")
      .must([](const R& o) {
        if (!o.exact) return std::string(); // which asks nothing of the device
        const Device device = device::usable(o.device);
        return unless(device.is_cpu(), "computes on the CPU alone: matrix products have no exact kernel for {}",
                      device.str());
      })
      .must([](const R& o) {
        return unless(!o.exact || o.precision == MatmulPrecision::full, "needs precision f32, not {}",
                      name_of(o.precision));
      })
      .split(false, "is for a model that is here as a whole: the party with the blocks has ordinary sums");
  t.add("seed", &R::seed, "").no_flag();
}

/// How a run is watched: tests, checkpoints, steps that are skipped, metrics.
void add_watching(OptionTable<RunOptions>& t, const RunHelp& help) {
  using R = RunOptions;
  t.add("detect_anomaly", &R::detect_anomaly,
        "Stop at the first operation that gives a NaN or an infinity and say where it stands")
      .must([](const R& o) {
        return unless(!o.detect_anomaly || o.on_divergence == OnDivergence::stop,
                      "stops at the first NaN or infinity; on_divergence skip would go on");
      });
  t.add("evaluate_every", &R::evaluate_every, help.evaluate_every).must(not_negative).resumes(OnResume::free);
  t.add("checkpoint_every", &R::checkpoint_every, "Steps between checkpoints (0: at the end and when interrupted)")
      .must(not_negative)
      .must(
          [](const R& o) { return unless(o.checkpoint_every == 0 || !o.out.empty(), "needs a run folder: give out"); })
      .resumes(OnResume::free);
  t.add("keep", &R::keep, "Newest checkpoints that stay").must(positive).resumes(OnResume::beside);
  t.word("best", &R::best, best_by_named,
         "Keep the checkpoint with the best test too, by loss or accuracy; off: do not")
      .resumes(OnResume::beside);
  t.word("on_divergence", &R::on_divergence, on_divergence_named,
         "When loss or gradients are NaN or infinite: stop, or skip the step's update")
      .split(OnDivergence::stop,
             "must be stop with the encoder elsewhere, which has taken its step when a gradient here turns out "
             "infinite");
  t.add("spike_guard", &R::spike_guard,
        "Skip steps whose loss is above that many times the median of the last 64 (0: none)")
      .must([](double times) {
        return unless(times == 0.0 || (times > 1.0 && std::isfinite(times)), "must be above 1, or 0 for none, not {}",
                      times);
      });
  t.add("skip_limit", &R::skip_limit, "Steps skipped in a row that end the run").must(positive).resumes(OnResume::free);
  t.add("csv", &R::csv, "Write the metrics as metrics.csv too").resumes(OnResume::beside);
  t.add("tensorboard", &R::tensorboard, "Write the metrics as event files for TensorBoard too")
      .resumes(OnResume::beside);
}

void add_run_folder(OptionTable<RunOptions>& t, const RunHelp& help) {
  using R = RunOptions;
  t.add("out", &R::out, help.out).names(OptionPath::run, OnResume::beside);
  t.add("resume", &R::resume,
        "Go on from this run folder or checkpoint; auto: from what --out holds, if it holds a checkpoint")
      .names(OptionPath::run, OnResume::once);
  t.add("overwrite", &R::overwrite, "Remove the run that the run folder holds; without this it is refused")
      .resumes(OnResume::once);
}

} // namespace

OptionTable<RunOptions> run_options(const RunHelp& help) {
  OptionTable<RunOptions> t;
  add_steps(t, help);
  add_optimizer(t);
  add_regularisation(t, help);
  add_numbers(t);
  add_watching(t, help);
  add_run_folder(t, help);
  return t;
}

const OptionTable<RunOptions>& option_table(const RunOptions&) {
  static const OptionTable<RunOptions> table = run_options({});
  return table;
}

void check_run_options(const RunOptions& o) {
  option_table(o).check(o);
  optim::make_optimizer(o.optimizer, {}, o.weight_decay, o.eps); // refuses names and values
}

void require_warmup_in_run(const RunOptions& o) {
  need(o.steps <= 0 || o.warmup <= o.steps, o, o.warmup,
       fmt::format("is {}, and the run has {} steps: the learning rate would never reach lr", o.warmup, o.steps));
}

Reduction reduction_of(const RunOptions& options) { return options.exact ? Reduction::exact : reduction(); }

optim::Schedule schedule_of(const RunOptions& options, std::int64_t total_steps) {
  return {.kind = options.schedule,
          .base = options.lr,
          .warmup = options.warmup,
          .total_steps = total_steps,
          .final_fraction = options.final_fraction,
          .drop_every = options.drop_every,
          .drop_factor = options.drop_factor};
}

} // namespace eg::training
