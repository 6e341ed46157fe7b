#include "apps/attacks/attack.h"

#include "apps/attacks/image_view.h"
#include "apps/attacks/perceptual_metric.h"

#include "core/base/words.h"
#include "core/call.h"
#include "core/ops.h"
#include "data/dataset.h"

#include <algorithm>
#include <array>
#include <fmt/format.h>

namespace eg::attacks {

using permute::BlockWeights;
using permute::PictureInput;
namespace {

constexpr std::array bases{Base::published, Base::tuned, Base::secret};

const std::array<Attack, 18>& list() {
  static const std::array<Attack, 18> all{
      weights_attack, gains_attack,     linear_map_attack, vocabulary_attack, cache_attack,
      mask_attack,    attention_attack, alignment_attack,  linear_attack,     positions_attack,
      labels_attack,  gradients_attack, decoder_attack,    white_box_attack,  gradient_inversion_attack,
      jigsaw_attack,  columns_attack,   rounds_attack};
  return all;
}

BlockWeights known_model(const Setting& s) {
  if (s.base == Base::published) return s.model;
  return s.base == Base::tuned ? permute::before_tuning(s.model, s.delta, s.key.fold(1))
                               : permute::reinitialised(s.model, s.key.fold(2));
}

void check_attack_images(const AttackImages& attack_images, const BlockWeights& v) {
  const PictureInput& p = *v.pictures;
  if (attack_images.own.channels() != p.channels || attack_images.own.height() != p.side ||
      attack_images.own.width() != p.side)
    throw ValueError(fmt::format("{}: the model is for pictures of {} channels and {} x {} pixels, those of {} have {} "
                                 "and {} x {}",
                                 v.name, p.channels, p.side, p.side, attack_images.own.name(),
                                 attack_images.own.channels(), attack_images.own.height(), attack_images.own.width()));
}

} // namespace

Base base_named(const std::string& name) {
  for (const Base base : bases)
    if (name == name_of(base)) return base;
  throw ValueError(fmt::format("there is no base '{}'; there are published, tuned, secret", name));
}

const char* name_of(Base base) {
  return base == Base::published ? "published" : base == Base::tuned ? "tuned" : "secret";
}

bool Findings::holds() const {
  return std::all_of(list.begin(), list.end(), [](const Finding& f) { return f.holds(); });
}

std::span<const Attack> attacks() { return list(); }

const Attack& attack_named(const std::string& name) {
  std::vector<std::string> names;
  for (const Attack& attack : attacks()) {
    if (name == attack.name) return attack;
    names.emplace_back(attack.name);
  }
  throw ValueError(fmt::format("there is no attack '{}'{}", name, did_you_mean(name, names)));
}

bool fits(const Attack& attack, const BlockWeights& model) {
  return (attack.texts && model.text) || (attack.pictures && model.pictures) || (attack.texts && attack.pictures);
}

AttackImages::AttackImages(data::ImageDataset own_pictures, data::ImageDataset attacked,
                           PerceptualMetricTraining training, RandomKey key)
    : own(std::move(own_pictures)), targets(std::move(attacked)), training_(std::move(training)), key_(key) {
  if (own.size() < 2 || targets.size() < 2 || own.channels() != targets.channels() ||
      own.height() != targets.height() || own.width() != targets.width())
    throw ValueError("album: the attacker's pictures and those that are attacked are of one size, two of each or more");
}

AttackImages::~AttackImages() = default;

const PerceptualMetric& AttackImages::metric() const {
  if (!metric_) {
    const PauseRecording pause;
    auto metric = std::make_unique<PerceptualMetric>(own.channels(), own.classes(), key_.fold(1));
    train_perceptual_metric(*metric, own, training_, key_.fold(2));
    metric_ = std::move(metric);
  }
  return *metric_;
}

Findings run_attack(const Attack& attack, const Setting& s) {
  if (!fits(attack, s.model))
    throw ValueError(fmt::format("{}: the attack is for models of {}, {} is none", attack.name,
                                 attack.texts ? "texts" : "pictures", s.model.name));
  if (s.tokens < 2 || !(s.noise >= 0.0) || !(s.delta >= 0.0))
    throw ValueError(fmt::format("{}: texts need two tokens or more, noise and delta are at least 0", attack.name));
  if (attack.learns && s.attack_images == nullptr)
    throw ValueError(fmt::format("{}: the attack learns from pictures, and none were given", attack.name));
  if (s.attack_images != nullptr && s.model.pictures) check_attack_images(*s.attack_images, s.model);
  if (s.protection.defence != Defence::none && !attack.heeds_defences)
    return nothing("what the attack looks at is not what the defence changes");
  if (const std::string why = permute::incompatible_because(s.model, s.scheme.columns); !why.empty())
    return nothing(why);
  return attack.run(s);
}

Scene::Scene(const Setting& setting)
    : s(setting), known(known_model(setting)),
      cloud(permute::obfuscate(setting.model, setting.scheme.columns, setting.source, setting.key.fold(3))) {}

permute::Permutation Scene::order(std::int64_t tokens, std::uint64_t query) const {
  return rows() ? s.source(tokens, fmt::format("rows.{}", query)) : permute::Permutation::identity(tokens);
}

permute::Permutation Scene::columns(std::uint64_t query) const {
  if (s.fresh && moves_features()) return s.source(s.model.block.dim, fmt::format("columns.{}", query));
  const auto at = cloud.key.find("residual");
  return at == cloud.key.end() ? permute::Permutation::identity(s.model.block.dim) : at->second;
}

Tensor Scene::noisy(const Tensor& z, std::uint64_t query) const {
  if (!s.scheme.noise) return z;
  const double spread = std_deviation(z).item();
  return z + random_normal(z.shape(), s.key.fold(4).fold(query), 0.0, s.noise * spread, DType::f64);
}

Tensor Scene::enter(const Tensor& z, std::uint64_t query) const {
  const PauseRecording pause;
  return cloud.map.defined() ? cloud.enter(noisy(z, query)) : columns(query).apply(noisy(z, query), -1);
}

Tensor Scene::texts(std::int64_t count) const {
  return random_integers({count, s.tokens}, s.key.fold(5), 0, s.model.text->vocabulary);
}

Tensor through(const nn::Blocks& blocks, std::int64_t count, const Tensor& z) {
  Tensor y = z;
  for (std::int64_t i = 0; i < count; ++i) y = (*blocks[static_cast<std::size_t>(i)])(y);
  return y;
}

Tensor random_patches(const PictureInput& input, std::int64_t count, RandomKey key) {
  const std::int64_t grid = input.side / input.patch;
  return random_uniform({count, grid * grid, input.patch_elements()}, key, -1.0, 1.0, DType::f64);
}

Tensor shape_pictures(const PictureInput& input, std::int64_t count, std::uint64_t seed) {
  const Tensor rgb = signed_pictures(data::generate_shapes(count, data::Split::test, seed, input.side), 0, count);
  const PauseRecording pause;
  return input.channels == 3 ? rgb : expand(mean(rgb, {1}, true), {count, input.channels, input.side, input.side});
}

Findings nothing(std::string because) {
  return {.list = {}, .because = std::move(because), .remarks = {}, .pictures = {}};
}

} // namespace eg::attacks
