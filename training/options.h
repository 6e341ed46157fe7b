#pragma once
// Defines the options of every training run.

#include "core/dtype.h"
#include "core/gemm/matmul_precision.h"
#include "core/reduction.h"
#include "optim/schedule.h"
#include "training/option_info.h"

#include <cstdint>
#include <string>
#include <string_view>

namespace eg::training {

/// What weight decay acts on: every parameter, or all but biases, gains, and what belongs to a place in the input
/// (training/parameter_groups.h).
enum class DecayOn : std::uint8_t { all, matrices };
/// "all" or "matrices". Throws ValueError.
DecayOn decay_on_named(std::string_view name);
std::string_view name_of(DecayOn on);
/// What becomes of a step whose loss or gradients are no finite numbers.
enum class OnDivergence : std::uint8_t { stop, skip };
/// "stop" or "skip". Throws ValueError that lists them.
OnDivergence on_divergence_named(std::string_view name);
std::string_view name_of(OnDivergence what);

/// Whether gradients leave for other processes while the backward pass goes on.
enum class Overlap : std::uint8_t { on, off };
/// "on" or "off". Throws ValueError that lists them.
Overlap overlap_named(std::string_view name);
std::string_view name_of(Overlap overlap);

/// By which figure of a test a checkpoint is the best one.
enum class BestBy : std::uint8_t { off, loss, accuracy };
/// "off", "loss" or "accuracy". Throws ValueError that lists them.
BestBy best_by_named(std::string_view name);
std::string_view name_of(BestBy by);

/// The options that all runs share; the fields have the command line's names.
struct RunOptions {
  std::string data;        ///< what is learnt from: a data set's name, or a path
  std::string data_dir;    ///< folder with the datasets; empty: EQUIGRAD_DATA
  std::int64_t steps = 0;  ///< one of steps and epochs is given
  std::int64_t epochs = 0; ///< passes over the training data
  std::int64_t batch = 64; ///< samples a step
  /// Parts that a batch is cut into: one after another forward and backward, their gradients averaged, one step. The
  /// result is the whole batch's to rounding, dropout apart, which draws other masks.
  std::int64_t accumulate = 1;
  /// Shards that a batch is cut into, a power of two: their gradients are summed along a balanced binary tree
  /// (distributed/gradient_sum.h), by as many processes as there are. The bits of a run depend on it and not on the
  /// number of processes. 0: the batch stays whole in a process that no launcher of MPI started; else the next power of
  /// two from the number of processes on, at least 8 where the batch has as many samples.
  std::int64_t shards = 0;
  Overlap overlap = Overlap::on; ///< of several processes
  /// Several processes: each keeps the optimiser's state of its part of the weights, updates these, and receives the
  /// rest. The same bits.
  bool shard_optimizer = false;
  bool detect_anomaly = false; ///< look at every value; the first NaN or infinity is an error that says where it arose
  std::string optimizer = "adamw";
  double lr = 1e-3;
  optim::Schedule::Kind schedule = optim::Schedule::Kind::cosine;
  std::int64_t warmup = 0;     ///< steps
  double final_fraction = 0.0; ///< of lr, at the end of a schedule that falls there
  std::int64_t drop_every = 0; ///< steps between the drops of a step schedule; 0: a third of the steps after warm-up
  double drop_factor = 0.1;    ///< of each of them
  double weight_decay = 0.0;
  DecayOn decay_on = DecayOn::all;
  /// Learning rates of blocks: each one's is that share of the one above it (training/parameter_groups.h); 1: all
  /// alike.
  double layer_decay = 1.0;
  double eps = 1e-8; ///< of Adam, AdamW, RMSprop and of Muon's AdamW
  double clip = 0.0; ///< largest joint norm of the gradients; 0: no clipping
  double label_smoothing = 0.0;
  double ema = 0.0; ///< decay of the average of the weights that is tested and saved beside them; 0: none
  DType dtype = DType::f32;
  std::string device; ///< where models are: cpu, cuda or cuda:N; empty: EQUIGRAD_DEVICE, else cpu
  MatmulPrecision precision = MatmulPrecision::full; ///< of matrix products; bf16 needs dtype f32
  /// Sums are exact (core/reduction.h): the same bits on every processor. Without dropout a permuted twin has the bits
  /// of the plain model.
  bool exact = false;
  std::uint64_t seed = 0;
  /// Steps between tests; 0: after every epoch when epochs are given; always at the end.
  std::int64_t evaluate_every = 0;
  std::int64_t checkpoint_every = 0; ///< steps; 0: at the end and when interrupted
  std::int64_t keep = 2;             ///< newest checkpoints that stay
  BestBy best = BestBy::loss;        ///< the checkpoint with the best test stays as well
  OnDivergence on_divergence = OnDivergence::stop;
  double spike_guard = 0.0;     ///< skip steps whose loss is above that many times the usual one; 0: none
  std::int64_t skip_limit = 10; ///< steps skipped in a row that end the run
  bool csv = true;              ///< metrics.csv beside metrics.jsonl
  bool tensorboard = true;      ///< event files for TensorBoard beside them
  std::string out;              ///< run folder; empty: nothing is written
  std::string resume;           ///< run folder or checkpoint to resume from
  bool overwrite = false;       ///< remove the run that `out` holds; without it such a folder is refused
};

/// Most steps of a run: far beyond what a machine can do, and so that steps times batch does not overflow.
inline constexpr std::int64_t most_steps = std::int64_t{1} << 40;

/// What --help says of the options above where models differ.
struct RunHelp {
  const char* epochs = "Passes over the training images";
  const char* batch = "Images a step";
  const char* label_smoothing = "Share of a label spread over all classes";
  const char* evaluate_every = "Steps between tests (0: after every epoch)";
  const char* out = "Run folder (default: out/vit, or the first of out/vit-2, out/vit-3, ... without a run)";
};
/// The rows of these options (training/option.h) but for data and data_dir, which are with those of each model.
OptionTable<RunOptions> run_options(const RunHelp& help);
const OptionTable<RunOptions>& option_table(const RunOptions& options);

/// Throws ValueError that names the option when a value is out of range or options contradict each other.
void check_run_options(const RunOptions& options);

/// For options where the warm-up was asked for: throws ValueError when it is longer than the steps that were given.
void require_warmup_in_run(const RunOptions& options);

/// Exact where the options or a scope around the run say so.
Reduction reduction_of(const RunOptions& options);

/// The learning rates of a run of so many steps.
optim::Schedule schedule_of(const RunOptions& options, std::int64_t total_steps);

} // namespace eg::training
