#include "apps/attacks/image_view.h"

#include "apps/attacks/alignment.h"
#include "apps/attacks/metrics.h"
#include "apps/attacks/perceptual_metric.h"
#include "permute/recovery/matching.h"

#include "apps/report/pictures.h"
#include "core/call.h"
#include "core/ops.h"

#include <algorithm>
#include <fmt/format.h>

namespace eg::attacks {
namespace {

constexpr std::uint64_t first_query = 0;
constexpr std::int64_t batch = 64; ///< images that a protection is applied to together

/// The row of `z` [T, d] that is the class token's: nearest to `token` [d] whatever the order of features.
std::int64_t row_of_token(const Tensor& z, const Tensor& token, bool sorted) {
  const Tensor known = token.unsqueeze(0), rows = sorted ? permute::sorted_rows(z) : z;
  return argmin(permute::absolute_distances(rows, sorted ? permute::sorted_rows(known) : known), 0)
      .to_vector<std::int64_t>()
      .front();
}

} // namespace

ImageView::ImageView(const Scene& scene) : scene_(scene), input_(*scene.s.model.pictures) {
  // The class token is common to all images: the attacker sees it once, from any two of them.
  token_ = scene.enter(input_.plain.slice(0, 0, 1), first_query).select(0, 0).contiguous();
}

Tensor ImageView::protect(const Tensor& patches, std::uint64_t query) const {
  const Protection& p = scene_.s.protection;
  if (p.defence == Defence::none) return input_.embed(patches);
  std::vector<Tensor> all;
  for (std::int64_t i = 0; i < patches.size(0); i += batch) {
    const RandomKey key = scene_.s.key.fold(13).fold(query + static_cast<std::uint64_t>(i));
    const Tensor pictures = as_pictures(input_, patches.slice(0, i, std::min(i + batch, patches.size(0))));
    const Tensor seen = patchify(on_pictures(p, pictures, key.fold(1)), input_.patch);
    all.push_back(on_features(p, input_.embed(seen), key.fold(2), input_.special));
  }
  return concat(all, 0);
}

Observation ImageView::observe(const Tensor& patches, std::uint64_t query) const {
  const PauseRecording pause;
  const Tensor z = protect(patches, query);
  Observation seen;
  std::vector<Tensor> all;
  for (std::int64_t i = 0; i < z.size(0); ++i) {
    const std::uint64_t q = query + static_cast<std::uint64_t>(i);
    const permute::Permutation order = scene_.order(z.size(1), q);
    all.push_back(without_token(order.apply(scene_.enter(z.select(0, i).contiguous(), q), 0), order, seen));
  }
  seen.features = stack(all, 0);
  return seen;
}

Tensor ImageView::without_token(const Tensor& z, const permute::Permutation& order, Observation& seen) const {
  if (input_.special == 0) {
    seen.orders.push_back(order);
    return z;
  }
  const bool fresh = scene_.s.fresh && scene_.moves_features() && !scene_.cloud.map.defined();
  const std::int64_t at = scene_.rows() ? row_of_token(z, token_, fresh) : 0;
  Tensor rows = concat({z.slice(0, 0, at), z.slice(0, at + 1, z.size(0))}, 0);
  if (fresh) rows = align_queries(stack({token_.unsqueeze(0), z.slice(0, at, at + 1)}, 0))[1].apply(rows, 1);
  std::vector<std::int64_t> left;
  for (const std::int64_t from : order.gather())
    if (from >= input_.special) left.push_back(from - input_.special);
  seen.orders.emplace_back(std::move(left));
  return rows;
}

Tensor as_pictures(const permute::PictureInput& input, const Tensor& patches) {
  return unpatchify(patches, input.channels, input.side, input.side, input.patch);
}

Tensor signed_pictures(const data::ImageDataset& images, std::int64_t first, std::int64_t count) {
  std::vector<double> pixels;
  const std::int64_t last = std::min(first + count, images.size());
  for (std::int64_t i = first; i < last; ++i)
    for (const std::uint8_t byte : images.pixels(i)) pixels.push_back(static_cast<double>(byte) / 127.5 - 1.0);
  return Tensor::from<double>(pixels, {last - first, images.channels(), images.height(), images.width()});
}

void add_pictures(Findings& f, const Tensor& truth, const Tensor& found, const std::string& how) {
  for (std::int64_t i = 0; i < std::min<std::int64_t>(truth.size(0), 6); ++i)
    for (const auto& [x, what] : {std::pair{truth, std::string("picture")}, {found, how}})
      f.pictures.emplace_back(report::picture((x.select(0, i) + 1.0) * 127.5), fmt::format("{} {}", what, i + 1));
}

void add_quality(Findings& f, const Setting& s, const Tensor& truth, const Tensor& found, const std::string& what) {
  const PauseRecording pause;
  const auto add = [&](const char* name, const Tensor& values, const char* unit) {
    f.list.push_back({.what = name + what, .value = mean(values).item(), .is_rate = false, .unit = unit});
  };
  if (truth.size(2) >= 11 && truth.size(3) >= 11) add("SSIM", ssim(found, truth, signed_peak), "SSIM");
  add("PSNR, peak 2", psnr(found, truth, signed_peak), "dB");
  add("PSNR, the paper's peak 1", psnr(found, truth, papers_peak), "dB");
  if (s.attack_images == nullptr) return;
  add("F-SIM", f_sim(s.attack_images->metric(), found, truth), "F-SIM");
  const Tensor others = roll(truth, {1}, {0});
  f.remarks.push_back(fmt::format("F-SIM of other pictures{}: {:.3f}", what,
                                  mean(f_sim(s.attack_images->metric(), others, truth)).item()));
}

} // namespace eg::attacks
