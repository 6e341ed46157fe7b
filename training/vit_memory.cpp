// What a training step needs, from sizes alone.

#include "optim/optimizer.h"
#include "training/step.h"
#include "training/vit_trainer.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstdint>

namespace eg::training {
namespace {

/// State of the optimiser and the average of the weights that one of `processes` has, in parameters.
double copies_of_state(const VitOptions& o, int processes) {
  const double state = optim::rule_traits(o.optimizer).state_per_element;
  return state / (o.shard_optimizer ? processes : 1) + (o.ema > 0.0 ? 1 : 0);
}

/// Sums of gradients that exist at once.
int copies_of_gradients(const VitOptions& o, int processes) {
  if (o.shards == 0) return o.accumulate > 1 ? 2 : updates_in_backward(o) ? 0 : 1;
  // One for every level of the tree over a process's shards; one part alone is added to its sibling at once.
  const auto own = static_cast<std::uint64_t>((o.shards + processes - 1) / processes);
  const int levels = static_cast<int>(std::bit_width(own)) - 1;
  return o.accumulate > 1 ? levels + 1 : std::max(1, levels);
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

/// Images that pass through the model at once.
double part_of_batch(const VitOptions& o) {
  const std::int64_t shards = std::max<std::int64_t>(o.shards, 1);
  const std::int64_t shard = (o.batch + shards - 1) / shards;
  return static_cast<double>((shard + o.accumulate - 1) / o.accumulate);
}

/// Images that this process's loader reads for a step.
double images_of_step(const VitOptions& o, int processes) {
  return static_cast<double>((o.batch + processes - 1) / processes);
}

/// A count of bytes; what is beyond any machine becomes 2^60.
std::size_t whole(double bytes) { return static_cast<std::size_t>(std::min(bytes, 0x1p60)); }

std::string size_text(std::size_t bytes) {
  const double mebi = static_cast<double>(bytes) / (1 << 20);
  return mebi < 1024.0 ? fmt::format("{:.0f} MiB", mebi) : fmt::format("{:.1f} GiB", mebi / 1024.0);
}

/// The largest batch below options.batch that fits in `limit` bytes; 0: none.
std::int64_t batch_that_fits(VitOptions o, std::size_t images, std::size_t limit, int processes) {
  std::int64_t fits = 0, exceeds = o.batch; // estimates grow with the batch
  while (exceeds - fits > 1) {
    o.batch = fits + (exceeds - fits) / 2;
    (estimate_memory(o, images, processes).total() <= limit ? fits : exceeds) = o.batch;
  }
  return fits < std::max<std::int64_t>(o.shards, 1) * o.accumulate ? 0 : fits;
}

} // namespace

MemoryEstimate estimate_memory(const VitOptions& o, std::size_t images, int processes) {
  const auto element = static_cast<double>(size_of(o.dtype));
  const double weights = parameter_elements(o.model) * element;
  const double copies = static_cast<double>(variant_count(o)) * (1 + copies_of_state(o, processes));
  MemoryEstimate estimate;
  // Every variant keeps weights and state; gradients exist for one at a time, and their sum beside them; none side by
  // side where the backward pass updates.
  estimate.parameters = whole(weights * (copies + copies_of_gradients(o, processes)));
  estimate.activations = whole(part_of_batch(o) * element * activation_elements(o.model));
  estimate.input =
      whole(static_cast<double>(images) + images_of_step(o, processes) * element * batches_ready * pixels_of(o.model));
  return estimate;
}

void require_memory(const VitOptions& o, std::size_t images, std::size_t limit, int processes) {
  const MemoryEstimate need = estimate_memory(o, images, processes);
  if (need.total() <= limit) return;
  const std::int64_t fits = batch_that_fits(o, images, limit, processes);
  std::string remedy = fits > 0 ? fmt::format("--batch {} would fit", fits)
                                : "no batch would fit: use a smaller --dim, --layers or --mlp";
  VitOptions cut = o;
  cut.accumulate = o.batch;
  if (o.accumulate < o.batch && estimate_memory(cut, images, processes).total() <= limit)
    remedy += ", and so would --accumulate";
  cut.accumulate = o.accumulate;
  cut.model.encoder.checkpoint = true;
  if (!o.model.encoder.checkpoint && estimate_memory(cut, images, processes).total() <= limit)
    remedy += ", and so would --checkpoint-blocks";
  throw MemoryError(fmt::format("train: batch {} needs about {} (weights, gradients and optimiser state {}, "
                                "activations {}, images {}), the limit is {}; {}",
                                o.batch, size_text(need.total()), size_text(need.parameters),
                                size_text(need.activations), size_text(need.input), size_text(limit), remedy));
}

} // namespace eg::training
