#include "permute/permuted_pass.h"

#include "core/base/named_values.h"
#include "core/device/device.h"
#include "core/ops.h"

namespace eg::permute {

namespace {

constexpr NamedValues<PermuteMode, 4> modes{{{"none", PermuteMode::none},
                                             {"rows", PermuteMode::rows},
                                             {"columns", PermuteMode::columns},
                                             {"both", PermuteMode::both}}};

} // namespace

PermuteMode permute_mode_named(std::string_view name) { return value_named(modes, "permute", name); }
std::string_view name_of(PermuteMode mode) { return name_in(modes, mode); }

Tensor PermutedPass::enter(const Tensor& z) const {
  const DeviceScope there(z.device()); // where the indices are made
  const Tensor x = rows.defined() ? permute_rows(z, rows) : z;
  return columns != nullptr ? permute_columns(x, columns->tensor()) : x;
}

Tensor PermutedPass::enter_mask(const Tensor& mask) const {
  return rows.defined() && mask.defined() ? gather(mask, 1, rows) : mask;
}

Tensor PermutedPass::leave(const Tensor& y) const {
  const DeviceScope there(y.device());
  const Tensor z = columns != nullptr ? permute_columns(y, columns->inverse().tensor()) : y;
  return rows.defined() ? permute_rows(z, invert_permutation(rows)) : z;
}

} // namespace eg::permute
