// What a training step needs, from sizes alone.

#include "optim/optimizer.h"
#include "training/step.h"
#include "training/vit_trainer.h"

#include <fmt/format.h>

#include <algorithm>

namespace eg::training {
namespace {

/// State of the optimiser and the average of the weights, in parameters.
int copies_of_state(const VitOptions& o) {
  return optim::rule_traits(o.optimizer).state_per_element + (o.ema > 0.0 ? 1 : 0);
}

std::size_t variant_count(const VitOptions& o) { return o.variants.empty() ? (o.twin ? 2 : 1) : o.variants.size(); }

// Counts are doubles: exact below 2^53, and beyond that no config can overflow them.

double parameter_elements(const nn::VitConfig& c) {
  const nn::BlockConfig& e = c.encoder;
  const auto dim = static_cast<double>(e.dim), mlp = static_cast<double>(e.mlp);
  const double inner = static_cast<double>(e.heads) * static_cast<double>(e.width_of_head());
  const double block = 4 * dim * inner + 3 * inner + dim + 2 * dim * mlp + mlp + dim + 4 * dim;
  const double edge =
      static_cast<double>(c.patch_elements()) * dim + 2 * dim + static_cast<double>(c.tokens()) * dim + 2 * dim;
  return static_cast<double>(c.layers) * block + edge + (dim + 1) * static_cast<double>(c.classes);
}

/// What the tape keeps of one token in one block: the residual and its norm twice, Q, K, V and the attention's output,
/// the MLP's hidden values before and after the activation.
std::int64_t kept_per_block(const nn::BlockConfig& e) {
  return 4 * e.dim + 4 * e.heads * e.width_of_head() + 2 * e.mlp;
}

/// The largest set of cotangents that is alive at once while one block is walked backward.
std::int64_t touched_in_block(const nn::BlockConfig& e) {
  return 2 * e.dim + std::max(2 * e.mlp, 4 * e.heads * e.width_of_head());
}

double activation_elements(const nn::VitConfig& c) {
  const auto tokens = static_cast<double>(c.tokens());
  const double embedding = tokens * static_cast<double>(c.patch_elements() + 3 * c.encoder.dim);
  const auto layers = static_cast<double>(c.layers), kept = static_cast<double>(kept_per_block(c.encoder));
  // Checkpointed: the input of every block, and all of the one that is computed again.
  const double blocks =
      c.encoder.checkpoint && layers > 0 ? layers * static_cast<double>(c.encoder.dim) + kept : layers * kept;
  return embedding + tokens * (blocks + static_cast<double>(touched_in_block(c.encoder)));
}

constexpr double batches_ready = 6; // the loader's queue, what its worker makes and the one in use

double pixels_of(const nn::VitConfig& c) {
  return static_cast<double>(c.channels) * static_cast<double>(c.image) * static_cast<double>(c.image);
}

double bytes_of_image(const VitOptions& o) {
  return static_cast<double>(size_of(o.dtype)) * (activation_elements(o.model) + batches_ready * pixels_of(o.model));
}

/// Images that pass through the model at once.
double part_of_batch(const VitOptions& o) { return static_cast<double>((o.batch + o.accumulate - 1) / o.accumulate); }

/// A count of bytes; what is beyond any machine becomes 2^60.
std::size_t whole(double bytes) { return static_cast<std::size_t>(std::min(bytes, 0x1p60)); }

std::string size_text(std::size_t bytes) {
  const double mebi = static_cast<double>(bytes) / (1 << 20);
  return mebi < 1024.0 ? fmt::format("{:.0f} MiB", mebi) : fmt::format("{:.1f} GiB", mebi / 1024.0);
}

} // namespace

MemoryEstimate estimate_memory(const VitOptions& o, std::size_t images) {
  const auto element = static_cast<double>(size_of(o.dtype));
  const double weights = parameter_elements(o.model) * element;
  const auto batch = static_cast<double>(o.batch);
  const auto copies = static_cast<double>(variant_count(o)) * static_cast<double>(1 + copies_of_state(o));
  MemoryEstimate estimate;
  // Every variant keeps weights and state; gradients exist for one at a time, and their sum beside them; none side by
  // side where the backward pass updates.
  const int gradients = o.accumulate > 1 ? 2 : updates_in_backward(o) ? 0 : 1;
  estimate.parameters = whole(weights * (copies + gradients));
  estimate.activations = whole(part_of_batch(o) * element * activation_elements(o.model));
  estimate.input = whole(static_cast<double>(images) + batch * element * batches_ready * pixels_of(o.model));
  return estimate;
}

void require_memory(const VitOptions& o, std::size_t images, std::size_t limit) {
  const MemoryEstimate need = estimate_memory(o, images);
  if (need.total() <= limit) return;
  const std::size_t fixed = need.parameters + images;
  const std::size_t fits =
      fixed < limit ? static_cast<std::size_t>(static_cast<double>(limit - fixed) / bytes_of_image(o)) : 0;
  std::string remedy = fits > 0 ? fmt::format("--batch {} would fit", fits)
                                : "no batch would fit: use a smaller --dim, --layers or --mlp";
  VitOptions cut = o;
  cut.accumulate = o.batch;
  if (o.accumulate < o.batch && estimate_memory(cut, images).total() <= limit) remedy += ", and so would --accumulate";
  cut.accumulate = o.accumulate;
  cut.model.encoder.checkpoint = true;
  if (!o.model.encoder.checkpoint && estimate_memory(cut, images).total() <= limit)
    remedy += ", and so would --checkpoint-blocks";
  throw MemoryError(fmt::format("train: batch {} needs about {} (weights, gradients and optimiser state {}, "
                                "activations {}, images {}), the limit is {}; {}",
                                o.batch, size_text(need.total()), size_text(need.parameters),
                                size_text(need.activations), size_text(need.input), size_text(limit), remedy));
}

} // namespace eg::training
