#pragma once
// What a VitTrainer holds; shared by training.cpp (steps), training_setup.cpp and training_resume.cpp.

#include "data/loader.h"
#include "permute/key.h"
#include "permute/run_lock.h"
#include "permute/training.h"

#include <fmt/format.h>
#include <nlohmann/json_fwd.hpp>

#include <algorithm>
#include <optional>

namespace eg::permute {

/// Parts of the run that draw random numbers; each has a sequence of its own.
enum Draw : std::uint64_t { draw_weights = 1, draw_columns, draw_rows, draw_dropout, draw_test_rows };

/// One model in training.
struct Variant {
  TrainMode mode = TrainMode::none;
  std::unique_ptr<nn::Vit> model = {};
  std::unique_ptr<optim::Optimizer> optimizer = {};
  std::vector<Tensor> parameters = {};
};

/// Throws ValueError when `out` holds another run that may not be overwritten. Returns what to say when it may be, or
/// "".
std::string require_free_folder(const TrainOptions& options);

struct VitTrainer::State {
  TrainOptions options;
  std::unique_ptr<RunLock> lock; ///< of the run folder; null without one
  data::ImageDataset train, test;
  std::optional<data::Loader> loader;
  std::optional<data::Loader> test_loader;
  std::optional<SecretKey> secret;
  std::optional<VitKey> column_key;
  AxisMap axes;
  PermutationSet columns;
  std::vector<Variant> variants;
  std::vector<std::string> names; ///< of the parameters
  optim::Schedule schedule;
  RandomKey root;
  std::int64_t step = 0, total = 0;
  double seconds = 0.0;
  bool saved = false;   ///< this process has written a checkpoint
  bool claimed = false; ///< what another run has left in the folder is gone
  std::vector<std::string> notes;

  State(const TrainOptions& o, std::unique_ptr<RunLock> lock_, data::ImageDataset train_, data::ImageDataset test_)
      : options(o), lock(std::move(lock_)), train(std::move(train_)), test(std::move(test_)), root{o.seed, 0} {}

  void make_loaders();
  void draw_key();
  void make_variants();
  void resume(const std::string& folder);
  void resume_from(const std::string& checkpoint);
  void claim_folder();
  void load_variant(Variant& variant, const std::string& folder, bool main);
  Tensor rows(std::int64_t first_sample, std::int64_t samples, Draw draw) const;
  const VitKey* key_for(const Variant& v) const { return permutes_columns(v.mode) ? &*column_key : nullptr; }
  bool any(bool (*permutes)(TrainMode)) const {
    return std::any_of(variants.begin(), variants.end(), [&](const Variant& v) { return permutes(v.mode); });
  }
  std::int64_t epoch_of(std::int64_t at) const { return at / loader->batches_per_epoch(); }
  /// d(mean loss)/dw over some images; adds their losses and how many were right to `values`.
  std::vector<Tensor> gradients_of(Variant& variant, const data::Batch& batch, const Tensor& batch_rows,
                                   RandomKey dropout, VariantValues& values);
  VariantValues advance(Variant& variant, const data::Batch& batch, const Tensor& batch_rows, double lr);
  bool wants_drift() const;
  bool wants_test() const;
  std::string suffix(std::size_t i) const {
    return i + 1 == variants.size() ? "" : fmt::format("_{}", name_of(variants[i].mode));
  }
  std::string state_text(const nlohmann::ordered_json& files) const;
};

} // namespace eg::permute
