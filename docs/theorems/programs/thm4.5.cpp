// Theorem 4.5: gradients move as the weights do, dL/dW_(C) = P_C^-1 dL/dW P_C.

#include "theorem.h"

using namespace theorem;

int main() {
  nn::Block encoder({.dim = 12, .heads = 3, .mlp = 20}, {});
  randomize(encoder);
  const auto key = permute::BlocksKey::random(encoder.config, 1, permute::KeyForm::tied, {.seed = 5});
  const auto moved = moved_by(key, encoder);
  const Tensor z = normal({2, 7, 12});
  const auto plain = gradients(encoder, [&] { return encoder(z); });
  const auto permuted = gradients(*moved, [&] { return key.undo_columns((*moved)(key.apply_columns(z))); });
  holds("dL/dW_(C) = P_C^-1 dL/dW P_C", permuted,
        permute::transform(plain, permute::block_axes(), key.permutations(encoder.config)));
  fails("dL/dW_(C) = dL/dW", permuted, plain);
  return verdict();
}
