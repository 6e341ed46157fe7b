#include "apps/attacks/failed_rows.h"

#include "apps/attacks/fingerprints.h"
#include "core/call.h"
#include "core/ops.h"
#include "permute/permutation.h"

#include <fmt/format.h>

namespace eg::attacks {
namespace {

/// boolean [1, 1, T, T]: true where row i sees token j <= i.
Tensor causal_mask(std::int64_t tokens) {
  const Tensor at = Tensor::arange(tokens);
  return ge(at.unsqueeze(1), at.unsqueeze(0));
}

} // namespace

FailedRows demonstrate_failed_rows(const permute::BlockWeights& decoder, const Tensor& z, RandomKey key) {
  if (!decoder.block.causal) throw ValueError("stip: the model is no decoder: its tokens may be in any order");
  const std::int64_t tokens = z.size(1);
  if (tokens < 2) throw ValueError(fmt::format("stip: {} tokens have no order", tokens));
  const PauseRecording pause;
  nn::BlockConfig open = decoder.block;
  open.causal = false;
  const nn::Blocks masked = permute::blocks_with(decoder.block, decoder.layers, decoder.weights);
  const nn::Blocks unmasked = permute::blocks_with(open, decoder.layers, decoder.weights);
  const permute::Permutation rows = permute::Permutation::random_nonidentity(tokens, key);
  const Tensor moved = rows.apply(z, 1), positions = rows.tensor();
  const Tensor mask = causal_mask(tokens), moved_mask = rows.apply(rows.apply(mask, 0), 1);
  const Tensor plain = rows.apply(nn::run_blocks(masked, z, {}, {}), 1);
  const auto difference = [&](const nn::Blocks& blocks, const Tensor& seen, const Tensor& expected) {
    return relative_error(nn::run_blocks(blocks, moved, {.mask = seen, .positions = positions}, {}), expected);
  };
  FailedRows f{.tokens = tokens};
  f.with_plain_mask = difference(masked, {}, plain);
  f.with_permuted_mask = difference(unmasked, moved_mask.reshape({1, 1, tokens, tokens}), plain);
  f.without_mask = difference(unmasked, {}, rows.apply(nn::run_blocks(unmasked, z, {}, {}), 1));
  const permute::Permutation found = rows_of_causal_mask(moved_mask);
  std::int64_t right = 0;
  for (std::int64_t i = 0; i < tokens; ++i) right += found[i] == rows[i] ? 1 : 0;
  f.recovered = static_cast<double>(right) / static_cast<double>(tokens);
  return f;
}

} // namespace eg::attacks
