#pragma once
// Trains a decoder that inverts features to images, from pairs of the attacker's own images (black-box inversion).

#include "core/random.h"
#include "nn/block.h"
#include "permute/permutation.h"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace eg::attacks {

struct DecoderConfig {
  std::int64_t tokens = 64; ///< rows of features, one for each patch
  std::int64_t dim = 64;    ///< numbers of a row
  std::int64_t channels = 3, height = 32, width = 32, patch = 4;
  std::int64_t hidden = 64, layers = 2, heads = 4;

  std::int64_t patch_elements() const { return channels * patch * patch; }
};

/// G of papers 000 (11.2) and 001 (6.2): rows [N, T, dim] -> images [N, C, H, W] in (-1, 1). A linear map with GELU
/// to `hidden`, position embeddings, transformer blocks, LayerNorm, a linear map to patches, tanh: an MAE decoder (He
/// et al., CVPR 2022) with positions at its head and tanh at its end.
class InversionDecoder : public nn::Module {
public:
  /// Throws ValueError when the patches of such an image are not `tokens`, and as nn::Block does.
  InversionDecoder(const DecoderConfig& config, RandomKey key);
  Tensor operator()(const Tensor& features) const;
  const DecoderConfig config;

  nn::Linear enter; ///< [hidden, dim]
  Tensor positions; ///< [1, T, hidden]
  nn::Blocks blocks;
  nn::LayerNorm norm;
  nn::Linear leave; ///< [p, hidden]
};

/// What the attacker has in a step: features [N, T, dim] and the images [N, C, H, W] behind them.
struct Pairs {
  Tensor features, pictures;
};

struct DecoderTraining {
  std::int64_t steps = 400, warmup = 40;
  double lr = 2e-3, weight_decay = 0.01;                   ///< AdamW, cosine
  std::function<void(std::int64_t step)> on_progress = {}; ///< before each step; throws to stop
};

/// Trains a decoder on mean squared error, pairs(step) in each step. Returns the last step's error. Throws NumericError
/// when the error stops being finite.
double train_decoder(InversionDecoder& decoder, const DecoderTraining& training,
                     const std::function<Pairs(std::int64_t step)>& pairs);

/// Pre-training without any pair: `pictures`(step) [N, C, H, W] of the attacker's own, their patches through a linear
/// map drawn from `key` in place of F1, three quarters of the rows zero (He et al., "Masked autoencoders are scalable
/// vision learners", CVPR 2022); all pixels count. The decoder's input map is drawn again afterwards, since the true F1
/// is another map.
void pretrain_decoder(InversionDecoder& decoder, const DecoderTraining& training,
                      const std::function<Tensor(std::int64_t step)>& pictures, RandomKey key);

/// Rows [T, d] of later rounds of one image in the order of the first round's rows: each row is matched with the row
/// that is nearest (assignment), which holds as long as F1 moves less between rounds than patches differ. What a fresh
/// P_R in every round adds to one P_R: nothing. O(e T^2 d + e T^3).
std::vector<permute::Permutation> align_rounds(const std::vector<Tensor>& rounds);

} // namespace eg::attacks
