#include "apps/reproduce/arm_attacks.h"

#include "apps/attacks/images.h"
#include "apps/attacks/inversion.h"
#include "apps/attacks/pixel_search.h"
#include "apps/report/pictures.h"
#include "autograd/tape.h"
#include "core/ops.h"

#include <algorithm>
#include <numeric>

namespace eg::reproduce {
namespace {

enum Draw : std::uint64_t { draw_decoder = 1, draw_pretraining, draw_pairs, draw_own, draw_targets, draw_pixels };

std::vector<std::int64_t> first_numbers(std::int64_t count) {
  std::vector<std::int64_t> numbers(static_cast<std::size_t>(count));
  std::iota(numbers.begin(), numbers.end(), 0);
  return numbers;
}

Tensor first_pictures(const data::ImageDataset& images, std::int64_t first, std::int64_t count) {
  std::vector<std::int64_t> numbers = first_numbers(std::min(count, images.size() - first));
  for (std::int64_t& n : numbers) n += first;
  return pictures_of(images, numbers, DType::f64);
}

} // namespace

data::Image strip_of(const Tensor& pictures) {
  const PauseRecording pause;
  std::vector<Tensor> shown;
  for (std::int64_t i = 0; i < std::min<std::int64_t>(pictures.size(0), 8); ++i) {
    const Tensor one = pictures.select(0, i).to(DType::f64);
    shown.push_back(pad(one, 2, 0, 1, 1.0)); // a white line between them
  }
  return report::picture((concat(shown, 2) + 1.0) * 127.5);
}

ArmAttacker::ArmAttacker(const Plan& plan, const SplitArm& arm, const Images& images, std::uint64_t seed,
                         const std::function<const attacks::PerceptualMetric&()>& metric,
                         std::function<void(double)> on_progress)
    : plan_(plan), arm_(arm), images_(images), root_{seed, 32}, metric_(metric), on_progress_(std::move(on_progress)) {}

Tensor ArmAttacker::targets(const Plan& plan, const data::ImageDataset& images) {
  return first_pictures(images, 0, plan.count("targets"));
}

std::function<void(std::int64_t)> ArmAttacker::step_of(std::int64_t steps) const {
  return [this, steps](std::int64_t step) { on_progress_(static_cast<double>(step) / static_cast<double>(steps)); };
}

void ArmAttacker::note(Cell& cell, const std::string& attack, const Tensor& found, const Tensor& truth) const {
  const PauseRecording pause;
  const auto put = [&](const char* what, const Tensor& values) {
    cell.numbers[attack + "." + what] = mean(values).item();
  };
  const Tensor back = found.to(DType::f64);
  put("ssim", attacks::ssim(back, truth, attacks::signed_peak));
  put("psnr", attacks::psnr(back, truth, attacks::papers_peak));
  put("fsim", attacks::f_sim(metric_(), back, truth));
  cell.pictures.insert_or_assign(attack, strip_of(back));
}

/// [N, T, rounds d]: of several rounds the rows of each that go with those of the first, side by side; 0 rounds: of the
/// final model.
Tensor ArmAttacker::features(const Tensor& pictures, RandomKey key, std::size_t rounds) const {
  const PauseRecording pause;
  const Tensor x = pictures.to(plan_.train.dtype);
  if (rounds == 0) return arm_.leaving(x, key).features.to(DType::f32);
  std::vector<Tensor> looks, samples;
  for (std::size_t r = 0; r < rounds; ++r) looks.push_back(arm_.leaving(x, key.fold(r), r).features);
  for (std::int64_t i = 0; i < x.size(0); ++i) {
    std::vector<Tensor> rows;
    for (const Tensor& look : looks) rows.push_back(look.select(0, i).contiguous());
    const std::vector<permute::Permutation> orders = attacks::align_rounds(rows);
    for (std::size_t r = 0; r < rounds; ++r) rows[r] = orders[r].apply(rows[r], 0);
    samples.push_back(concat(rows, 1));
  }
  return stack(samples, 0).to(DType::f32);
}

namespace {

attacks::InversionDecoder decoder_for(const Plan& plan, const SplitArm& arm, std::int64_t dim, RandomKey key) {
  const nn::VitConfig& c = arm.model().config;
  return {{.tokens = c.tokens(),
           .dim = dim,
           .channels = c.channels,
           .height = c.height(),
           .width = c.width(),
           .patch = c.patch,
           .hidden = plan.count("attack_hidden"),
           .layers = plan.count("attack_layers")},
          key};
}

/// Pre-trains a decoder on generated shapes, where the plan requests it.
void begin_decoder(attacks::InversionDecoder& decoder, const Plan& plan, RandomKey key,
                   const std::function<void(std::int64_t)>& on_progress) {
  const std::int64_t steps = plan.count("attack_pretraining"), batch = plan.count("attack_batch");
  if (steps == 0 || decoder.config.height != decoder.config.width || decoder.config.channels != 3) return;
  const data::ImageDataset shapes = data::generate_shapes(1000, data::Split::train, key.stream, decoder.config.height);
  attacks::pretrain_decoder(
      decoder, {.steps = steps, .on_progress = on_progress},
      [&](std::int64_t step) {
        const Tensor numbers = random_integers({batch}, key.fold(static_cast<std::uint64_t>(step)), 0, shapes.size());
        return pictures_of(shapes, numbers.to_vector<std::int64_t>(), DType::f32);
      },
      key);
}

} // namespace

void ArmAttacker::black_box(Cell& cell) const {
  const std::int64_t steps = plan_.count("attack_steps"), batch = plan_.count("attack_batch");
  attacks::InversionDecoder decoder =
      decoder_for(plan_, arm_, arm_.model().config.encoder.dim, root_.fold(draw_decoder));
  begin_decoder(decoder, plan_, root_.fold(draw_pretraining), step_of(plan_.count("attack_pretraining")));
  attacks::train_decoder(decoder, {.steps = steps, .on_progress = step_of(steps)}, [&](std::int64_t step) {
    const RandomKey key = root_.fold(draw_pairs).fold(static_cast<std::uint64_t>(step));
    const Tensor numbers = random_integers({batch}, key.fold(1), 0, images_.first.size());
    const Tensor pictures = pictures_of(images_.first, numbers.to_vector<std::int64_t>(), DType::f32);
    return attacks::Pairs{features(pictures, key.fold(2), 0), pictures};
  });
  const Tensor truth = targets(plan_, images_.second);
  const PauseRecording pause;
  note(cell, "black", decoder(features(truth, root_.fold(draw_targets), 0)), truth);
}

void ArmAttacker::training(Cell& cell, std::size_t rounds) const {
  const std::int64_t steps = plan_.count("attack_steps"), batch = plan_.count("attack_batch"),
                     count = plan_.count("targets");
  const Tensor truth = targets(plan_, images_.first);
  const Tensor own = first_pictures(images_.first, count, plan_.count("training_pairs"));
  const Tensor known = features(own, root_.fold(draw_own), rounds), pictures = own.to(DType::f32);
  attacks::InversionDecoder decoder = decoder_for(plan_, arm_, known.size(2), root_.fold(draw_decoder));
  begin_decoder(decoder, plan_, root_.fold(draw_pretraining), step_of(plan_.count("attack_pretraining")));
  attacks::train_decoder(decoder, {.steps = steps, .on_progress = step_of(steps)}, [&](std::int64_t step) {
    const Tensor numbers =
        random_integers({batch}, root_.fold(draw_pairs).fold(static_cast<std::uint64_t>(step)), 0, own.size(0));
    return attacks::Pairs{index_select(known, 0, numbers), index_select(pictures, 0, numbers)};
  });
  const PauseRecording pause;
  note(cell, "training", decoder(features(truth, root_.fold(draw_targets), rounds)), truth);
}

void ArmAttacker::white_box(Cell& cell) const {
  using attacks::Unknown;
  const std::int64_t iterations = plan_.count("white_steps");
  const Tensor truth = targets(plan_, images_.second);
  const Tensor seen = without_tape([&] {
                        return arm_.leaving(truth.to(plan_.train.dtype), root_.fold(draw_targets)).features;
                      }).to(DType::f64);
  const Arm& arm = arm_.arm();
  const auto found = [&](bool permutes, Unknown unknown) {
    const attacks::EdgeView view{.embed = [&](const Tensor& x) { return arm_.model().embed(x.to(plan_.train.dtype)); },
                                 .protection = arm.protection,
                                 .rows = permutes && arm.rows,
                                 .columns = {},
                                 .special = 0};
    const RandomKey own = root_.fold(draw_own); // the attacker's draw of what is random
    return attacks::invert_features(
        seen, truth.shape(), [&](const Tensor& x) { return view(x, own).features.to(DType::f64); }, unknown,
        {.iterations = iterations, .on_progress = step_of(iterations)}, root_.fold(draw_pixels));
  };
  const Unknown unknown =
      arm.rows ? (arm.columns ? Unknown::both : Unknown::rows) : (arm.columns ? Unknown::columns : Unknown::nothing);
  note(cell, "white", found(false, unknown), truth);
  if (arm.rows || arm.columns) note(cell, "printed", found(true, Unknown::nothing), truth);
}

void ArmAttacker::linear(Cell& cell) const {
  const PauseRecording pause;
  const nn::VitConfig& c = arm_.model().config;
  if (arm_.arm().protection.defence != attacks::Defence::none || c.encoder.dim < c.patch_elements()) return;
  const Tensor own = first_pictures(images_.first, 0, 200), truth = targets(plan_, images_.second);
  const auto look = [&](const Tensor& pictures, RandomKey key) {
    const attacks::Leaving out = arm_.leaving(pictures.to(plan_.train.dtype), key);
    const Tensor patches = patchify(pictures, c.patch);
    return std::pair(out.features.to(DType::f64), out.rows.defined() ? permute_rows(patches, out.rows) : patches);
  };
  const auto [known, behind] = look(own, root_.fold(draw_own));
  const auto [seen, wanted] = look(truth, root_.fold(draw_targets));
  // The attacker can learn the order of own images' rows by sending patches that are all alike.
  const attacks::LinearInversion inversion(known, behind, attacks::Places::unknown);
  cell.numbers["linear"] = amax(abs(inversion(seen) - wanted)).item();
}

} // namespace eg::reproduce
