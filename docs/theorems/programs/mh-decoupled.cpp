// Several heads and any P_C: the inner axes of attention have permutations of their own.

#include "theorem.h"

using namespace theorem;

int main() {
  nn::Block encoder({.dim = 12, .heads = 3, .mlp = 20}, {});
  randomize(encoder);
  const Tensor z = normal({2, 7, 12});
  auto key = permute::BlocksKey::random(encoder.config, 1, permute::KeyForm::decoupled, {.seed = 5});
  key.residual = Permutation({1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 0}); // splits every head
  holds("any P_C on the residual stream", (*moved_by(key, encoder))(key.apply_columns(z)),
        key.apply_columns(encoder(z)));
  key.blocks[0].v = key.blocks[0].v.then(Permutation({4, 5, 6, 7, 8, 9, 10, 11, 0, 1, 2, 3})); // its heads one further
  fails("V's heads moved otherwise than those of Q and K", (*moved_by(key, encoder))(key.apply_columns(z)),
        key.apply_columns(encoder(z)));
  return verdict();
}
