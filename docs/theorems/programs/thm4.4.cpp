// Theorem 4.4: an encoder whose weights are moved commutes with permutations of the features.

#include "theorem.h"

using namespace theorem;

int main() {
  nn::Block encoder({.dim = 12, .heads = 3, .mlp = 20}, {});
  randomize(encoder);
  const auto key = permute::BlocksKey::random(encoder.config, 1, permute::KeyForm::decoupled, {.seed = 5});
  const auto moved = moved_by(key, encoder);
  const Tensor z = normal({2, 7, 12}), expected = key.apply_columns(encoder(z));
  holds("Enc_(C)(Z P_C) = Enc(Z) P_C", (*moved)(key.apply_columns(z)), expected);
  fails("the same with the weights as they were", encoder(key.apply_columns(z)), expected);
  return verdict();
}
