// Attacks that learn, small: each gets back what it must, and a control where it cannot.

#include "apps/attacks/attack.h"
#include "apps/attacks/inversion.h"
#include "apps/attacks/learnt_columns.h"
#include "apps/attacks/metrics.h"
#include "apps/attacks/perceptual_metric.h"
#include "apps/attacks/pixel_search.h"
#include "autograd/tape.h"
#include "core/ops.h"
#include "data/faces.h"
#include "permute/recovery/matching.h"
#include "support/message.h"

#include <cmath>
#include <doctest/doctest.h>
#include <functional>
#include <string_view>

using namespace eg;
using namespace eg::attacks;
using namespace eg::permute;
using eg::test::message_of;
using permute::Permutation;

namespace {

constexpr std::int64_t side = 12, patch = 4, tokens = 9, elements = 48, dim = 64;

Tensor faces(std::int64_t count, data::Split split) {
  const data::ImageDataset set = data::generate_faces(count, split, 3, side);
  std::vector<double> pixels;
  for (std::int64_t i = 0; i < count; ++i)
    for (const std::uint8_t byte : set.pixels(i)) pixels.push_back(static_cast<double>(byte) / 127.5 - 1.0);
  return Tensor::from<double>(pixels, {count, 3, side, side});
}

/// F1: patches through a fixed map.
Tensor embedded(const Tensor& pictures) {
  static const Tensor weight = random_normal({dim, elements}, {4, 1}, 0.0, 0.15, DType::f64);
  return linear(patchify(pictures, patch), weight);
}

double mean_ssim(const Tensor& x, const Tensor& y) { return mean(ssim(x, y, signed_peak)).item(); }

Tensor shuffled(const Tensor& z, std::uint64_t stream) {
  return permute_rows(z, stack({random_nonidentity_permutation(tokens, {9, stream}),
                                random_nonidentity_permutation(tokens, {9, stream + 1})},
                               0));
}

} // namespace

TEST_CASE("decoder: learns to invert a fixed edge, through any order of features, and not from other features") {
  const Tensor own = faces(200, data::Split::train), targets = faces(12, data::Split::test);
  const Permutation columns = Permutation::random_nonidentity(dim, {5, 0});
  const auto ssim_of = [&](bool related) {
    InversionDecoder decoder({.tokens = tokens, .dim = dim, .height = side, .width = side, .hidden = 32, .layers = 1},
                             {6, 0});
    const Tensor z = columns.apply(embedded(own), -1).to(DType::f32), x = own.to(DType::f32);
    const Tensor features = related ? z : random_normal(z.shape(), {6, 9});
    const double error = train_decoder(decoder, {.steps = 150, .warmup = 10, .lr = 5e-3}, [&](std::int64_t step) {
      const Tensor which = random_integers({16}, {7, static_cast<std::uint64_t>(step)}, 0, 200);
      return Pairs{index_select(features, 0, which), index_select(x, 0, which)};
    });
    CHECK(error < 1.0);
    const PauseRecording pause;
    return mean_ssim(decoder(columns.apply(embedded(targets), -1).to(DType::f32)).to(DType::f64), targets);
  };
  const double found = ssim_of(true), control = ssim_of(false);
  MESSAGE("SSIM ", found, ", of unrelated features ", control);
  CHECK(found > 0.5);
  CHECK(found > control + 0.3);
  CHECK(message_of<ValueError>([] { InversionDecoder({.tokens = 8, .height = 12, .width = 12}, {}); }) ==
        "decoder: 8 rows are not the patches of 4 x 4 in 12 x 12 pixels");
}

TEST_CASE("decoder: pre-training leaves blocks that know pictures and an entry drawn anew") {
  const DecoderConfig config{.tokens = tokens, .dim = dim, .height = side, .width = side, .hidden = 16, .layers = 1};
  InversionDecoder decoder(config, {8, 0});
  const Tensor entry = decoder.enter.weight.clone(), positions = decoder.positions.clone();
  const Tensor own = faces(40, data::Split::train).to(DType::f32);
  pretrain_decoder(decoder, {.steps = 5, .warmup = 1}, [&](std::int64_t) { return own; }, {8, 1});
  CHECK_FALSE(same_bits(decoder.positions, positions));
  CHECK_FALSE(same_bits(decoder.enter.weight, entry));
  CHECK(amax(abs(decoder.enter.weight)).item() <= 1.0 / std::sqrt(static_cast<double>(dim)) + 1e-6);
}

