// STIP, Theorem 1: causal blocks, features permuted between owner, cloud and user.

#include "theorem.h"

using namespace theorem;

int main() {
  nn::Block decoder({.dim = 12, .heads = 3, .mlp = 20, .pre_norm = false, .causal = true}, {});
  randomize(decoder);
  const auto key = permute::BlocksKey::random(decoder.config, 1, permute::KeyForm::residual, {.seed = 5});
  const auto at_the_cloud = moved_by(key, decoder);
  const Tensor x = normal({2, 7, 12});
  holds("f_theta'(x pi) = f_theta(x) pi", (*at_the_cloud)(key.apply_columns(x)), key.apply_columns(decoder(x)));
  fails("the cloud's weights on x itself", (*at_the_cloud)(x), decoder(x));
  return verdict();
}
