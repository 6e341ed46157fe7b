// Lemma 9.3: a linear layer carries a permutation of its input to one of its output.

#include "theorem.h"

using namespace theorem;

int main() {
  const Tensor x = normal({7, 12}), w = normal({20, 12}), b = normal({20}); // not square
  const Permutation r = permutation(7), in = permutation(12), out = permutation(20);
  const Tensor w_p = in.apply(out.apply(w, 0), 1), b_p = out.apply(b, 0);
  const Tensor x_p = in.apply(r.apply(x, 0), 1), y_p = out.apply(r.apply(linear(x, w, b), 0), 1);
  holds("f_(P)(P_R X P_in) = P_R f(X) P_out", linear(x_p, w_p, b_p), y_p);
  fails("the same with b as it was", linear(x_p, w_p, b), y_p);
  return verdict();
}
