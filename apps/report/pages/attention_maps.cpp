#include "apps/report/pages/attention_maps.h"

#include "core/base/error.h"
#include "core/call.h"
#include "core/ops.h"

#include <fmt/format.h>

namespace eg::pages {

Tensor attention_rollout(const std::vector<Tensor>& scores) {
  if (scores.empty()) throw ShapeError("attention_rollout: there is no layer");
  const PauseRecording pause;
  Tensor product;
  for (const Tensor& layer : scores) {
    if (layer.rank() != 4 || layer.size(2) != layer.size(3) || layer.size(2) != scores[0].size(2))
      throw ShapeError(
          fmt::format("attention_rollout: scores must be [B, heads, T, T], one is {}", layer.shape().str()));
    const Tensor both = mean(layer.to(DType::f64), {1}) + eye(layer.size(2), -1, DType::f64);
    const Tensor flow = both / sum(both, {2}, true);
    product = product.defined() ? matmul(flow, product) : flow;
  }
  return product;
}

Tensor patch_map(const Tensor& attention, const nn::VitConfig& config) {
  if (attention.rank() != 2 || attention.size(0) != config.tokens() || attention.size(1) != config.tokens())
    throw ShapeError(
        fmt::format("patch_map: attention must be [{0}, {0}], it is {1}", config.tokens(), attention.shape().str()));
  const PauseRecording pause;
  const Tensor row = config.pooling == nn::Pooling::cls ? attention.slice(0, 0, 1).squeeze(0) : mean(attention, {0});
  return row.slice(0, config.special_tokens(), config.tokens())
      .contiguous()
      .reshape({config.height() / config.patch, config.width() / config.patch});
}

} // namespace eg::pages
