#include "nn/hub/regrid.h"

#include "core/base/error.h"
#include "core/ops.h"
#include "nn/hub/fields.h"
#include "nn/hub/folder.h"
#include "nn/hub/timm.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace eg::hub {
namespace {

bool is_resizable(const std::string& family) { return family == "vit" || family == "deit"; }

bool are_whole_patches(std::int64_t patch, std::pair<std::int64_t, std::int64_t> size) {
  const auto [height, width] = size;
  return patch > 0 && height > 0 && width > 0 && height % patch == 0 && width % patch == 0;
}

} // namespace

std::optional<Regrid> change_image_size(nlohmann::json& config, std::pair<std::int64_t, std::int64_t> size,
                                        const std::string& path) {
  if (is_timm(config) && timm_image_size(config, path) == size) return {};
  const Fields fields(config, path);
  const std::string family = is_timm(config) ? "timm" : fields.text("model_type", "");
  if (!is_resizable(family))
    throw ValueError(fmt::format("{}: image_size is for vit and deit, this is {}", path, family));
  const auto [height, width] = fields.sizes("image_size", 224);
  const std::int64_t patch = fields.sizes("patch_size", 16).first;
  const auto [new_height, new_width] = size;
  if (!are_whole_patches(patch, size))
    throw ValueError(
        fmt::format("{}: patches of {} do not divide images of {} x {}", path, patch, new_height, new_width));
  if (height == new_height && width == new_width) return {};
  config["image_size"] = {new_height, new_width};
  return Regrid{.special = family == "deit" ? 2 : 1,
                .from = {height / patch, width / patch},
                .to = {new_height / patch, new_width / patch}};
}

bool can_change_image_size(const nlohmann::json& config, std::pair<std::int64_t, std::int64_t> size,
                           const std::string& path) {
  const Fields fields(config, path);
  return !is_timm(config) && is_resizable(fields.text("model_type", "")) &&
         are_whole_patches(fields.sizes("patch_size", 16).first, size);
}

Tensor resample_positions(const Tensor& positions, std::int64_t special, std::pair<std::int64_t, std::int64_t> from,
                          std::pair<std::int64_t, std::int64_t> to) {
  if (positions.rank() != 3 || positions.size(0) != 1 || positions.size(1) != special + from.first * from.second)
    throw ShapeError(fmt::format("resample_positions: {} does not hold {} + {} x {} tokens", positions.shape().str(),
                                 special, from.first, from.second));
  const std::int64_t dim = positions.size(2);
  const Tensor grid =
      slice(positions, 1, special, positions.size(1)).reshape({1, from.first, from.second, dim}).permute({0, 3, 1, 2});
  const Tensor resampled =
      interpolate(grid, {to.first, to.second}, "bicubic").permute({0, 2, 3, 1}).reshape({1, to.first * to.second, dim});
  return concat({slice(positions, 1, 0, special), resampled}, 1);
}

} // namespace eg::hub
