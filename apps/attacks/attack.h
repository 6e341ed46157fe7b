#pragma once
// Lists the attacks: what each sees, what it recovers, at what cost; runs one on a model under a scheme.

#include "apps/attacks/defences.h"
#include "apps/attacks/perceptual_metric.h"
#include "data/dataset.h"
#include "data/image.h"
#include "permute/scheme.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace eg::attacks {

/// What the attacker knows of the weights before they were moved.
enum class Base : std::uint8_t {
  published, ///< all of them
  tuned,     ///< those that they were tuned from (Setting::delta)
  secret,    ///< nothing but the shape of the model
};
/// "published", "tuned", "secret". Throws ValueError that lists them.
Base base_named(const std::string& name);
const char* name_of(Base base);

/// Images that an attacker owns, images under attack, and the network of F-SIM, which is trained on the attacker's at
/// its first use.
class AttackImages {
public:
  /// Throws ValueError unless both are of one size and two or more.
  AttackImages(data::ImageDataset own, data::ImageDataset targets, PerceptualMetricTraining training, RandomKey key);
  ~AttackImages();
  const PerceptualMetric& metric() const;
  const data::ImageDataset own, targets;

private:
  PerceptualMetricTraining training_;
  RandomKey key_;
  mutable std::unique_ptr<PerceptualMetric> metric_;
};

/// How much is spent on attacks that learn.
struct Effort {
  std::int64_t steps = 400;     ///< of a decoder, of P_C; iterations over pixels
  std::int64_t pretraining = 0; ///< steps of a decoder before it sees a pair
  std::int64_t rounds = 4;      ///< of training that are looked at
  std::function<void(double done, const std::string& what)> on_progress = {}; ///< share of one attack; throws to stop
};

struct Setting {
  const permute::BlockWeights& model;
  const permute::SchemeInfo& scheme;
  Base base = Base::published;
  bool fresh = false;       ///< features get another P_C with every query; else the model's key
  double noise = 0.3;       ///< of schemes with noise: in standard deviations of the features
  double delta = 0.05;      ///< base tuned: times each tensor's standard deviation
  std::int64_t tokens = 16; ///< of a text
  std::int64_t layer = -1; ///< blocks that texts have passed when they are seen; -1: all, or none where that takes long
  RandomKey key;           ///< of everything that is random and not secret
  permute::PermutationSource source;           ///< of the keys
  Protection protection = {};                  ///< what the edge does beside the scheme
  const AttackImages* attack_images = nullptr; ///< images; attacks that learn need them
  Effort effort = {};
};

/// One number that an attack ends with.
struct Finding {
  std::string what = {};
  double value = 0.0;
  bool is_rate = true; ///< a share from 0 to 1; else in `unit`
  std::string unit = {};
  std::optional<double> theory = {}; ///< the least rate by theory; a run with less has failed

  bool holds() const { return !theory || value >= *theory; }
};

struct Findings {
  std::vector<Finding> list = {}; ///< the main one first; empty where the attack has nothing to attack
  std::string because = {};       ///< why it is empty
  std::vector<std::string> remarks = {};
  std::vector<std::pair<data::Image, std::string>> pictures = {};

  bool holds() const;
};

/// One attack. Use run_attack().
struct Attack {
  const char* name = "";
  const char* id = ""; ///< of docs/catalogue.md
  const char* sees = "";
  const char* recovers = "";
  const char* cost = "";
  const char* source = "";
  bool texts = false, pictures = false; ///< what models it is for
  Findings (*run)(const Setting& setting) = nullptr;
  bool heeds_defences = false; ///< what it looks at passes Setting::protection
  bool learns = false;         ///< needs images and minutes
};

std::span<const Attack> attacks();
/// Throws ValueError with the nearest name.
const Attack& attack_named(const std::string& name);
/// Whether the attack is for models like this one.
bool fits(const Attack& attack, const permute::BlockWeights& model);
/// Runs it; empty Findings with the reason where the model has no such scheme, or the scheme leaves nothing to attack.
/// Throws ValueError for an attack that does not fit the model and for settings outside their ranges, and what the
/// library functions throw.
Findings run_attack(const Attack& attack, const Setting& setting);

} // namespace eg::attacks
