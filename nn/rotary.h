#pragma once
// Computes rotary position embeddings of queries and keys (Su et al., "RoFormer", 2021), and their scalings for texts
// longer than those of training.

#include "core/tensor.h"

#include <cstdint>
#include <vector>

namespace eg::nn {

/// How queries and keys turn with their token's position.
struct RotaryConfig {
  bool on = false;
  double base = 10000.0;                ///< theta: pair i turns by position base^(-2 i / dims)
  bool interleaved = false;             ///< pairs (2i, 2i + 1) instead of halves (i, i + dims / 2)
  std::int64_t dims = 0;                ///< leading features of a head that turn, even; 0: all
  std::vector<double> frequencies = {}; ///< radians a position for each pair, in place of the powers of base
  double amplitude = 1.0;               ///< factor of the turned features of queries and keys (YaRN)
  /// Dynamic NTK scaling: where a call reaches n > trained_positions tokens, base is multiplied by
  /// (dynamic_factor n / trained_positions - dynamic_factor + 1)^(dims / (dims - 2)). 0: off.
  double dynamic_factor = 0.0;
  std::int64_t trained_positions = 0;
};

/// Throws ValueError that names the field when queries of head_dim features cannot turn like this.
void check(const RotaryConfig& config, std::int64_t head_dim);

/// x [B, T, heads, head_dim] turned by its tokens' positions, i64 [T] or [B, T].
Tensor turn(const Tensor& x, const Tensor& positions, const RotaryConfig& config);

/// base^(-2 i / dims) for each of dims / 2 pairs.
std::vector<double> rotary_frequencies(double base, std::int64_t dims);
/// All pairs slower by `factor` (position interpolation; Chen et al., 2023).
std::vector<double> linear_scaled(std::vector<double> frequencies, double factor);

/// Llama 3.1's scaling: wavelengths up to trained / high keep their frequency, those beyond trained / low are slower by
/// `factor`, between them the two are blended.
struct Llama3Scaling {
  double factor = 8.0;
  double low = 1.0;        ///< turns within the trained positions: a pair that makes fewer is slowed by factor
  double high = 4.0;       ///< a pair that makes more keeps its frequency; low < high
  double trained = 8192.0; ///< positions
};
std::vector<double> llama3_scaled(std::vector<double> frequencies, const Llama3Scaling& scaling);

/// YaRN (Peng et al., 2023): pairs that turn more than `fast` times within the trained positions keep their frequency,
/// those that turn less than `slow` times are slower by `factor`, with a linear ramp over pairs between them.
/// Pair i of dims / 2 with frequency f_i becomes (1 - r_i) f_i + r_i f_i / factor, r_i = clamp((i - a) / (b - a), 0,
/// 1), where a and b are the pairs that turn `fast` and `slow` times: dims ln(trained / (2 pi turns)) / (2 ln base).
struct YarnScaling {
  double factor = 1.0;
  double trained = 2048.0; ///< positions
  double fast = 32.0;      ///< turns within the trained positions
  double slow = 1.0;       ///< the same; slow < fast
  bool whole_pairs = true; ///< the ramp begins and ends at whole pairs
};
std::vector<double> yarn_scaled(double base, std::int64_t dims, const YarnScaling& scaling);
/// 0.1 scale ln(factor) + 1, and 1 for factor <= 1: YaRN's amplitude.
double yarn_amplitude(double factor, double scale = 1.0);

} // namespace eg::nn
