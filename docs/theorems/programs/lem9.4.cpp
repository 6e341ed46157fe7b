// Lemma 9.4: the MLP, with any permutation of its hidden axis.

#include "theorem.h"

using namespace theorem;

int main() {
  const Tensor x = normal({7, 12}), w1 = normal({20, 12}), b1 = normal({20}), w2 = normal({12, 20}), b2 = normal({12});
  const Permutation c = permutation(12), t = permutation(20);
  const auto mlp = [](const Tensor& z, const Tensor& u, const Tensor& bu, const Tensor& v, const Tensor& bv) {
    return linear(gelu(linear(z, u, bu)), v, bv);
  };
  const Tensor w1_p = c.apply(t.apply(w1, 0), 1), w2_p = t.apply(c.apply(w2, 0), 1);
  const Tensor expected = c.apply(mlp(x, w1, b1, w2, b2), 1);
  holds("MLP_(P)(X P_C) = MLP(X) P_C", mlp(c.apply(x, 1), w1_p, t.apply(b1, 0), w2_p, c.apply(b2, 0)), expected);
  fails("P_t missing on W_2", mlp(c.apply(x, 1), w1_p, t.apply(b1, 0), c.apply(w2, 0), c.apply(b2, 0)), expected);
  return verdict();
}
