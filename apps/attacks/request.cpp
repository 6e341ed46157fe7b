#include "apps/attacks/request.h"

#include "core/base/words.h"
#include "data/dataset.h"
#include "permute/key.h"

#include <fmt/format.h>

#include <algorithm>

namespace eg::attacks {
namespace {

/// `attack_images`: pictures that the randomly initialised model is to be for, or null.
std::vector<permute::BlockWeights> models_of(const AttackRequest& o, const AttackImages* attack_images, RandomKey key) {
  if (!o.model.empty()) return {permute::open_block_weights(o.model, key)};
  if (attack_images == nullptr) return {permute::random_image_model(key), permute::random_text_model(key)};
  return {permute::random_image_model(key, attack_images->own.height(), attack_images->own.channels()),
          permute::random_text_model(key)};
}

/// The attacks that were asked for; of all, those that fit some model.
std::vector<const Attack*> attacks_of(const AttackRequest& o, const std::vector<permute::BlockWeights>& models) {
  if (o.name != "all") return {&attack_named(o.name)};
  std::vector<const Attack*> fitting;
  for (const Attack& a : attacks())
    if ((o.learned || !a.learns) &&
        std::any_of(models.begin(), models.end(), [&](const permute::BlockWeights& v) { return fits(a, v); }))
      fitting.push_back(&a);
  return fitting;
}

std::vector<const permute::SchemeInfo*> schemes_of(const AttackRequest& o) {
  if (!o.scheme.empty()) return {&permute::scheme_named(o.scheme)};
  std::vector<const permute::SchemeInfo*> all;
  for (const permute::SchemeInfo& s : permute::schemes()) all.push_back(&s);
  return all;
}

std::vector<Protection> protections_of(const AttackRequest& o) {
  std::vector<Protection> meant;
  if (o.defences == "all")
    for (const DefenceInfo& d : defences()) meant.push_back({d.defence, d.usual});
  else
    for (const std::string& word : words_of_list(o.defences)) meant.push_back(protection_named(word));
  if (meant.empty()) meant.emplace_back();
  return meant;
}

/// The pictures of attacks that learn, or of `data`; null where neither is asked for.
std::unique_ptr<AttackImages> attack_images_of(const AttackRequest& o, std::uint64_t seed, StopFlag stop) {
  const bool learns = o.name == "all" ? o.learned : attack_named(o.name).learns;
  if (!learns && o.data.empty()) return nullptr;
  const std::string name = o.data.empty() ? "faces" : o.data;
  const auto open = [&](data::Split split, std::int64_t limit) {
    return data::open_dataset(name, o.data_dir, split, {.limit = limit, .size = o.size, .stop = stop});
  };
  const auto go_on = [stop](std::int64_t) {
    if (stop != nullptr && stop->load()) throw Interrupted("attack: interrupted");
  };
  return std::make_unique<AttackImages>(open(data::Split::train, o.pictures), open(data::Split::test, 100),
                                        PerceptualMetricTraining{.on_progress = go_on}, RandomKey{seed, 9});
}

} // namespace

void check(const AttackRequest& o) {
  attacks_of(o, {});
  schemes_of(o);
  protections_of(o);
  if (!o.base.empty()) base_named(o.base);
  if (!o.keys.empty() && o.keys != "fixed" && o.keys != "fresh")
    throw ValueError(fmt::format("keys: '{}' is neither fixed nor fresh", o.keys));
  if (o.name != "all" && !o.data.empty() && !attack_named(o.name).pictures)
    throw ValueError(fmt::format("data has no effect: the attack {} looks at no pictures", o.name));
}

std::vector<Cell> run_request(const AttackRequest& o, std::uint64_t seed, StopFlag stop,
                              std::function<void(double done, const std::string& what)> on_progress,
                              const Sharing& sharing) {
  check(o); // what is wrong is said before anything is read
  const permute::SecretKey owners_key =
      permute::SecretKey::generate("attack", sharing.agree); // of the party that is attacked
  const std::unique_ptr<AttackImages> images = attack_images_of(o, seed, stop);
  TableRequest t;
  t.key = RandomKey{seed, 8};
  t.schemes = schemes_of(o);
  t.protections = protections_of(o);
  t.attack_images = images.get();
  t.effort = o.effort;
  using enum Base;
  t.bases = {published, tuned, Base::secret};
  if (!o.base.empty()) t.bases = {base_named(o.base)};
  t.fresh = {false, true};
  if (!o.keys.empty()) t.fresh = {o.keys == "fresh"};
  t.models = models_of(o, images.get(), t.key);
  t.attacks = attacks_of(o, t.models);
  t.noise = o.noise;
  t.delta = o.delta;
  t.tokens = o.tokens;
  t.layer = o.layer;
  t.source = owners_key.source("attack");
  t.on_progress = std::move(on_progress);
  t.run_cells = sharing.run_cells;
  return run_table(t);
}

} // namespace eg::attacks
