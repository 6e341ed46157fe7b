#pragma once
// Draws the sizes and numbers that a catalogue identity is measured with.

#include "core/ops.h"
#include "permute/blocks_key.h"
#include "permute/catalogue/catalogue.h"
#include "permute/catalogue/claim.h"

namespace eg::permute {

/// Sizes and numbered random draws: the n-th draw depends on (seed, id, attempt, n) alone, so the f32 and f64 runs of a
/// row see the same numbers.
class Case {
public:
  /// round: draws are f32 numbers, so that both precisions start from the same values.
  /// attempt: another one draws other numbers.
  Case(const VerifyOptions& options, std::string_view id, DType dtype, bool round, std::int64_t attempt = 0);

  const VerifyOptions options;
  const DType dtype;

  Tensor normal(const Shape& shape, double stddev = 1.0, double mean = 0.0);
  RandomKey key();
  /// Never the identity.
  Permutation permutation(std::int64_t size);
  /// Neither the identity nor its own inverse; of two elements, where there is none, the exchange.
  Permutation directed_permutation(std::int64_t size);
  /// Not `other`, and not the identity unless nothing else is left: for negative controls.
  Permutation another(const Permutation& other);
  /// The first permutation that is not the identity and `fits`. Throws ValueError after 1000 that do not.
  Permutation permutation_that(std::int64_t size, const std::function<bool(const Permutation&)>& fits);
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

/// Writes the needs of the rows that need more than the default (needs.cpp).
void set_needs(std::vector<Identity>& rows);

/// P_R X P_C, along the last two axes.
Tensor both(const Tensor& x, const Permutation& rows, const Permutation& columns);

/// The columns of `x` [n, d <= n] made orthonormal one after the other (Gram and Schmidt, twice); f64.
Tensor orthonormal(const Tensor& x);

/// The tensor of that name. Throws ValueError.
const Tensor& named(const nn::StateDict& tensors, std::string_view name);

} // namespace eg::permute
