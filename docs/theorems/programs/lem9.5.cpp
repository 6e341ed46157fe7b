// Lemma 9.5: layer norm with gamma P_C and beta P_C.

#include "theorem.h"

using namespace theorem;

int main() {
  const Tensor x = normal({7, 12}), gamma = normal({12}, 0.3, 1.0), beta = normal({12});
  const Permutation r = permutation(7), c = permutation(12);
  const auto moved = [&](const Tensor& z) { return c.apply(r.apply(z, 0), 1); };
  const Tensor y = layer_norm(x, gamma, beta), y_p = layer_norm(moved(x), c.apply(gamma, 0), c.apply(beta, 0));
  holds("LN_(P)(P_R X P_C) = P_R LN(X) P_C", y_p, moved(y));
  fails("LN_(P)(P_R X P_C) = LN(X), as printed", y_p, y);
  fails("gamma and beta as they were", layer_norm(moved(x), gamma, beta), moved(y));
  return verdict();
}
