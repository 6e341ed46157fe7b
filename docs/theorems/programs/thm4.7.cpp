// Theorem 4.7 and Lemma 4.8: tokens and features permuted, gradients to features and to weights.

#include "theorem.h"

using namespace theorem;

int main() {
  nn::Block encoder({.dim = 12, .heads = 3, .mlp = 20}, {});
  randomize(encoder);
  const auto key = permute::BlocksKey::random(encoder.config, 1, permute::KeyForm::decoupled, {.seed = 5});
  const auto moved = moved_by(key, encoder);
  const Tensor z = normal({2, 7, 12}), p = rows(2, 7), back = invert_permutation(p), g = normal({2, 7, 12});
  const auto enter = [&](const Tensor& x) { return permute_rows(key.apply_columns(x), p); };
  const auto leave = [&](const Tensor& x) { return permute_rows(key.undo_columns(x), back); };
  const Tensor z_p = enter(z);
  Tape plain_tape, tape;
  const Tensor to_z = plain_tape.gradient(encoder(z), {z}, g)[0];
  holds("dL/dZ_(P) = P_R dL/dZ P_C", tape.gradient(leave((*moved)(z_p)), {z_p}, g)[0], enter(to_z));
  const auto plain = gradients(encoder, [&] { return encoder(z); });
  const auto permuted = gradients(*moved, [&] { return leave((*moved)(enter(z))); });
  holds("dL/dW_(P) = P_out^T dL/dW P_in", permuted,
        permute::transform(plain, permute::block_axes(), key.permutations(encoder.config)));
  fails("dL/dW_(P) = dL/dW", permuted, plain);
  return verdict();
}
