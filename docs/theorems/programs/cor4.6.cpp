// Corollary 4.6: training with permuted features gives the plain weights, moved, from coupled initial weights.

#include "theorem.h"

using namespace theorem;

int main() {
  nn::Block plain({.dim = 12, .heads = 3, .mlp = 20}, {});
  randomize(plain);
  const auto key = permute::BlocksKey::random(plain.config, 1, permute::KeyForm::tied, {.seed = 5});
  const auto coupled = moved_by(key, plain), same = moved_by(permute::BlocksKey::identity(plain.config, 1), plain);
  train(plain, [&](const Tensor& z, std::uint64_t) { return plain(z); });
  for (nn::Block* block : {coupled.get(), same.get()})
    train(*block, [&](const Tensor& z, std::uint64_t) { return key.undo_columns((*block)(key.apply_columns(z))); });
  const auto expected = permute::transform(plain.state_dict(), permute::block_axes(), key.permutations(plain.config));
  holds("W_(C),t = P_C^-1 W_t P_C from W_(C),0 = P_C^-1 W_0 P_C", coupled->state_dict(), expected);
  fails("the same from W_(C),0 = W_0, as printed", same->state_dict(), expected);
  return verdict();
}
