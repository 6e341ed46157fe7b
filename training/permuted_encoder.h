#pragma once
// Passes hidden states through a model's blocks in training, permuted or plain, computed here or by another party.

#include "core/base/function_ref.h"
#include "data/dataset.h"
#include "permute/blocks_key.h"
#include "permute/key.h"
#include "permute/permuted_pass.h"
#include "training/blocks_mark.h"
#include "training/remote_encoder.h"

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace eg::training {

/// Which sequences of random numbers a model's permutations are drawn from.
struct PermutationDraws {
  std::string model;          ///< part of a secret key's sites: "vit"
  std::uint64_t columns = 16; ///< of the run's seed, where no key is given
  std::uint64_t rows = 17, test_rows = 18;
};

/// The one place where a run's permutations are: drawn from a secret key or publicly from the seed, coupled to blocks,
/// applied to what passes through them, stored in checkpoints.
class PermutedEncoder {
public:
  struct Options {
    permute::KeyForm form = permute::KeyForm::decoupled;
    std::string key = {}; ///< secret key file; empty: the run's seed
    PermutationDraws draws;
  };
  /// Throws FileError for a key file.
  PermutedEncoder(const RunOptions& run, Options options, SplitTraining split = {});

  /// Draws P_C and the inner permutations of `layers` blocks. Throws ValueError for blocks that have no key of the
  /// form.
  void draw_columns(const nn::BlockConfig& config, std::int64_t layers);
  /// Null where draw_columns() was not called.
  const permute::BlocksKey* column_key() const { return columns_ ? &columns_->key : nullptr; }
  /// Moves a model's blocks by the column key, or back.
  void couple(nn::Module& model) const;
  void uncouple(nn::Module& model) const;
  /// A model's weights without the column key.
  nn::StateDict uncoupled(const nn::StateDict& weights) const;

  /// An order of the tokens for each of `samples` samples, i64 [samples, tokens]; numbered from `first` among those of
  /// training or of tests.
  Tensor rows(std::int64_t first, std::int64_t samples, std::int64_t tokens, data::Split split) const;

  /// Whether another party holds the blocks.
  bool elsewhere() const { return split_.encoder != nullptr; }
  /// P_R^T Enc(P_R Z P_C) P_C^T of Z [B, T, dim] with its mask [B, T] (may be undefined). `rows`: undefined where the
  /// mode permutes none. `step`: of training; none in a test. `blocks`: computes them where they are here.
  Tensor encode(permute::PermuteMode mode, const Tensor& z, const Tensor& mask, const Tensor& rows,
                std::optional<std::int64_t> step,
                FunctionRef<Tensor(const Tensor& z, const Tensor& mask)> blocks) const;

  /// The parameters among `learning` that are trained in this process. With remote blocks, throws ValueError when a
  /// parameter of a block is frozen (the other party trains all of them), or when no parameter before the blocks is
  /// trained (no gradient would reach the blocks).
  std::vector<std::string> trainable_here(std::vector<std::string> learning, const nn::Module& whole) const;
  /// A run of so many steps begins elsewhere with the blocks among these weights.
  void begin(const nn::StateDict& weights, const nn::BlockConfig& config, std::int64_t layers,
             std::int64_t steps) const;
  /// It resumes from a checkpoint's state.
  void resume(const nlohmann::json& state, const nn::BlockConfig& config, std::int64_t layers,
              std::int64_t steps) const;
  /// A checkpoint is written behind `step` steps; that behind `best` steps stays.
  void save(std::int64_t step, std::optional<std::int64_t> best) const;
  /// The blocks that are elsewhere, under their names in the model, as they were trained.
  nn::StateDict blocks() const { return split_.encoder->blocks(); }
  /// Moves blocks that were trained elsewhere to what split.final_weights says.
  void end(nn::Module& whole) const;
  /// From now on features and tokens pass as they are through blocks that are here: what a holder of the encoder sees
  /// that has no key.
  void forget_key();

  /// What checkpoints remember: which key, which run elsewhere. The check throws ValueError for a checkpoint of
  /// another.
  void add_state(nlohmann::ordered_json& state) const;
  void check_state(const nlohmann::json& state, const std::string& checkpoint) const;
  /// What a model folder says of blocks that carry the column key; nothing when they are plain. Throws FileError.
  std::optional<BlocksMark> mark() const;

private:
  struct Columns {
    permute::BlocksKey key;
    permute::AxisMap axes;
    permute::PermutationSet moves;
    nn::BlockConfig config;
    std::int64_t layers = 0;
  };
  permute::BlocksKey key_for(const nn::BlockConfig& config, std::int64_t layers,
                             const permute::SecretKey* secret) const;
  EncoderRecipe recipe(const nn::BlockConfig& config, std::int64_t layers, std::int64_t steps) const;

  RunOptions run_;
  Options options_;
  SplitTraining split_;
  std::optional<permute::SecretKey> secret_;
  std::optional<Columns> columns_;
  bool keyless_ = false; ///< forget_key() was called
};

/// Whether a parameter is one of the blocks'.
bool is_block(const std::string& parameter);

} // namespace eg::training
