#include "apps/attacks/gradients.h"

#include "core/call.h"
#include "core/ops.h"

#include <algorithm>
#include <fmt/format.h>

namespace eg::attacks {

std::vector<std::int64_t> labels_from_cut_gradients(const Tensor& gradients, const Tensor& examples) {
  if (gradients.rank() != 2 || examples.rank() != 2 || gradients.size(1) != examples.size(1))
    throw ShapeError(fmt::format("labels: gradients are [B, d] and examples [classes, d], not {} and {}",
                                 gradients.shape().str(), examples.shape().str()));
  const PauseRecording pause;
  const auto unit = [](const Tensor& rows) {
    return rows / maximum(norm(rows, 2.0, {1}, true), Tensor::full({1, 1}, 1e-300, DType::f64));
  };
  const Tensor cosines = matmul(unit(gradients.to(DType::f64)), unit(examples.to(DType::f64)), false, true);
  return argmax(cosines, 1).to_vector<std::int64_t>();
}

std::int64_t class_token_row(const Tensor& gradient) {
  if (gradient.rank() != 2)
    throw ShapeError(fmt::format("class token: the gradient is [T, d], not {}", gradient.shape().str()));
  const PauseRecording pause;
  return argmax(norm(gradient, 2.0, {1}), 0).to_vector<std::int64_t>().front();
}

} // namespace eg::attacks
