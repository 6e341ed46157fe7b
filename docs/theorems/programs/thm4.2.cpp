// Theorem 4.2: permuted tokens leave the gradient of every parameter as it is.

#include "theorem.h"

using namespace theorem;

int main() {
  nn::Block encoder({.dim = 12, .heads = 3, .mlp = 20}, {});
  randomize(encoder);
  const Tensor z = normal({2, 7, 12}), p = rows(2, 7), back = invert_permutation(p);
  const auto plain = gradients(encoder, [&] { return encoder(z); });
  const auto permuted = gradients(encoder, [&] { return permute_rows(encoder(permute_rows(z, p)), back); });
  const auto left = gradients(encoder, [&] { return encoder(permute_rows(z, p)); });
  holds("dL/dW_(R) = dL/dW, all parameters", permuted, plain);
  fails("the same when the output stays permuted", left, plain);
  return verdict();
}
