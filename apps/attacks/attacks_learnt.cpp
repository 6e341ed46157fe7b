// Attacks that learn: decoders, descent on pixels, jigsaws, P_C, several rounds.

#include "apps/attacks/image_view.h"
#include "apps/attacks/images.h"
#include "apps/attacks/inversion.h"
#include "apps/attacks/jigsaw.h"
#include "apps/attacks/learnt_columns.h"
#include "apps/attacks/pixel_search.h"

#include "autograd/tape.h"
#include "core/ops.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

namespace eg::attacks {

using permute::BlockWeights;
using permute::PictureInput;
namespace {

constexpr std::int64_t target_count = 16, batch = 32;
constexpr std::uint64_t own_query = 100, target_query = 10'000'000;

/// Tells how far an attack is, every step.
std::function<void(std::int64_t)> on_progress(const Setting& s, std::int64_t steps, const char* what,
                                              double begin = 0.0, double part = 1.0) {
  if (!s.effort.on_progress) return {};
  return [&s, steps, what, begin, part](std::int64_t step) {
    s.effort.on_progress(begin + part * static_cast<double>(step) / static_cast<double>(steps), what);
  };
}

/// `count` numbers below `size`, i64, for step `step`.
Tensor drawn_batch(const Setting& s, std::int64_t step, std::int64_t size) {
  return random_integers({std::min(batch, size)}, s.key.fold(20).fold(static_cast<std::uint64_t>(step)), 0, size);
}

Tensor own_pictures(const Setting& s) { return signed_pictures(s.attack_images->own, 0, s.attack_images->own.size()); }
Tensor target_pictures(const Setting& s) { return signed_pictures(s.attack_images->targets, 0, target_count); }

DecoderConfig decoder_for(const PictureInput& input, std::int64_t tokens, std::int64_t dim) {
  return {.tokens = tokens,
          .dim = dim,
          .channels = input.channels,
          .height = input.side,
          .width = input.side,
          .patch = input.patch};
}

/// A decoder trained on features [N, T, D] of the attacker's images [N, C, H, W].
InversionDecoder& trained_decoder(InversionDecoder& decoder, const Setting& s, const Tensor& features,
                                  const Tensor& pictures) {
  const Tensor z = features.to(DType::f32), x = pictures.to(DType::f32);
  const auto pick = [&](const Tensor& from, std::int64_t step) {
    return index_select(from, 0, drawn_batch(s, step, from.size(0)));
  };
  const std::int64_t before = s.effort.pretraining, steps = s.effort.steps;
  const double share = static_cast<double>(before) / static_cast<double>(before + steps);
  if (before > 0) {
    const Tensor shapes = shape_pictures(*s.model.pictures, 500, s.key.seed + 2).to(DType::f32);
    pretrain_decoder(
        decoder, {.steps = before, .on_progress = on_progress(s, before, "pre-training a decoder", 0.0, share)},
        [&](std::int64_t step) { return pick(shapes, step); }, s.key.fold(21));
  }
  train_decoder(decoder,
                {.steps = steps, .on_progress = on_progress(s, steps, "training a decoder", share, 1.0 - share)},
                [&](std::int64_t step) {
                  return Pairs{pick(z, step), pick(x, step)};
                });
  decoder.eval();
  return decoder;
}

Findings decode(const Setting& s) {
  const Scene scene(s);
  const ImageView image_view(scene);
  const PictureInput& input = *s.model.pictures;
  const Tensor own = own_pictures(s), targets = target_pictures(s);
  const Tensor known = image_view.observe(patchify(own, input.patch), own_query).features;
  InversionDecoder decoder(decoder_for(input, known.size(1), known.size(2)), s.key.fold(22));
  trained_decoder(decoder, s, known, own);
  const PauseRecording pause;
  const Tensor seen = image_view.observe(patchify(targets, input.patch), target_query).features;
  const Tensor found = decoder(seen.to(DType::f32)).to(DType::f64);
  Findings f;
  add_quality(f, s, targets, found);
  f.remarks.push_back(fmt::format("a decoder of {} parameters, {} steps of {} of the attacker's {} pictures{}",
                                  decoder.parameter_count(), s.effort.steps, std::min(batch, own.size(0)), own.size(0),
                                  s.effort.pretraining > 0 ? fmt::format(", after {} on shapes", s.effort.pretraining)
                                                           : std::string()));
  add_pictures(f, targets, found);
  return f;
}

Unknown unknown_of(const Scene& scene) {
  const bool columns = scene.moves_features() && !scene.cloud.map.defined();
  if (scene.rows()) return columns ? Unknown::both : Unknown::rows;
  return columns ? Unknown::columns : Unknown::nothing;
}

Findings descend_to_pixels(const Setting& s) {
  const Scene scene(s);
  if (s.base == Base::secret) return nothing("the attacker does not know F1");
  if (scene.cloud.map.defined()) return nothing("an orthogonal map leaves nothing to sort (attack linear-map)");
  const ImageView image_view(scene);
  const PictureInput& input = *scene.known.pictures;
  const Tensor targets = target_pictures(s);
  const Tensor seen = image_view.observe(patchify(targets, input.patch), target_query).features;
  const auto view = [&](const Tensor& pictures) {
    const RandomKey key = s.key.fold(23); // the attacker's own draw of what is random
    const Tensor z = input.embed(patchify(on_pictures(s.protection, pictures, key.fold(1)), input.patch));
    const Tensor rows = on_features(s.protection, z, key.fold(2), input.special);
    return slice(rows, 1, input.special, rows.size(1));
  };
  const Tensor found = invert_features(
      seen, targets.shape(), view, unknown_of(scene),
      {.iterations = s.effort.steps, .on_progress = on_progress(s, s.effort.steps, "on pixels")}, s.key.fold(24));
  Findings f;
  add_quality(f, s, targets, found);
  if (scene.rows()) f.remarks.emplace_back("whole patches in an unknown order: attack jigsaw puts them back");
  add_pictures(f, targets, found);
  return f;
}

/// The blocks of an image model and the gradients of their weights, of the patch embedding and of the rows.
class GradientView {
public:
  explicit GradientView(const BlockWeights& v)
      : model_(v), blocks_(permute::blocks_with(v.block, v.layers, v.weights)), rows_(v.pictures->plain.clone()),
        edge_(v.pictures->patch_weight.clone()) {
    for (const auto& block : blocks_)
      for (const Tensor& w : block->parameters()) weights_.push_back(w);
  }