TEST_CASE("rounds: rows of later rounds are put into the order of the first") {
  const Tensor z = embedded(faces(1, data::Split::train)).select(0, 0).contiguous();
  const Permutation second = Permutation::random_nonidentity(tokens, {10, 1}),
                    third = Permutation::random_nonidentity(tokens, {10, 2});
  const Tensor noise = random_normal(z.shape(), {10, 3}, 0.0, 0.001, DType::f64);
  const auto orders = align_rounds({z, second.apply(z + noise, 0), third.apply(z - noise, 0)});
  CHECK(orders[0].is_identity());
  CHECK(orders[1] == second.inverse());
  CHECK(orders[2] == third.inverse());
}

TEST_CASE("white box: descent on pixels inverts a known edge; shuffled rows come back as their patches") {
  const Tensor targets = faces(2, data::Split::test);
  const PixelSearch search{.iterations = 250, .tv = 0.0};
  const Tensor plain = invert_features(embedded(targets), targets.shape(), embedded, Unknown::nothing, search, {1, 1});
  CHECK(mean_ssim(plain, targets) > 0.97);
  const Tensor seen = shuffled(embedded(targets), 1);
  const Tensor jigsaw = invert_features(seen, targets.shape(), embedded, Unknown::rows, search, {1, 1});
  CHECK(mean_ssim(jigsaw, targets) < 0.7);
  for (std::int64_t n = 0; n < 2; ++n) { // each patch is there, somewhere
    const Tensor apart =
        permute::squared_distances(patchify(targets, patch).select(0, n), patchify(jigsaw, patch).select(0, n));
    CHECK(amax(amin(apart, {1})).item() < 0.1);
  }
  const Tensor wrong = invert_features(seen, targets.shape(), embedded, Unknown::nothing, search, {1, 1});
  CHECK(mean_ssim(wrong, targets) < 0.7); // the printed attacker takes the rows as they come
}

TEST_CASE("gradients: the patch embedding's and the positions' give the picture exactly") {
  const Tensor picture = faces(1, data::Split::test), rows = random_normal({tokens, dim}, {2, 1}, 0.0, 1.0, DType::f64);
  const Tensor x = patchify(picture, patch).select(0, 0).contiguous();
  const Tensor weight_gradient = matmul(rows, x, true); // dL/dE = G^T X
  CHECK(relative_error(patches_from_gradients(weight_gradient, rows), x) < 1e-10);
  CHECK(relative_error(patches_from_gradients(weight_gradient, rows * 1.01), x) > 1e-3); // control
  CHECK_THROWS_AS(patches_from_gradients(x, rows), ShapeError);
}

TEST_CASE("gradient inversion: second derivatives through a layer, the same for shuffled rows") {
  const Tensor picture = faces(1, data::Split::test);
  const Tensor w1 = random_normal({20, elements}, {3, 1}, 0.0, 0.15, DType::f64),
               w2 = random_normal({5, 20}, {3, 2}, 0.0, 0.3, DType::f64);
  const auto gradients_in = [&](const Permutation& order) {
    return [&, order](const Tensor& x) {
      Tape tape;
      const Tensor hidden = gelu(linear(order.apply(patchify(x, patch), 1), w1));
      return tape.gradient(cross_entropy(linear(mean(hidden, {1}), w2), Tensor::arange(1)), {w1, w2});
    };
  };
  const auto plain = gradients_in(Permutation::identity(tokens));
  const auto moved = gradients_in(Permutation::random_nonidentity(tokens, {3, 3}));
  const std::vector<Tensor> seen = plain(picture);
  const auto distance = [&](const Tensor& found, const std::vector<Tensor>& of) {
    const std::vector<Tensor> g = plain(found);
    double apart = 0.0, all = 0.0;
    for (std::size_t i = 0; i < g.size(); ++i) {
      apart += sum(square(g[i] - of[i])).item();
      all += sum(square(of[i])).item();
    }
    return apart / all;
  };
  for (const GradientDistance kind : {GradientDistance::squared, GradientDistance::cosine}) {
    const Tensor found = invert_gradients(seen, picture.shape(), plain, kind, {.iterations = 150, .tv = 0.0}, {3, 4});
    if (kind == GradientDistance::squared) CHECK(distance(found, seen) < 1e-2);
    const Tensor again =
        invert_gradients(moved(picture), picture.shape(), plain, kind, {.iterations = 20, .tv = 0.0}, {3, 4});
    const Tensor first = invert_gradients(seen, picture.shape(), plain, kind, {.iterations = 20, .tv = 0.0}, {3, 4});
    CHECK(relative_error(again, first) < 1e-6); // theorem 4.2
  }
  CHECK_THROWS_AS(invert_gradients({}, picture.shape(), plain, GradientDistance::cosine, {}, {}), ShapeError);
}

