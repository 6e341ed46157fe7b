#include "apps/report/shuffle.h"

#include "core/ops.h"

#include <fmt/format.h>

namespace eg::report {

Tensor shuffle_image(const Tensor& image, std::int64_t patch, const permute::Permutation& rows,
                     const permute::Permutation& columns) {
  if (image.rank() != 3)
    throw ShapeError(fmt::format("shuffle_image: the image must be [C, H, W], it is {}", image.shape().str()));
  Tensor patches = patchify(image.unsqueeze(0), patch);
  if (rows.size() > 0) patches = permute_rows(patches, rows.tensor());
  if (columns.size() > 0) patches = permute_columns(patches, columns.tensor());
  return unpatchify(patches, image.size(0), image.size(1), image.size(2), patch).squeeze(0);
}

} // namespace eg::report
