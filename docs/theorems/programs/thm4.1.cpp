// Theorem 4.1: an encoder commutes with permutations of its tokens.

#include "theorem.h"

using namespace theorem;

int main() {
  nn::Block encoder({.dim = 12, .heads = 3, .mlp = 20}, {});
  randomize(encoder);
  const Tensor z = normal({2, 7, 12}), p = rows(2, 7);
  holds("Enc(P_R Z) = P_R Enc(Z)", encoder(permute_rows(z, p)), permute_rows(encoder(z), p));
  fails("Enc(P_R Z) = Enc(Z)", encoder(permute_rows(z, p)), encoder(z));
  return verdict();
}
