#pragma once
// Names encoder blocks that another party holds and trains: split learning (Gupta and Raskar, 2018; paper 001, Fig. 3).

#include "nn/block.h"
#include "nn/module.h"
#include "permute/permuted_pass.h"
#include "training/options.h"

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

namespace eg::training {

/// What the party with the blocks must know to train them as this run would: their sizes, and of the options those that
/// an update depends on. run.steps is the number of all steps.
struct EncoderRecipe {
  std::int64_t layers = 0;
  nn::BlockConfig block;
  RunOptions run;
};

/// What the dropout of blocks draws from in a training step, wherever they are.
RandomKey dropout_key(std::uint64_t seed, std::int64_t step);

/// One stack of blocks in training, from the side of the party with the data; apps/split answers. What passes is
/// permuted already, if it is permuted at all. Members throw ConnectionError and ProtocolError (apps/net/errors.h) when
/// the other party cannot be reached or refuses.
class RemoteEncoder {
public:
  RemoteEncoder() = default;
  virtual ~RemoteEncoder() = default;
  RemoteEncoder(const RemoteEncoder&) = delete;
  RemoteEncoder& operator=(const RemoteEncoder&) = delete;

  /// Begins a run. `blocks`: initial weights under their names in the model ("blocks.0.norm1.weight").
  virtual void begin(const EncoderRecipe& recipe, const nn::StateDict& blocks) = 0;
  /// Resumes behind `step` steps of the run called so. Throws DamagedCheckpoint when the other party no longer has that
  /// step.
  virtual void resume(const EncoderRecipe& recipe, const std::string& run, std::int64_t step) = 0;
  /// What the run is called, for checkpoints.
  virtual std::string run() const = 0;

  /// Z [B, T, dim] of training step `step` -> [B, T, dim], one operation of the open tape. `mask`: [B, T], 0 where a
  /// token is padding, or undefined. When the tape asks for its gradient, the blocks take their step.
  virtual Tensor encode(const Tensor& z, const Tensor& mask, std::int64_t step) = 0;
  /// The same in evaluation, outside any step.
  virtual Tensor evaluate(const Tensor& z, const Tensor& mask) = 0;
  /// Has the other party write a checkpoint behind `step` steps, and keep that behind `best` steps whatever comes.
  virtual void save(std::int64_t step, std::optional<std::int64_t> best) = 0;
  /// The blocks' weights as they are now, under their names in the model.
  virtual nn::StateDict blocks() = 0;
};

} // namespace eg::training

namespace eg::training {

/// What is kept of an encoder that was trained elsewhere under a key: the plain weights, the weights as they were
/// trained, or the weights moved to another key for another holder (paper 001, section 5.1).
enum class FinalWeights : std::uint8_t { decrypted, encrypted, rekeyed };
/// "decrypt", "encrypted" or "key", as --finish has them.
std::string_view name_of(FinalWeights final_weights);

/// Split learning: embedding, head, labels and keys here, the encoder's blocks elsewhere (paper 001, Fig. 3).
struct SplitTraining {
  std::shared_ptr<RemoteEncoder> encoder; ///< null: everything is here
  FinalWeights final_weights = FinalWeights::decrypted;
  std::string next_key; ///< of FinalWeights::rekeyed: the secret key file of the next holder
};

/// What a run with its blocks elsewhere is to leave, as its newest checkpoint says; nothing when it does not. Throws
/// FileError.
std::optional<FinalWeights> final_weights_of_run(const std::string& folder);

/// Throws ValueError that names the option when a run with its blocks elsewhere cannot be what it is in one process:
/// clipping by a joint norm, parts of a batch, averages of weights, updates that one side leaves out. `mode`: what is
/// permuted.
void check_split(const RunOptions& options, permute::PermuteMode mode, const SplitTraining& split);

} // namespace eg::training
