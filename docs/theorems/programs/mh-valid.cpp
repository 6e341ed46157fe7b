// Several heads, W_(P) = P^T W P: valid for permutations that keep heads together, and for no other.

#include "theorem.h"

using namespace theorem;

int main() {
  nn::Block encoder({.dim = 12, .heads = 3, .mlp = 20}, {});
  randomize(encoder);
  const Tensor z = normal({2, 7, 12});
  auto key = permute::BlocksKey::random(encoder.config, 1, permute::KeyForm::tied, {.seed = 5});
  holds("P moves whole heads and elements within them", (*moved_by(key, encoder))(key.apply_columns(z)),
        key.apply_columns(encoder(z)));
  const Permutation split({1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 0}); // heads of 4: one element changes heads
  key.residual = key.blocks[0].qk = key.blocks[0].v = split;
  fails("P splits a head", (*moved_by(key, encoder))(key.apply_columns(z)), key.apply_columns(encoder(z)));
  return verdict();
}
