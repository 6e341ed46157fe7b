// Attacks on the weights that a cloud holds.

#include "apps/attacks/attack_views.h"
#include "apps/attacks/metrics.h"
#include "permute/recovery/key_recovery.h"
#include "permute/recovery/matching.h"
#include "permute/recovery/vocabulary.h"

#include "core/call.h"
#include "core/ops.h"

#include <fmt/format.h>

namespace eg::attacks {
namespace {

constexpr const char* plain_weights = "the weights are plain: nothing is hidden";

Findings match_weights(const Setting& s) {
  const Scene scene(s);
  if (!scene.moves_features()) return nothing(plain_weights);
  if (scene.cloud.map.defined()) return nothing("there is no permutation to find; see linear-map");
  const permute::PermutationSet found =
      permute::recover_key(scene.cloud.weights, scene.known.weights, scene.cloud.axes);
  double right = 0.0, all = 0.0;
  for (const auto& [group, truth] : scene.cloud.key) {
    const auto size = static_cast<double>(truth.size());
    right += size * key_recovery_rate(found.at(group), truth);
    all += size;
  }
  const auto theory = scene.all_if(true);
  Findings f;
  f.list = {
      {.what = "P_C of the residual",
       .value = key_recovery_rate(found.at("residual"), scene.cloud.key.at("residual")),
       .theory = theory},
      {.what = fmt::format("all {} permutations of the key", found.size()), .value = right / all, .theory = theory}};
  f.remarks.push_back(fmt::format("one of 2^{:.0f} keys", permute::log2_count(s.model, s.scheme.columns)));
  return f;
}

/// Gains and biases of all norms, [d, 2 per norm]; also the first gain.
std::vector<Tensor> norm_vectors(const nn::StateDict& weights) {
  std::vector<Tensor> vectors;
  for (const auto& [name, value] : weights)
    if (name.find(".norm") != std::string::npos) vectors.push_back(value);
  return vectors;
}

Findings sort_gains(const Setting& s) {
  const Scene scene(s);
  if (!scene.moves_features()) return nothing(plain_weights);
  if (scene.cloud.map.defined()) return nothing("the gains are folded into the matrices");
  const std::vector<Tensor> seen = norm_vectors(scene.cloud.weights), known = norm_vectors(scene.known.weights);
  const permute::Permutation& truth = scene.cloud.key.at("residual");
  Findings f;
  // Equal gains cannot be distinguished, so that trained f32 gains may leave a few places open.
  f.list = {{.what = "P_C from the first gain alone",
             .value = key_recovery_rate(permute::sort_match(seen[0], known[0]), truth)},
            {.what = fmt::format("P_C from all {} vectors of norms", seen.size()),
             .value = key_recovery_rate(permute::features_from_states(stack(seen, 0), stack(known, 0)), truth),
             .theory = scene.all_if(true)}};
  return f;
}

/// The matrices that read the residual of block 0, one below the other.
Tensor reading_rows(const nn::StateDict& weights) {
  std::vector<Tensor> rows;
  for (const auto& [name, w] : weights)
    if (w.rank() == 2 && !name.ends_with(".o") && !name.ends_with(".down")) rows.push_back(w);
  return concat(rows, 0);
}

/// The share of a map's columns that point where the true ones do: cosine above 0.99.
double right_columns(const Tensor& found, const Tensor& truth) {
  const Tensor cosines = cosine_similarity(found, truth, 0, 1e-300);
  return mean(gt(cosines, 0.99).to(DType::f64)).item();
}

Findings solve_map(const Setting& s) {
  const Scene scene(s);
  if (!scene.moves_features()) return nothing(plain_weights);
  if (scene.moves_inside()) return nothing("rows of the weights are permuted too; see weights");
  const bool folded = scene.cloud.map.defined();
  const Tensor known = reading_rows(folded ? permute::folded_gains(scene.known) : scene.known.weights);
  const Tensor seen = reading_rows(scene.cloud.weights);
  const Tensor truth = scene.cloud.enter(eye(s.model.block.dim, -1, DType::f64));
  const Tensor found = permute::recover_linear_map(seen, known);
  Findings f;
  f.list = {{.what = "columns of the features' map, to a cosine of 0.99",
             .value = right_columns(found, truth),
             .theory = scene.all_if(true)},
            {.what = "largest error of the map",
             .value = amax(abs(found - truth)).item(),
             .is_rate = false,
             .unit = "absolute"}};
  return f;
}

} // namespace

const Attack weights_attack{.name = "weights",
                            .id = "atk-rowmatch",
                            .sees = "the transformed weights",
                            .recovers = "every permutation of the key",
                            .cost = "O(d^2 k) distances, an assignment O(d^3) at worst",
                            .source =
                                "row and sorted-row matching against public weights; ArrowMatch, USENIX Security 2025",
                            .texts = true,
                            .pictures = true,
                            .run = match_weights};

const Attack gains_attack{.name = "gains",
                          .id = "atk-rowmatch",
                          .sees = "the transformed gains and biases of norms",
                          .recovers = "P_C",
                          .cost = "O(d log d)",
                          .source = "gamma' = gamma P_C keeps its numbers: both are sorted",
                          .texts = true,
                          .pictures = true,
                          .run = sort_gains};

const Attack linear_map_attack{.name = "linear-map",
                               .id = "atk-rowmatch",
                               .sees = "the transformed weights, rows in their order",
                               .recovers = "the map of the features, orthogonal or not",
                               .cost = "O(n d^2)",
                               .source = "least squares; Schoenemann, Psychometrika 31 (1966)",
                               .texts = true,
                               .pictures = true,
                               .run = solve_map};

} // namespace eg::attacks
