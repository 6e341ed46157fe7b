// Attacks on images, their order and their labels.

#include "apps/attacks/alignment.h"
#include "apps/attacks/attack_views.h"
#include "apps/attacks/gradients.h"
#include "apps/attacks/image_view.h"
#include "apps/attacks/images.h"
#include "apps/attacks/metrics.h"
#include "permute/recovery/key_recovery.h"
#include "permute/recovery/matching.h"

#include "apps/report/pictures.h"
#include "autograd/tape.h"
#include "core/call.h"
#include "core/ops.h"

#include <algorithm>
#include <fmt/format.h>

namespace eg::attacks {

using permute::PictureInput;
namespace {

/// The attacker's own images: any pixels where that is enough, else natural ones; all patches of one image
/// alike where their order will not be known.
Tensor own_patches(const PictureInput& input, const Setting& s, bool alike) {
  constexpr std::int64_t count = 400;
  const bool enough = input.patch_weight.size(0) >= input.patch_elements();
  Tensor patches = enough ? random_patches(input, count, s.key.fold(7))
                          : patchify(s.attack_images != nullptr ? signed_pictures(s.attack_images->own, 0, count)
                                                                : shape_pictures(input, count, s.key.seed + 1),
                                     input.patch);
  if (!alike) return patches;
  std::vector<Tensor> repeated;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t which = i % patches.size(1);
    repeated.push_back(expand(patches.select(0, i).slice(0, which, which + 1), {patches.size(1), patches.size(2)}));
  }
  return stack(repeated, 0);
}

/// Whether the linear attack is exact: no noise, and features enough.
bool is_enough(const Scene& scene, const PictureInput& input) {
  const std::int64_t d = input.patch_weight.size(0), p = input.patch_elements();
  const std::int64_t others = scene.rows() && input.has_positions ? input.plain.size(0) - input.special - 1 : 0;
  const bool aligned = !scene.s.fresh || !scene.moves_features() || input.special > 0 || scene.cloud.map.defined();
  return !scene.s.scheme.noise && scene.s.protection.defence == Defence::none && d >= p + others && aligned;
}

Findings invert(const Setting& s) {
  const Scene scene(s);
  const PauseRecording pause;
  constexpr std::int64_t targets = 8;
  const PictureInput& input = *s.model.pictures;
  const ImageView image_view(scene);
  const Tensor own = own_patches(input, s, scene.rows());
  const LinearInversion inversion(image_view.observe(own, 100).features, own,
                                  scene.rows() ? Places::unknown : Places::known);
  const Tensor pictures = s.attack_images != nullptr ? signed_pictures(s.attack_images->targets, 0, targets)
                                                     : shape_pictures(input, targets, s.key.seed);
  const Tensor patches = patchify(pictures, input.patch);
  const Observation seen = image_view.observe(patches, 10);
  const Tensor found = inversion(seen.features);
  std::vector<Tensor> in_order;
  for (std::int64_t i = 0; i < pictures.size(0); ++i)
    in_order.push_back(seen.orders[static_cast<std::size_t>(i)].apply(patches.select(0, i), 0));
  const Tensor off = abs(found - stack(in_order, 0));
  const double right = mean(lt(off, 1.0 / 255.0).to(DType::f64)).item();
  const Tensor back = as_pictures(input, found);
  Findings f;
  f.list = {
      {.what = "pixels right to the byte, in the order of rows",
       .value = right,
       .theory = is_enough(scene, input) ? std::optional(1.0) : std::nullopt},
      {.what = "largest error of a pixel in [-1, 1]", .value = amax(off).item(), .is_rate = false, .unit = "absolute"}};
  add_quality(f, s, pictures, back, " of the pictures as they came");
  if (scene.rows()) f.remarks.emplace_back("patches are whole but in an unknown order: the jigsaw is what is left");
  if (input.patch_weight.size(0) < input.patch_elements())
    f.remarks.push_back(fmt::format("{} features cannot hold the {} numbers of a patch: a linear estimate",
                                    input.patch_weight.size(0), input.patch_elements()));
  add_pictures(f, pictures, back);
  return f;
}

Findings find_positions(const Setting& s) {
  const Scene scene(s);
  const PictureInput& input = *s.model.pictures;
  if (!scene.rows()) return nothing("tokens are in their order");
  if (!input.has_positions) return nothing("the model has no position embeddings");
  if (input.patch_weight.size(0) <= input.patch_elements())
    return nothing(fmt::format("{} features are all taken by the {} numbers of a patch", input.patch_weight.size(0),
                               input.patch_elements()));
  const PauseRecording pause;
  constexpr std::int64_t pictures = 8;
  const Tensor z = input.embed(random_patches(input, pictures, s.key.fold(8)));
  permute::Permutation columns = permute::Permutation::identity(s.model.block.dim);
  if (scene.moves_features())
    columns = permute::recover_key(scene.cloud.weights, scene.known.weights, scene.cloud.axes).at("residual");
  double right = 0.0;
  for (std::int64_t i = 0; i < pictures; ++i) {
    const permute::Permutation order = scene.order(z.size(1), static_cast<std::uint64_t>(i));
    const Tensor seen = order.apply(scene.cloud.enter(z.select(0, i).contiguous()), 0);
    right += key_recovery_rate(rows_by_positions(columns.inverse().apply(seen, 1), scene.known.pictures->patch_weight,
                                                 scene.known.pictures->plain),
                               order);
  }
  Findings f;
  f.list = {{.what = "P_R by position embeddings",
             .value = right / static_cast<double>(pictures),
             .theory = scene.all_if(true)}};
  if (scene.moves_features()) f.remarks.emplace_back("P_C was taken from the weights first (attack weights)");
  return f;
}

/// dL/dZ of the blocks' output [N, T, d] and dL/d(bias of the classifier) [C].
struct CutGradients {
  Tensor cut, bias;
};

CutGradients cut_gradients(const Scene& scene, const Tensor& patches, const Tensor& labels) {
  const permute::BlockWeights& v = scene.s.model;
  Tensor z, bias = permute::weight_named(v.pictures->head, "bias");
  {
    const PauseRecording pause;
    z = through(permute::blocks_with(v.block, v.layers, v.weights), v.layers,
                scene.noisy(v.pictures->embed(patches), 0));
  }
  Tape tape;
  const std::vector<Tensor> g =
      tape.gradient(cross_entropy(v.pictures->classify(z), labels, 0.0, -100, "sum"), {z, bias});
  return {g[0], g[1]};
}

/// Gradients [n, d] of query 1 in the order of query 2's features: both queries' features have the class token in them,
/// and gradients are permuted as features are. As they are where keys are not fresh or nothing is common.
Tensor aligned_gradients(const Scene& scene, const Tensor& rows) {
  const PictureInput& input = *scene.s.model.pictures;
  if (!scene.s.fresh || input.special == 0 || !scene.moves_features() || scene.cloud.map.defined()) return rows;
  const Tensor token = input.plain.slice(0, 0, 1);
  return align_queries(stack({scene.enter(token, 2), scene.enter(token, 1)}, 0))[1].apply(rows, 1);
}

Findings read_labels(const Setting& s) {
  const Scene scene(s);
  constexpr std::int64_t batch = 64;
  const PictureInput& input = *s.model.pictures;
  const std::int64_t classes = permute::weight_named(input.head, "bias").size(0), tokens = input.plain.size(0);
  const Tensor labels = random_integers({batch}, s.key.fold(9), 0, classes);
  const CutGradients others = cut_gradients(scene, random_patches(input, batch, s.key.fold(10)), labels);
  const CutGradients own =
      cut_gradients(scene, random_patches(input, classes, s.key.fold(11)), Tensor::arange(classes));
  const PauseRecording pause;
  const auto moved = [&](const Tensor& g, std::uint64_t query) { // dZ' = P_R dZ P_C (CVPR, thm 4.7)
    return scene.cloud.map.defined() ? scene.cloud.enter(g) : scene.columns(query).apply(g, -1);
  };
  std::vector<Tensor> rows;
  double found = 0.0;
  for (std::int64_t i = 0; i < batch; ++i) {
    const permute::Permutation order = scene.order(tokens, static_cast<std::uint64_t>(i) + 1);
    const Tensor g = order.apply(moved(others.cut.select(0, i), 1), 0);
    const std::int64_t at = class_token_row(g);
    found += order[at] == 0 ? 1.0 : 0.0;
    rows.push_back(g.select(0, at).contiguous());
  }
  const auto guessed =
      labels_from_cut_gradients(aligned_gradients(scene, stack(rows, 0)), moved(own.cut.select(1, 0).contiguous(), 2));
  Findings f;
  f.list = {{.what = "labels from gradients at the cut, one example a class known",
             .value = recovery_rate(guessed, labels.to_vector<std::int64_t>())},
            {.what = "the class token's row among the shuffled ones",
             .value = found / static_cast<double>(batch),
             .theory = 1.0}};
  f.remarks.push_back(fmt::format("chance is {:.2f}", 1.0 / static_cast<double>(classes)));
  return f;
}

Findings compare_gradients(const Setting& s) {
  const Scene scene(s);
  if (!scene.rows()) return nothing("tokens are in their order");
  const permute::BlockWeights& v = s.model;
  const Tensor patches = random_patches(*v.pictures, 4, s.key.fold(12)), labels = Tensor::arange(4);
  const nn::Blocks blocks = permute::blocks_with(v.block, v.layers, v.weights);
  std::vector<Tensor> weights;
  for (const auto& block : blocks)
    for (const Tensor& w : block->parameters()) weights.push_back(w);
  const permute::Permutation order = scene.order(v.pictures->plain.size(0), 1);
  const auto gradients = [&](const permute::Permutation& p) {
    Tape tape;
    const Tensor y = through(blocks, v.layers, p.apply(v.pictures->embed(patches), 1));
    return tape.gradient(cross_entropy(v.pictures->classify(p.inverse().apply(y, 1)), labels), weights);
  };
  const auto plain = gradients(permute::Permutation::identity(order.size())), moved = gradients(order);
  double same = 0.0, largest = 0.0;
  for (std::size_t i = 0; i < plain.size(); ++i) {
    const double scale = std::max(amax(abs(plain[i])).item(), 1e-12);
    const double off = amax(abs(plain[i] - moved[i])).item() / scale;
    largest = std::max(largest, off);
    same += off < 1e-9 ? 1.0 : 0.0;
  }
  Findings f;
  f.list = {{.what = "weights whose gradients are the same to 1e-9",
             .value = same / static_cast<double>(plain.size()),
             .theory = 1.0},
            {.what = "largest difference", .value = largest, .is_rate = false, .unit = "relative"}};
  f.remarks.emplace_back("what inverts gradients (APRIL, GradViT) sees no difference");
  return f;
}

} // namespace