  /// Of the blocks' weights, for images with labels whose rows pass the blocks in an order.
  std::vector<Tensor> of_blocks(const Tensor& pictures, const Tensor& labels, const permute::Permutation& order) const {
    Tape tape;
    return tape.gradient(loss(pictures, labels, order), weights_);
  }
  /// dL/dE and dL/d(position embeddings), which a federated edge would send.
  std::pair<Tensor, Tensor> of_edge(const Tensor& picture, const Tensor& label,
                                    const permute::Permutation& order) const {
    Tape tape;
    const std::vector<Tensor> g = tape.gradient(loss(picture, label, order), {edge_, rows_});
    return {g[0], g[1]};
  }

private:
  Tensor loss(const Tensor& pictures, const Tensor& labels, const permute::Permutation& order) const {
    PictureInput input = *model_.pictures;
    input.patch_weight = edge_;
    input.plain = rows_;
    const Tensor z = input.embed(patchify(pictures, input.patch));
    const Tensor y = through(blocks_, model_.layers, order.apply(z, 1));
    return cross_entropy(input.classify(order.inverse().apply(y, 1)), labels);
  }
  const BlockWeights& model_;
  nn::Blocks blocks_;
  Tensor rows_, edge_;
  std::vector<Tensor> weights_;
};

/// The image from the gradients of the edge's own weights.
void solve_edge(Findings& f, const Setting& s, const GradientView& view, const Tensor& picture,
                const permute::Permutation& order) {
  const PictureInput& input = *s.model.pictures;
  const auto [weight, rows] = view.of_edge(picture, Tensor::arange(1), order);
  const Tensor patches = patches_from_gradients(weight, rows.slice(0, input.special, rows.size(0)));
  const Tensor truth = patchify(picture, input.patch).select(0, 0);
  const Tensor right = lt(abs(patches - truth), 1.0 / 255.0).to(DType::f64);
  const bool enough = truth.size(0) <= rows.size(1);
  f.list.push_back({.what = "pixels right to the byte, from gradients of patch embedding and positions",
                    .value = mean(right).item(),
                    .theory = enough ? std::optional(1.0) : std::nullopt});
}

Findings invert_training(const Setting& s) {
  const Scene scene(s);
  if (s.base != Base::published) return nothing("gradients are inverted with the weights that they are of");
  constexpr std::int64_t count = 2;
  const GradientView view(s.model);
  const Tensor targets = signed_pictures(s.attack_images->targets, 0, count);
  const Tensor label = Tensor::arange(1);
  const std::int64_t tokens = s.model.pictures->plain.size(0);
  const auto plain = permute::Permutation::identity(tokens);
  std::vector<Tensor> found;
  double apart = 0.0;
  for (std::int64_t i = 0; i < count; ++i) {
    const Tensor picture = targets.slice(0, i, i + 1);
    const permute::Permutation order = scene.order(tokens, target_query + static_cast<std::uint64_t>(i));
    const std::vector<Tensor> seen = view.of_blocks(picture, label, order), own = view.of_blocks(picture, label, plain);
    for (std::size_t g = 0; g < seen.size(); ++g)
      apart = std::max(apart, amax(abs(seen[g] - own[g])).item() / std::max(amax(abs(own[g])).item(), 1e-12));
    found.push_back(invert_gradients(
        seen, picture.shape(), [&](const Tensor& guess) { return view.of_blocks(guess, label, plain); },
        GradientDistance::cosine,
        {.iterations = s.effort.steps,
         .tv = 1e-2,
         .on_progress =
             on_progress(s, s.effort.steps, "inverting gradients", static_cast<double>(i) / count, 1.0 / count)},
        s.key.fold(25)));
  }
  Findings f;
  add_quality(f, s, targets, concat(found, 0));
  solve_edge(f, s, view, targets.slice(0, 0, 1), scene.order(tokens, target_query));
  f.list.push_back({.what = "largest difference of the gradients from those of training without shuffled rows",
                    .value = apart,
                    .is_rate = false,
                    .unit = "relative"});
  if (scene.moves_features()) f.remarks.emplace_back("P_C is taken from the weights first (attack weights)");
  f.remarks.emplace_back("the label is known (attack labels); one picture a step");
  add_pictures(f, targets, concat(found, 0));
  return f;
}

/// [-1, 1] to bytes.
Bytes bytes_of(const Tensor& picture) {
  Bytes bytes;
  for (const double value : picture.contiguous().to_vector<double>())
    bytes.push_back(static_cast<std::uint8_t>(std::clamp(std::round((value + 1.0) * 127.5), 0.0, 255.0)));
  return bytes;
}

Findings put_together(const Setting& s) {
  const Scene scene(s);
  const PictureInput& input = *s.model.pictures;
  if (!scene.rows()) return nothing("tokens are in their order");
  if (input.patch < 2) return nothing("patches of one pixel have no borders to compare");
  const ImageView image_view(scene);
  const Tensor own = own_pictures(s), targets = target_pictures(s), patches = patchify(targets, input.patch);
  const LinearInversion inversion(image_view.observe(patchify(own, input.patch), own_query).features,
                                  patchify(own, input.patch), Places::unknown);
  const Observation seen = image_view.observe(patches, target_query);
  const Tensor pieces = inversion(seen.features);
  const Tensor shuffled = as_pictures(input, pieces);
  std::vector<Tensor> solved;
  double right = 0.0;
  for (std::int64_t i = 0; i < targets.size(0); ++i) {
    if (s.effort.on_progress)
      s.effort.on_progress(static_cast<double>(i) / static_cast<double>(targets.size(0)), "solving jigsaws");
    const auto n = static_cast<std::size_t>(i);
    const std::vector<std::int64_t> order = solve_jigsaw(
        border_costs(bytes_of(shuffled.select(0, i)), input.channels, input.side, input.patch), s.key.fold(26).fold(n));
    for (std::int64_t p = 0; p < patches.size(1); ++p)
      right += seen.orders[n][order[static_cast<std::size_t>(p)]] == p ? 1.0 : 0.0;
    solved.push_back(permute::Permutation(order).apply(pieces.select(0, i), 0));
  }
  Findings f;
  f.list = {
      {.what = "patches at their own place", .value = right / static_cast<double>(patches.size(0) * patches.size(1))}};
  const Tensor found = as_pictures(input, stack(solved, 0));
  add_quality(f, s, targets, found);
  f.remarks.push_back(fmt::format("chance is {:.3f}", 1.0 / static_cast<double>(patches.size(1))));
  add_pictures(f, targets, found, "put together");
  return f;
}

Findings learn_residual(const Setting& s) {
  const Scene scene(s);
  if (!scene.moves_features() || scene.cloud.map.defined()) return nothing("features are not permuted");
  const BlockWeights& v = s.model;
  const PictureInput& input = *v.pictures;
  const nn::Blocks plain = permute::blocks_with(v.block, v.layers, v.weights),
                   moved = permute::blocks_with(v.block, v.layers, scene.cloud.weights);
  const Tensor patches = patchify(own_pictures(s), input.patch);
  const auto picked = [&](std::int64_t step) {
    const Tensor which = drawn_batch(s, step, patches.size(0));
    return input.embed(index_select(patches, 0, slice(which, 0, 0, std::min<std::int64_t>(8, which.size(0)))));
  };
  const LearntColumns learnt = learn_columns(
      v.block.dim, DType::f64, {.steps = s.effort.steps, .on_progress = on_progress(s, s.effort.steps, "learning P_C")},
      {},
      [&](const Tensor& m, std::int64_t step) {
        const Tensor z = picked(step);
        const Tensor answers =
            without_tape([&] { return input.classify(through(plain, v.layers, z)); }); // the service's answers
        const Tensor said = input.classify(matmul(through(moved, v.layers, matmul(z, m)), m, false, true));
        return mse_loss(said, answers);
      },
      s.key.fold(27));
  Findings f;
  f.list = {{.what = "places of P_C", .value = learnt.found(scene.columns(0))}};
  f.remarks.push_back(fmt::format("from the service's answers for own pictures, {} steps of 8; chance is {:.3f}",
                                  s.effort.steps, 1.0 / static_cast<double>(v.block.dim)));
  return f;
}

/// The mean over rounds of what is seen of every image [N, T, d], rows in the order of its first round.
Tensor over_rounds(const ImageView& image_view, const Tensor& patches, std::uint64_t query, std::int64_t rounds) {
  std::vector<Tensor> looks;
  for (std::int64_t r = 0; r < rounds; ++r)
    looks.push_back(image_view.observe(patches, query + static_cast<std::uint64_t>(r) * 1'000'000).features);
  std::vector<Tensor> all;
  for (std::int64_t i = 0; i < patches.size(0); ++i) {
    std::vector<Tensor> rows;
    rows.reserve(looks.size());
    for (const Tensor& look : looks) rows.push_back(look.select(0, i).contiguous());
    const std::vector<permute::Permutation> orders = align_rounds(rows);
    for (std::size_t r = 0; r < rows.size(); ++r) rows[r] = orders[r].apply(rows[r], 0);
    all.push_back(mean(stack(rows, 0), {0}));
  }
  return stack(all, 0);
}

Findings look_often(const Setting& s) {
  const Scene scene(s);
  const PictureInput& input = *s.model.pictures;
  const Defence defence = s.protection.defence;
  if (!s.scheme.noise && defence != Defence::noise && defence != Defence::feature_noise && defence != Defence::cutmix)
    return nothing("every round shows the same, but for the order of rows");
  if (s.fresh && scene.moves_features()) return nothing("P_C is another in every round (attack alignment)");
  const ImageView image_view(scene);
  const Tensor own = patchify(signed_pictures(s.attack_images->own, 0, 200), input.patch), targets = target_pictures(s);
  const Places places = scene.rows() ? Places::unknown : Places::known;
  Findings f;
  for (const std::int64_t rounds : {s.effort.rounds, std::int64_t{1}}) {
    if (s.effort.on_progress) s.effort.on_progress(rounds == 1 ? 0.8 : 0.0, "looking at several rounds");
    const LinearInversion inversion(over_rounds(image_view, own, own_query, rounds), own, places);
    const Tensor found =
        as_pictures(input, inversion(over_rounds(image_view, patchify(targets, input.patch), target_query, rounds)));
    add_quality(f, s, targets, found, fmt::format(", {} round{}", rounds, rounds == 1 ? "" : "s"));
    add_pictures(f, targets, found, fmt::format("{} round{}", rounds, rounds == 1 ? "" : "s"));
  }
  if (scene.rows()) f.remarks.emplace_back("rows stay in the unknown order of the first round");
  return f;
}

/// What all of them share.
Attack learnt(Attack attack) {
  attack.id = "atk-inv";
  attack.pictures = attack.learns = true;
  return attack;
}

} // namespace

const Attack decoder_attack = learnt({.name = "decoder",
                                      .sees = "features of pictures, and pairs of own pictures under the same key",
                                      .recovers = "pictures",
                                      .cost = "minutes: training a small transformer",
                                      .source = "papers 000 (11.2) and 001 (6.2), black box; MAE (arXiv 2111.06377)",
                                      .run = decode,
                                      .heeds_defences = true});

const Attack white_box_attack =
    learnt({.name = "white-box",
            .sees = "features of pictures; knows F1",
            .recovers = "pictures; of shuffled rows a jigsaw",
            .cost = "seconds to minutes: descent on pixels; an assignment O(T^3) every ten iterations for rows",
            .source = "paper 001, equation 3; He et al., ACSAC 2019",
            .run = descend_to_pixels,
            .heeds_defences = true});

const Attack gradient_inversion_attack =
    learnt({.name = "gradient-inversion",
            .sees = "gradients of the weights",
            .recovers = "pictures; from the edge's own gradients exactly",
            .cost = "minutes: descent on pixels through second derivatives; least squares O(d T p)",
            .source = "Geiping et al. (arXiv 2003.14053); APRIL (arXiv 2112.14087)",
            .run = invert_training});

const Attack jigsaw_attack = learnt({.name = "jigsaw",
                                     .sees = "shuffled features, and pairs of own pictures under the same key",
                                     .recovers = "the order of patches",
                                     .cost = "seconds a picture: annealing over borders that fit",
                                     .source = "Pomeranz et al., CVPR 2011; compare Chuman, Kiya (2202.00806)",
                                     .run = put_together,
                                     .heeds_defences = true});

const Attack columns_attack =
    learnt({.name = "learn-columns",
            .sees = "the encrypted blocks and the service's answers for own pictures; knows F1 and F2",
            .recovers = "P_C",
            .cost = "minutes: descent on a doubly stochastic matrix",
            .source = "Sinkhorn; Mena et al., ICLR 2018",
            .run = learn_residual});

const Attack rounds_attack = learnt({.name = "rounds",
                                     .sees = "features of the same pictures in several rounds of training",
                                     .recovers = "what noise hides: rows are aligned, their means taken",
                                     .cost = "O(e T^3) a picture",
                                     .source = "paper 001, equation 2 with e rounds",
                                     .run = look_often,
                                     .heeds_defences = true});

} // namespace eg::attacks
