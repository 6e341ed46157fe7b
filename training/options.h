#pragma once
// What every training run is told, whatever is trained.

#include "core/dtype.h"
#include "core/products.h"
#include "optim/schedule.h"

#include <cstdint>
#include <string>

namespace eg::training {

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
  bool detect_anomaly = false; ///< look at every value; the first NaN or infinity is an error that says where it arose
  std::string optimizer = "adamw";
  double lr = 1e-3;
  optim::Schedule::Kind schedule = optim::Schedule::Kind::cosine;
  std::int64_t warmup = 0;     ///< steps
  double final_fraction = 0.0; ///< of lr, at the end of a cosine
  double weight_decay = 0.0;   ///< on every parameter
  double eps = 1e-8;           ///< Adam's
  double clip = 0.0;           ///< largest joint norm of the gradients; 0: no clipping
  double label_smoothing = 0.0;
  DType dtype = DType::f32;
  Products precision = Products::full; ///< of matrix products; bf16 needs dtype f32
  std::uint64_t seed = 0;
  /// Steps between tests; 0: after every epoch when epochs are given; always at the end.
  std::int64_t evaluate_every = 0;
  std::int64_t checkpoint_every = 0; ///< steps; 0: at the end and when interrupted
  std::string out;                   ///< run folder; empty: nothing is written
  std::string resume;                ///< run folder or checkpoint to go on from
  bool overwrite = false;            ///< remove the run that `out` holds; without it such a folder is refused
};

/// Most steps of a run: far beyond what a machine can do, and so that steps times batch does not overflow.
inline constexpr std::int64_t most_steps = std::int64_t{1} << 40;

/// Throws ValueError that names the option when a value is out of range or options contradict each other.
void check_run_options(const RunOptions& options);

} // namespace eg::training
