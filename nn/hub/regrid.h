#pragma once
// Adapts a vision transformer to another image size than its folder's.

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

namespace eg::hub {

/// Grids of patches, high and wide, of a file's position embeddings and of the model's.
struct Regrid {
  std::int64_t special = 0; ///< tokens before the patches
  std::pair<std::int64_t, std::int64_t> from, to;
};

/// Sets the image size of a ViT's or DeiT's config, high and wide; what has to be resampled then, if anything
/// (resample_positions of nn/hub/folder.h). `path` is what errors call the config. Throws FileError, and ValueError for
/// another family and for a size that is not whole patches.
std::optional<Regrid> change_image_size(nlohmann::json& config, std::pair<std::int64_t, std::int64_t> size,
                                        const std::string& path);

/// Whether change_image_size can set that size. Throws FileError.
bool can_change_image_size(const nlohmann::json& config, std::pair<std::int64_t, std::int64_t> size,
                           const std::string& path);

} // namespace eg::hub
