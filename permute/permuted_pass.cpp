#include "permute/permuted_pass.h"

#include "core/base/error.h"
#include "core/ops.h"

#include <fmt/format.h>

namespace eg::permute {

TrainMode train_mode_named(std::string_view name) {
  for (const TrainMode mode : {TrainMode::none, TrainMode::rows, TrainMode::columns, TrainMode::both})
    if (name_of(mode) == name) return mode;
  throw ValueError(fmt::format("permute: '{}' is not one of none, rows, columns, both", name));
}

std::string_view name_of(TrainMode mode) {
  switch (mode) {
  case TrainMode::none:
    return "none";
  case TrainMode::rows:
    return "rows";
  case TrainMode::columns:
    return "columns";
  case TrainMode::both:
    return "both";
  }
  return "?";
}

Tensor PermutedPass::enter(const Tensor& z) const {
  const Tensor x = rows.defined() ? permute_rows(z, rows) : z;
  return columns != nullptr ? permute_columns(x, columns->tensor()) : x;
}

Tensor PermutedPass::enter_mask(const Tensor& mask) const {
  return rows.defined() && mask.defined() ? gather(mask, 1, rows) : mask;
}

Tensor PermutedPass::leave(const Tensor& y) const {
  const Tensor z = columns != nullptr ? permute_columns(y, columns->inverse().tensor()) : y;
  return rows.defined() ? permute_rows(z, invert_permutation(rows)) : z;
}

} // namespace eg::permute
