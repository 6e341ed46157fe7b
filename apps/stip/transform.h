#pragma once
// Transforms one model folder into the cloud's and the user's, as the model's owner does. Paper 004, algorithm 1,
// initialisation; the later version with inner permutations, arXiv 2312.00025v2.

#include "permute/scheme.h"

#include <string>
#include <vector>

namespace eg::stip {

struct TransformJob {
  std::string model;                               ///< folder of Hugging Face's format, or a llama2.c checkpoint
  std::string out;                                 ///< new folder: OUT/cloud and OUT/user
  permute::Scheme scheme = permute::Scheme::stip2; ///< stip1 or stip2
  std::vector<std::string> copies = {};            ///< files that the user gets as they are: tokenizer, preprocessing
};

struct Transformed {
  std::string id, fingerprint; ///< of model and key
  std::string architecture;
  std::int64_t layers = 0, dim = 0;
  std::int64_t cloud_parameters = 0, user_parameters = 0;
  double log2_count = 0.0; ///< of all that was drawn
};

/// x pi with a fresh secret pi on the residual stream: W_q, W_k, W_v and W_1 read it (W' = pi^T W as x W), W_o and W_2
/// write it, gains and biases of norms are on it; stip2 besides permutes within heads Q and K alike, V, and the hidden
/// features of every layer (with rotary positions or shared key heads Q and K stay). Those are drawn from a second key,
/// which is discarded. Weights are f32. `out` appears complete or not at all. Throws FileError for what
/// cannot be read or written, ValueError for another scheme; what an InterruptScope does.
Transformed transform_for_stip(const TransformJob& job);

} // namespace eg::stip
