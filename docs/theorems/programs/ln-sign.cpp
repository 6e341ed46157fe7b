// LayerNorm and signs: all features may change their sign together, one alone may not.

#include "theorem.h"

using namespace theorem;

int main() {
  const Tensor x = normal({7, 12}), gamma = normal({12}, 0.3, 1.0), beta = normal({12});
  const Permutation p = permutation(12);
  Tensor one = Tensor::ones({12}, DType::f64);
  one.slice(0, 0, 1).fill(-1.0);
  holds("LN(-x P; gamma P, -beta P) = -LN(x; gamma, beta) P",
        layer_norm(-p.apply(x, 1), p.apply(gamma, 0), -p.apply(beta, 0)), -p.apply(layer_norm(x, gamma, beta), 1));
  fails("the sign of one feature", layer_norm(x * one, gamma, beta * one), layer_norm(x, gamma, beta) * one);
  fails("all signs, beta left as it was", layer_norm(-x, gamma, beta), -layer_norm(x, gamma, beta));
  return verdict();
}
