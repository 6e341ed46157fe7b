#include "apps/explore/small_block.h"

#include "core/ops.h"
#include "core/random.h"

#include <fmt/format.h>

namespace eg::explore {

void draw_generic(nn::Module& module, DType dtype, RandomKey key) {
  module.to(dtype);
  std::uint64_t index = 0;
  for (nn::Parameter& p : module.named_parameters()) {
    const bool gain = p.name.find("norm") != std::string::npos && p.name.ends_with("weight");
    p.value.copy_from(random_normal(p.value.shape(), key.fold(index++), gain ? 1.0 : 0.0, 0.4, dtype));
  }
}

nn::BlockConfig small_config(std::int64_t dim, std::int64_t heads) {
  return {.dim = dim, .heads = heads, .mlp = 2 * dim};
}

nn::BlockConfig read_config(Question& question, std::int64_t dim, std::int64_t most) {
  const std::int64_t width = question.whole("dim", dim, 2, most), heads = question.whole("heads", 2, 1, width);
  if (width % heads != 0) throw ValueError(fmt::format("{} heads do not divide {} features", heads, width));
  return small_config(width, heads);
}

nn::StateDict copied(const nn::StateDict& state) {
  nn::StateDict copy;
  for (const auto& [name, x] : state) copy.emplace_back(name, x.clone());
  return copy;
}

std::unique_ptr<nn::Block> block_with(const nn::BlockConfig& config, const nn::StateDict& weights, DType dtype) {
  auto block = std::make_unique<nn::Block>(config, RandomKey{});
  block->to(dtype);
  block->load_state_dict(weights);
  return block;
}

Tensor draw_tokens(std::int64_t tokens, std::int64_t dim, DType dtype, RandomKey key) {
  return random_normal({1, tokens, dim}, key, 0.0, 1.0, dtype);
}

} // namespace eg::explore
