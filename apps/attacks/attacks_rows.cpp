// Attacks on what queries have in common, and on attention.

#include "apps/attacks/alignment.h"
#include "apps/attacks/attack_views.h"
#include "apps/attacks/fingerprints.h"
#include "apps/attacks/metrics.h"
#include "permute/recovery/matching.h"

#include "core/call.h"
#include "core/ops.h"

#include <fmt/format.h>

namespace eg::attacks {
namespace {

constexpr std::int64_t candidates = 20, queries = 8;

/// Input rows [count, T, d] of the same texts or images as a model embeds them.
Tensor embedded(const permute::BlockWeights& v, const Scene& scene, std::int64_t count) {
  if (scene.s.model.text) return v.text->embed(scene.texts(count)).to(DType::f64);
  return v.pictures->embed(random_patches(*scene.s.model.pictures, count, scene.s.key.fold(6)));
}

/// Scores of the first block, [heads, T, T] for each.
std::vector<Tensor> scores_of(const permute::BlockWeights& v, const nn::StateDict& weights, const Tensor& z) {
  const nn::Blocks block = permute::blocks_with(v.block, 1, weights);
  nn::MultiHeadAttention::Trace trace;
  block[0]->traced(z, trace);
  std::vector<Tensor> scores;
  for (std::int64_t i = 0; i < z.size(0); ++i) scores.push_back(trace.scores.select(0, i).contiguous());
  return scores;
}

Findings compare_scores(const Setting& s) {
  const Scene scene(s);
  const PauseRecording pause;
  const Tensor plain = embedded(s.model, scene, candidates);
  const std::vector<Tensor> seen = scores_of(s.model, scene.cloud.weights, scene.cloud.enter(scene.noisy(plain, 0)));
  const std::vector<Tensor> known = scores_of(s.model, scene.known.weights, embedded(scene.known, scene, candidates));
  double named = 0.0, places = 0.0;
  for (std::size_t i = 0; i < seen.size(); ++i) {
    const permute::Permutation order = scene.order(seen[i].size(1), i);
    const Tensor moved = order.apply(order.apply(seen[i], 1), 2);
    named += text_by_attention(moved, known) == i ? 1.0 : 0.0;
    if (scene.rows()) places += key_recovery_rate(rows_by_attention(moved, known[i]), order);
  }
  const auto count = static_cast<double>(seen.size());
  const bool exact = !s.scheme.noise;
  Findings f;
  f.list = {{.what = fmt::format("which of {} known inputs it was", candidates),
             .value = named / count,
             .theory = scene.all_if(exact)}};
  if (scene.rows())
    f.list.push_back({.what = "P_R of a known input", .value = places / count, .theory = scene.all_if(exact)});
  return f;
}

/// The two rows, one of each query, that look most alike whatever the order of features.
std::pair<std::int64_t, std::int64_t> common_row(const Tensor& a, const Tensor& b) {
  const Tensor distances = permute::absolute_distances(permute::sorted_rows(a), permute::sorted_rows(b));
  const std::int64_t best = argmin(distances.reshape({-1}), 0).to_vector<std::int64_t>().front();
  return {best / distances.size(1), best % distances.size(1)};
}

/// Queries that begin with one token, or have the class token.
Tensor sharing_queries(const Scene& scene) {
  Tensor z = embedded(scene.s.model, scene, queries);
  if (!scene.s.model.text) return z;
  const Tensor ids = scene.texts(queries);
  const Tensor first = expand(ids.slice(0, 0, 1).slice(1, 0, 1), {queries, 1});
  return scene.s.model.text->embed(concat({first, ids.slice(1, 1, scene.s.tokens)}, 1)).to(DType::f64);
}

Findings align(const Setting& s) {
  const Scene scene(s);
  if (!scene.moves_features()) return nothing("features are in their order");
  if (scene.cloud.map.defined()) return nothing("an orthogonal map leaves no columns to match");
  if (!s.fresh) return nothing("one key for all queries: there is nothing to align");
  if (!s.model.text && s.model.pictures->special == 0) return nothing("no token is common to all pictures");
  const PauseRecording pause;
  const Tensor z = sharing_queries(scene);
  const auto seen = [&](std::int64_t q) {
    const auto number = static_cast<std::uint64_t>(q);
    return scene.order(z.size(1), number).apply(scene.enter(z.select(0, q).contiguous(), number), 0);
  };
  const Tensor first = seen(0);
  double right = 0.0;
  for (std::int64_t q = 1; q < queries; ++q) {
    const Tensor other = seen(q);
    const auto [i, j] = scene.rows() ? common_row(first, other) : std::pair<std::int64_t, std::int64_t>{0, 0};
    const Tensor shared = stack({first.slice(0, i, i + 1), other.slice(0, j, j + 1)}, 0);
    const permute::Permutation truth = scene.columns(static_cast<std::uint64_t>(q)).inverse().then(scene.columns(0));
    right += key_recovery_rate(align_queries(shared)[1], truth);
  }
  Findings f;
  f.list = {{.what = "features brought into one order",
             .value = right / static_cast<double>(queries - 1),
             .theory = s.scheme.noise ? std::nullopt : std::optional(1.0)}};
  f.remarks.emplace_back("fresh permutations are one permutation from here on: what attacks a fixed key follows");
  return f;
}

} // namespace

const Attack attention_attack{.name = "attention",
                              .id = "atk-attn",
                              .sees = "attention scores of the first block",
                              .recovers = "which input it was; P_R of a known input",
                              .cost = "O(heads T^2 log T) an input; O(heads T^3) for P_R",
                              .source = "S' = P_R S P_R^T (CVPR eq. 52); S' = S where features alone move",
                              .texts = true,
                              .pictures = true,
                              .run = compare_scores};

const Attack alignment_attack{.name = "alignment",
                              .id = "atk-align",
                              .sees = "features of several queries, each under a fresh P_C",
                              .recovers = "what takes each P_C to the first one",
                              .cost = "O(d^2) a query, O(T^2 d) where rows are shuffled too",
                              .source = "after arXiv 2605.04901 (ACL 2026), with tokens that queries share",
                              .texts = true,
                              .pictures = true,
                              .run = align};

} // namespace eg::attacks
