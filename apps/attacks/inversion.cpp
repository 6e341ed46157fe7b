#include "apps/attacks/inversion.h"

#include "permute/recovery/matching.h"

#include "autograd/tape.h"
#include "core/ops.h"
#include "nn/init.h"
#include "optim/optimizer.h"
#include "optim/schedule.h"

#include <cmath>
#include <fmt/format.h>

namespace eg::attacks {
namespace {

nn::BlockConfig block_of(const DecoderConfig& c) { return {.dim = c.hidden, .heads = c.heads, .mlp = 2 * c.hidden}; }

} // namespace

InversionDecoder::InversionDecoder(const DecoderConfig& c, RandomKey key)
    : config(c), enter(c.dim, c.hidden, key.fold(1)), positions(Tensor::empty({1, c.tokens, c.hidden})), norm(c.hidden),
      leave(c.hidden, c.patch_elements(), key.fold(2)) {
  if (c.height % c.patch != 0 || c.width % c.patch != 0 || (c.height / c.patch) * (c.width / c.patch) != c.tokens)
    throw ValueError(fmt::format("decoder: {} rows are not the patches of {} x {} in {} x {} pixels", c.tokens, c.patch,
                                 c.patch, c.height, c.width));
  nn::init::trunc_normal(positions, 0.02, key.fold(3));
  register_module("enter", enter);
  register_parameter("positions", positions);
  for (std::int64_t i = 0; i < c.layers; ++i) {
    blocks.push_back(std::make_unique<nn::Block>(block_of(c), key.fold(10 + static_cast<std::uint64_t>(i))));
    register_module(fmt::format("blocks.{}", i), *blocks.back());
  }
  register_module("norm", norm);
  register_module("leave", leave);
}

Tensor InversionDecoder::operator()(const Tensor& features) const {
  const Tensor x = nn::run_blocks(blocks, gelu(enter(features)) + positions, {}, {});
  return unpatchify(tanh(leave(norm(x))), config.channels, config.height, config.width, config.patch);
}

double train_decoder(InversionDecoder& decoder, const DecoderTraining& t,
                     const std::function<Pairs(std::int64_t step)>& pairs) {
  const std::vector<Tensor> parameters = decoder.parameters();
  const auto optimizer = optim::make_optimizer("adamw", parameters, t.weight_decay);
  const optim::Schedule schedule{
      .kind = optim::Schedule::Kind::cosine, .base = t.lr, .warmup = t.warmup, .total_steps = t.steps};
  double error = 0.0;
  for (std::int64_t step = 0; step < t.steps; ++step) {
    if (t.on_progress) t.on_progress(step);
    const Pairs batch = pairs(step);
    Tape tape;
    const Tensor loss = mse_loss(decoder(batch.features), batch.pictures);
    error = loss.item();
    if (!std::isfinite(error)) throw NumericError(fmt::format("decoder: the error is {} at step {}", error, step));
    optimizer->step(tape.gradient(loss, parameters), schedule.at(step));
  }
  return error;
}

void pretrain_decoder(InversionDecoder& decoder, const DecoderTraining& training,
                      const std::function<Tensor(std::int64_t step)>& pictures, RandomKey key) {
  const DecoderConfig& c = decoder.config;
  const Tensor edge = random_normal({c.dim, c.patch_elements()}, key.fold(1), 0.0,
                                    1.0 / std::sqrt(static_cast<double>(c.patch_elements())));
  train_decoder(decoder, training, [&](std::int64_t step) {
    const Tensor seen = pictures(step);
    const Tensor drawn =
        random_uniform({seen.size(0), c.tokens, 1}, key.fold(2).fold(static_cast<std::uint64_t>(step)));
    const Tensor shown = lt(drawn, 0.25).to(DType::f32);
    return Pairs{linear(patchify(seen, c.patch), edge) * shown, seen};
  });
  const nn::Linear fresh(c.dim, c.hidden, key.fold(3));
  decoder.enter.load_state_dict(fresh.state_dict());
}

std::vector<permute::Permutation> align_rounds(const std::vector<Tensor>& rounds) {
  const PauseRecording pause;
  std::vector<permute::Permutation> orders;
  for (const Tensor& round : rounds)
    orders.emplace_back(permute::best_match(permute::squared_distances(rounds.front(), round)));
  return orders;
}

} // namespace eg::attacks
