#include "apps/attacks/defences.h"

#include "core/base/words.h"
#include "core/ops.h"
#include "data/mix.h"
#include "permute/blocks_key.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <fmt/format.h>
#include <numeric>
#include <vector>

namespace eg::attacks {
namespace {

constexpr std::array all{
    DefenceInfo{Defence::none, "none", "nothing", "", 0.0, false},
    DefenceInfo{Defence::noise, "noise", "Gaussian noise on pictures", "deviation, pictures are in [-1, 1]", 2.0,
                false},
    DefenceInfo{Defence::feature_noise, "feature-noise", "Gaussian noise on features", "in deviations of the features",
                0.3, true},
    DefenceInfo{Defence::gaussian_blur, "gaussian-blur", "pictures under a Gaussian", "deviation in pixels", 2.0,
                false},
    DefenceInfo{Defence::blur, "blur", "pictures shrunk and stretched again", "side in pixels", 8.0, false},
    DefenceInfo{Defence::low_pass, "low-pass", "low frequencies of pictures alone", "cycles a picture", 3.0, false},
    DefenceInfo{Defence::batch_shuffle, "batch-shuffle", "patches change places across the batch",
                "share of patches that stay", 0.4, true},
    DefenceInfo{Defence::cutmix, "cutmix", "a rectangle of each picture comes from another", "", 0.0, false}};

void check_pictures(const char* who, const Tensor& x) {
  if (x.rank() != 4 || x.numel() == 0)
    throw ShapeError(fmt::format("{}: pictures are [N, C, H, W], not {}", who, x.shape().str()));
}

/// `reach` lines more at both ends of an axis, each a copy of the outermost one.
Tensor repeated_edges(const Tensor& x, int axis, std::int64_t reach) {
  const std::int64_t extent = x.size(axis);
  std::vector<std::int64_t> from;
  for (std::int64_t i = -reach; i < extent + reach; ++i) from.push_back(std::clamp<std::int64_t>(i, 0, extent - 1));
  return index_select(x, axis, Tensor::from<std::int64_t>(from, {static_cast<std::int64_t>(from.size())}));
}

void check_strength(const DefenceInfo& info, double strength) {
  const bool whole = info.defence == Defence::blur || info.defence == Defence::low_pass;
  const double least = info.defence == Defence::blur ? 1.0 : 0.0;
  const double most = info.defence == Defence::batch_shuffle ? 1.0 : 1e6;
  if (!(strength >= least && strength <= most) || (whole && strength != std::floor(strength)))
    throw ValueError(fmt::format("defence {}: its strength ({}) is {}from {} to {}, not {}", info.name, info.strength,
                                 whole ? "a whole number " : "", least, most, strength));
}

} // namespace

Tensor gaussian_noise(const Tensor& x, double stddev, RandomKey key) {
  if (!(stddev >= 0.0)) throw ValueError(fmt::format("gaussian_noise: the deviation is {}", stddev));
  return x + random_normal(x.shape(), key, 0.0, stddev, x.dtype());
}

Tensor gaussian_blur(const Tensor& pictures, double sigma) {
  check_pictures("gaussian_blur", pictures);
  if (!(sigma >= 0.0)) throw ValueError(fmt::format("gaussian_blur: sigma is {}", sigma));
  const auto reach = static_cast<std::int64_t>(std::ceil(3.0 * sigma));
  if (reach == 0) return pictures;
  std::vector<double> line;
  for (std::int64_t i = -reach; i <= reach; ++i)
    line.push_back(std::exp(-0.5 * static_cast<double>(i * i) / (sigma * sigma)));
  const double total = std::accumulate(line.begin(), line.end(), 0.0);
  const std::int64_t n = pictures.size(0), c = pictures.size(1), height = pictures.size(2), width = pictures.size(3);
  const Tensor weights = (Tensor::from<double>(line, {1, 1, 2 * reach + 1, 1}) / total).to(pictures.dtype());
  const Tensor planes = pictures.reshape({n * c, 1, height, width});
  const Tensor down = conv2d(repeated_edges(planes, 2, reach), weights);
  return conv2d(repeated_edges(down, 3, reach), weights.reshape({1, 1, 1, 2 * reach + 1}))
      .reshape({n, c, height, width});
}

Tensor blur_by_resizing(const Tensor& pictures, std::int64_t side) {
  check_pictures("blur", pictures);
  const std::int64_t height = pictures.size(2), width = pictures.size(3);
  if (side < 1 || side > height || side > width)
    throw ValueError(fmt::format("blur: pictures of {} x {} cannot be shrunk to {}", height, width, side));
  return resize_pillow(resize_pillow(pictures, side, "bilinear"), {height, width}, "bilinear");
}

Tensor batch_shuffle(const Tensor& z, double kept, RandomKey key, std::int64_t special) {
  if (z.rank() != 3 || special < 0 || special > z.size(1))
    throw ShapeError(fmt::format("batch_shuffle: features are [B, T, d] with {} rows before the patches, not {}",
                                 special, z.shape().str()));
  if (!(kept >= 0.0 && kept <= 1.0)) throw ValueError(fmt::format("batch_shuffle: the share that stays is {}", kept));
  const std::int64_t batch = z.size(0), tokens = z.size(1), patches = tokens - special;
  const auto stay = static_cast<std::int64_t>(kept * static_cast<double>(patches));
  std::vector<std::int64_t> from(static_cast<std::size_t>(batch * tokens)), moving;
  std::iota(from.begin(), from.end(), 0);
  RandomStream random(key);
  const auto below = [&](std::uint64_t bound) { return random.below(bound); };
  for (std::int64_t b = 0; b < batch; ++b) {
    std::vector<std::int64_t> own(static_cast<std::size_t>(patches));
    std::iota(own.begin(), own.end(), b * tokens + special);
    fisher_yates(own, below);
    moving.insert(moving.end(), own.begin() + stay, own.end());
  }
  std::vector<std::int64_t> places = moving;
  fisher_yates(moving, below);
  for (std::size_t i = 0; i < places.size(); ++i) from[static_cast<std::size_t>(places[i])] = moving[i];
  const Tensor order = Tensor::from<std::int64_t>(from, {batch * tokens});
  return index_select(z.reshape({batch * tokens, z.size(2)}), 0, order).reshape(z.shape());
}

Tensor cut_and_paste(const Tensor& pictures, RandomKey key) {
  check_pictures("cutmix", pictures);
  const Tensor unused = Tensor::zeros({pictures.size(0), 1}, pictures.dtype());
  return data::mix({.cutmix = 1.0}, pictures, unused, key).images;
}

std::span<const DefenceInfo> defences() { return all; }

const DefenceInfo& info_of(Defence defence) { return all[static_cast<std::size_t>(defence)]; }

Protection protection_named(const std::string& text) {
  const std::size_t colon = text.find(':');
  const std::string name = text.substr(0, colon);
  std::vector<std::string> names;
  for (const DefenceInfo& info : all) {
    names.emplace_back(info.name);
    if (name != info.name) continue;
    if (colon == std::string::npos) return {info.defence, info.usual};
    if (*info.strength == '\0') throw ValueError(fmt::format("defence {}: it has no strength", name));
    const std::string number = text.substr(colon + 1);
    std::size_t read = 0;
    double strength = std::nan("");
    try {
      strength = std::stod(number, &read);
    } catch (const std::exception&) {
      read = 0;
    }
    if (read == 0 || read != number.size())
      throw ValueError(fmt::format("defence {}: its strength is a number, not '{}'", name, number));
    check_strength(info, strength);
    return {info.defence, strength};
  }
  const std::string hint = did_you_mean(name, names);
  throw ValueError(fmt::format("there is no defence '{}'{} there are {}", name, hint.empty() ? ";" : hint + ";",
                               fmt::join(names, ", ")));
}

std::string name_of(const Protection& p) {
  const DefenceInfo& info = info_of(p.defence);
  return *info.strength == '\0' ? std::string(info.name) : fmt::format("{}:{}", info.name, p.strength);
}

Tensor on_pictures(const Protection& p, const Tensor& pictures, RandomKey key) {
  switch (p.defence) {
  case Defence::noise:
    return gaussian_noise(pictures, p.strength, key);
  case Defence::gaussian_blur:
    return gaussian_blur(pictures, p.strength);
  case Defence::blur:
    return blur_by_resizing(pictures, static_cast<std::int64_t>(p.strength));
  case Defence::low_pass:
    return fft_low_pass(pictures, static_cast<std::int64_t>(p.strength));
  case Defence::cutmix:
    return cut_and_paste(pictures, key);
  default:
    return pictures;
  }
}

Tensor on_features(const Protection& p, const Tensor& z, RandomKey key, std::int64_t special) {
  if (p.defence == Defence::feature_noise) return gaussian_noise(z, p.strength * std_deviation(z.detach()).item(), key);
  if (p.defence == Defence::batch_shuffle) return batch_shuffle(z, p.strength, key, special);
  return z;
}

Leaving EdgeView::operator()(const Tensor& pictures, RandomKey key) const {
  const Tensor z = on_features(protection, embed(on_pictures(protection, pictures, key.fold(1))), key.fold(2), special);
  const Tensor order = rows ? permute::row_permutations(z.size(0), z.size(1), key.fold(3)) : Tensor{};
  return {.features = pass(order).enter(z), .rows = order};
}

permute::PermutedPass EdgeView::pass(const Tensor& order) const {
  return {.rows = order, .columns = columns ? &*columns : nullptr};
}

} // namespace eg::attacks
