// What a training step needs, from sizes alone.

#include "permute/training.h"

#include <fmt/format.h>

#include <algorithm>

namespace eg::permute {
namespace {

std::int64_t state_copies(const std::string& optimizer) {
  if (optimizer == "sgd") return 0;
  return optimizer == "momentum" || optimizer == "nesterov" ? 1 : 2;
}

std::size_t variant_count(const TrainOptions& o) { return o.variants.empty() ? (o.twin ? 2 : 1) : o.variants.size(); }

std::int64_t parameter_elements(const nn::VitConfig& c) {
  const nn::EncoderConfig& e = c.encoder;
  const std::int64_t inner = e.heads * e.width_of_head();
  const std::int64_t block = 4 * e.dim * inner + 3 * inner + e.dim + 2 * e.dim * e.mlp + e.mlp + e.dim + 4 * e.dim;
  const std::int64_t edge = c.patch_elements() * e.dim + 2 * e.dim + c.tokens() * e.dim + 2 * e.dim;
  return c.layers * block + edge + (e.dim + 1) * c.classes;
}

/// What the tape keeps of one token in one block: the residual and its norm twice, Q, K, V and the attention's output,
/// the MLP's hidden values before and after the activation.
std::int64_t kept_per_block(const nn::EncoderConfig& e) {
  return 4 * e.dim + 4 * e.heads * e.width_of_head() + 2 * e.mlp;
}

/// The largest set of cotangents that is alive at once while one block is walked backward.
std::int64_t touched_in_block(const nn::EncoderConfig& e) {
  return 2 * e.dim + std::max(2 * e.mlp, 4 * e.heads * e.width_of_head());
}

std::int64_t activation_elements(const nn::VitConfig& c) {
  const std::int64_t tokens = c.tokens();
  const std::int64_t embedding = tokens * (c.patch_elements() + 3 * c.encoder.dim);
  return embedding + tokens * (c.layers * kept_per_block(c.encoder) + touched_in_block(c.encoder));
}

constexpr std::int64_t batches_ready = 6; // the loader's queue, what its worker makes and the one in use

std::size_t bytes_of_batch(const TrainOptions& o, std::size_t element) {
  const auto pixels = static_cast<std::size_t>(o.model.channels * o.model.image * o.model.image);
  return element *
         (static_cast<std::size_t>(activation_elements(o.model)) + static_cast<std::size_t>(batches_ready) * pixels);
}

std::string size_text(std::size_t bytes) {
  const double mebi = static_cast<double>(bytes) / (1 << 20);
  return mebi < 1024.0 ? fmt::format("{:.0f} MiB", mebi) : fmt::format("{:.1f} GiB", mebi / 1024.0);
}

} // namespace

MemoryEstimate estimate_memory(const TrainOptions& o, std::size_t images) {
  const std::size_t element = size_of(o.dtype);
  const auto weights = static_cast<std::size_t>(parameter_elements(o.model)) * element;
  const auto batch = static_cast<std::size_t>(o.batch);
  const auto pixels = static_cast<std::size_t>(o.model.channels * o.model.image * o.model.image);
  MemoryEstimate estimate;
  // Every variant keeps weights and state; gradients exist for one at a time.
  estimate.parameters = weights * (variant_count(o) * static_cast<std::size_t>(1 + state_copies(o.optimizer)) + 1);
  estimate.activations = batch * element * static_cast<std::size_t>(activation_elements(o.model));
  estimate.input = images + batch * element * static_cast<std::size_t>(batches_ready) * pixels;
  return estimate;
}

void require_memory(const TrainOptions& o, std::size_t images, std::size_t limit) {
  const MemoryEstimate need = estimate_memory(o, images);
  if (need.total() <= limit) return;
  const std::size_t fixed = need.parameters + images;
  const std::size_t each = bytes_of_batch(o, size_of(o.dtype));
  const std::size_t fits = fixed < limit ? (limit - fixed) / each : 0;
  const std::string remedy = fits > 0 ? fmt::format("--batch {} would fit", fits)
                                      : "no batch would fit: use a smaller --dim, --layers or --mlp";
  throw MemoryError(fmt::format("train: batch {} needs about {} (weights, gradients and optimiser state {}, "
                                "activations {}, images {}), the limit is {}; {}",
                                o.batch, size_text(need.total()), size_text(need.parameters),
                                size_text(need.activations), size_text(need.input), size_text(limit), remedy));
}

} // namespace eg::permute
