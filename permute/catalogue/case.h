#pragma once
// Defines the input and the result of a catalogue identity's measurement.

#include "core/ops.h"
#include "permute/blocks_key.h"
#include "permute/catalogue/catalogue.h"

namespace eg::permute {

/// One comparison: `value` is to equal `expected`.
struct Comparison {
  std::string what;
  Tensor value, expected;
  double scale = 0.0; ///< absolute difference over this instead of the largest |expected|, where that may be 0
  bool exact = false; ///< must have the same bits
};

/// Two sides of an identity, perhaps for several tensors, and its negative control.
struct Claim {
  std::vector<Comparison> holds;
  std::string control;
  std::vector<Comparison> fails;             ///< the largest error must exceed the control's bound
  bool compare_f64 = true;                   ///< in f32, also compare with the expected side computed in f64
  std::map<std::string, std::int64_t> sizes; ///< where they are not those of the options
  std::int64_t candidates = 0;               ///< tried in the search for counterexamples of a sharp statement

  void equal(std::string what, const Tensor& value, const Tensor& expected) {
    holds.push_back({std::move(what), value, expected, 0.0, false});
  }
  void equal_bits(std::string what, const Tensor& value, const Tensor& expected) {
    holds.push_back({std::move(what), value, expected, 0.0, true});
  }
  void zero(std::string what, const Tensor& value, double scale) {
    holds.push_back({std::move(what), value, Tensor::zeros(value.shape(), value.dtype()), scale, false});
  }
  void differs(std::string what, const Tensor& value, const Tensor& expected) {
    control = std::move(what);
    fails.push_back({control, value, expected, 0.0, false});
  }
};

/// Sizes and numbered random draws: the n-th draw depends on (seed, id, n) alone, so the f32 and f64 runs of a row see
/// the same numbers.
class Case {
public:
  /// round: draws are f32 numbers, so that both precisions start from the same values.
  Case(const VerifyOptions& options, std::string_view id, DType dtype, bool round);

  const VerifyOptions options;
  const DType dtype;

  Tensor normal(const Shape& shape, double stddev = 1.0, double mean = 0.0);
  RandomKey key();
  /// Never the identity.
  Permutation permutation(std::int64_t size);
  /// Neither the identity nor its own inverse: size >= 3.
  Permutation directed_permutation(std::int64_t size);
  /// Not `other`, and not the identity: for negative controls.
  Permutation another(const Permutation& other);
  /// [batch, tokens], one for each sample.
  Tensor rows();

private:
  const RandomKey base_;
  const bool round_;
  std::uint64_t draws_ = 0;
};

/// Rows of the catalogue, by theme.
std::vector<Identity> operator_identities();
std::vector<Identity> batch_norm_identities();
std::vector<Identity> single_head_forward_identities();
std::vector<Identity> single_head_backward_identities();
std::vector<Identity> multi_head_identities();
std::vector<Identity> head_map_identities();
std::vector<Identity> model_identities();
std::vector<Identity> training_identities();
std::vector<Identity> training_case_identities();
std::vector<Identity> mask_identities();
std::vector<Identity> mask_automorphism_identities();
std::vector<Identity> paper001_identities();
std::vector<Identity> privacy_identities();
std::vector<Identity> note_identities();
std::vector<Identity> stip_identities();
std::vector<Identity> stip_security_identities();
std::vector<Identity> structure_identities();
std::vector<Identity> norm_identities();
std::vector<Identity> covector_identities();
std::vector<Identity> routing_identities();
std::vector<Identity> quantisation_identities();
std::vector<Identity> errata_identities();
std::vector<Identity> errata_number_identities();

/// P_R X P_C, along the last two axes.
Tensor both(const Tensor& x, const Permutation& rows, const Permutation& columns);

/// The columns of `x` [n, d <= n] made orthonormal one after the other (Gram and Schmidt, twice); f64.
Tensor orthonormal(const Tensor& x);

/// The tensor of that name. Throws ValueError.
const Tensor& named(const nn::StateDict& tensors, std::string_view name);

} // namespace eg::permute