const Attack linear_attack{.name = "linear",
                           .id = "atk-linear",
                           .sees = "features of pictures, and pairs of own pictures under the same key",
                           .recovers = "the pixels",
                           .cost = "O(N T (d + T)^2) for N own pictures",
                           .source = "least squares; makes the learned decoder of CVPR's Table 6 unnecessary",
                           .texts = false,
                           .pictures = true,
                           .run = invert,
                           .heeds_defences = true};

const Attack positions_attack{
    .name = "positions",
    .id = "atk-pe",
    .sees = "shuffled features of one picture",
    .recovers = "P_R",
    .cost = "O(d p^2 + T^2 d), an assignment O(T^3) at worst",
    .source = "position embeddings in the null space of the patch embedding; compare MJP (2205.12551)",
    .texts = false,
    .pictures = true,
    .run = find_positions};

const Attack labels_attack{.name = "labels",
                           .id = "atk-grad",
                           .sees = "gradients at the cut",
                           .recovers = "labels, and which row is the class token",
                           .cost = "O(B C d)",
                           .source = "Li et al., ICLR 2022 (arXiv 2102.08504); iDLG (arXiv 2001.02610)",
                           .texts = false,
                           .pictures = true,
                           .run = read_labels};

const Attack gradients_attack{.name = "gradients",
                              .id = "atk-grad",
                              .sees = "gradients of the weights",
                              .recovers = "the very gradients of unshuffled training",
                              .cost = "none: they are equal",
                              .source = "CVPR, theorem 4.2",
                              .texts = false,
                              .pictures = true,
                              .run = compare_gradients};

} // namespace eg::attacks