TEST_CASE("learning P_C: found from answers where they tell it, not from answers of chance") {
  constexpr std::int64_t d = 8;
  const Permutation truth = Permutation::random_nonidentity(d, {11, 1});
  const Tensor z = random_normal({64, d}, {11, 2}, 0.0, 1.0, DType::f64);
  const Tensor readers = random_normal({6, d}, {11, 3}, 0.0, 1.0, DType::f64);
  const auto learnt = [&](const Tensor& answers) {
    return learn_columns(
        d, DType::f64, {.steps = 250}, {},
        [&](const Tensor& m, std::int64_t) { return mse_loss(linear(matmul(z, m), readers), answers); }, {11, 4});
  };
  CHECK(learnt(linear(truth.apply(z, -1), readers)).found(truth) == 1.0);
  CHECK(learnt(random_normal({64, 6}, {11, 5}, 0.0, 1.0, DType::f64)).found(truth) < 0.6);
  const Tensor m = doubly_stochastic(random_normal({d, d}, {11, 6}, 0.0, 1.0, DType::f64), 0.5);
  CHECK(relative_error(sum(m, {0}), Tensor::ones({d}, DType::f64)) < 1e-12);
  CHECK(relative_error(sum(m, {1}), Tensor::ones({d}, DType::f64)) < 1e-3);
}

TEST_CASE("F-SIM: 1 for equal pictures, less for others, whatever their pixels' distance") {
  const data::ImageDataset set = data::generate_faces(300, data::Split::train, 3, 16);
  PerceptualMetric metric(3, set.classes(), {12, 0});
  train_perceptual_metric(metric, set, {.steps = 60, .batch = 32}, {12, 1});
  std::vector<double> pixels;
  for (std::int64_t i = 0; i < 20; ++i)
    for (const std::uint8_t byte : set.pixels(i)) pixels.push_back(static_cast<double>(byte) / 127.5 - 1.0);
  const Tensor x = Tensor::from<double>(pixels, {20, 3, 16, 16});
  CHECK(amin(f_sim(metric, x, x)).item() > 1.0 - 1e-6);
  const double others = mean(f_sim(metric, x, roll(x, {1}, {0}))).item(),
               near = mean(f_sim(metric, x, x * 0.95)).item();
  CHECK(others < near);
  CHECK(others < 0.99);
  CHECK_THROWS_AS(f_sim(metric, x, x.slice(0, 0, 3)), ShapeError);
}

TEST_CASE("attacks that learn: what they find under no scheme and under shuffled rows, and what they refuse") {
  const AttackImages attack_images(data::generate_faces(60, data::Split::train, 1, 16),
                                   data::generate_faces(8, data::Split::test, 1, 16), {.steps = 20, .batch = 16},
                                   {1, 0});
  const BlockWeights model = random_image_model({1, 0});
  const permute::PermutationSource source = [](std::int64_t size, std::string_view site) {
    return Permutation::random(size, RandomKey{17, std::hash<std::string_view>{}(site)});
  };
  const auto run = [&](const char* attack, const char* scheme, Protection protection = {}) {
    return run_attack(attack_named(attack), {.model = model,
                                             .scheme = scheme_named(scheme),
                                             .key = {1, 1},
                                             .source = source,
                                             .protection = protection,
                                             .attack_images = &attack_images,
                                             .effort = {.steps = 25, .rounds = 2}});
  };
  for (const Attack& attack : attacks::attacks()) {
    if (!attack.learns) continue;
    CAPTURE(std::string(attack.name));
    for (const char* scheme : {"none", "row", "decoupled", "both"}) {
      const Findings f = run(attack.name, scheme,
                             std::string(attack.name) == "rounds" ? Protection{Defence::noise, 1.0} : Protection{});
      CHECK(f.holds());
      CHECK(f.list.empty() == !f.because.empty());
      for (const Finding& finding : f.list) CHECK(std::isfinite(finding.value));
    }
  }
  CHECK(run("jigsaw", "none").because == "tokens are in their order");
  CHECK(run("learn-columns", "row").because == "features are not permuted");
  CHECK(run("gradient-inversion", "row", {Defence::noise, 1.0}).because.find("defence") != std::string::npos);
  CHECK(run("rounds", "none").because.find("every round shows the same") != std::string::npos);
  CHECK_THROWS_AS(run_attack(attack_named("decoder"),
                             {.model = model, .scheme = scheme_named("none"), .key = {}, .source = source}),
                  ValueError);
  const AttackImages other(data::generate_faces(4, data::Split::train, 1, 24),
                           data::generate_faces(4, data::Split::test, 1, 24), {}, {});
  CHECK(message_of<ValueError>([&] {
          run_attack(
              attack_named("linear"),
              {.model = model, .scheme = scheme_named("none"), .key = {}, .source = source, .attack_images = &other});
        }).find("16 x 16 pixels") != std::string::npos);
}
