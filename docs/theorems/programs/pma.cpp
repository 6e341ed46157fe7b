// Pooling by attention: invariant to the order of tokens, with the gradients that follow from it.

#include "theorem.h"

using namespace theorem;

int main() {
  nn::Pma pool({.dim = 12, .heads = 3, .hidden = 20}, 2, {});
  randomize(pool);
  const Tensor z = normal({1, 7, 12}), p = rows(1, 7), z_p = permute_rows(z, p), g = normal({1, 2, 12});
  holds("f(P_R Z) = f(Z)", pool(z_p), pool(z));
  Tape tape, permuted_tape;
  const Tensor to_z = tape.gradient(pool(z), {z}, g)[0], to_z_p = permuted_tape.gradient(pool(z_p), {z_p}, g)[0];
  holds("dL/dZ_(P) = P_R dL/dZ", to_z_p, permute_rows(to_z, p));
  holds("dL/dW_(P) = dL/dW", gradients(pool, [&] { return pool(z_p); }), gradients(pool, [&] { return pool(z); }));
  fails("dL/dZ_(P) = dL/dZ, as printed", to_z_p, to_z);
  return verdict();
}
