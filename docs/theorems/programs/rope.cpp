// Rotary positions: tokens may move if they take their positions along, features may not.

#include "theorem.h"

using namespace theorem;

int main() {
  const Tensor q = normal({7, 12}), k = normal({7, 12}), positions = Tensor::arange(7);
  const auto scores = [](const Tensor& a, const Tensor& b, const Tensor& at) {
    const auto turned = [&](const Tensor& x) { return rotary(x.reshape({1, 7, 1, 12}), at).reshape({7, 12}); };
    return matmul(turned(a), turned(b), false, true);
  };
  const Permutation r = permutation(7), c = permutation(12);
  const Tensor s = scores(q, k, positions);
  holds("tokens with their positions", scores(r.apply(q, 0), r.apply(k, 0), r.tensor()), r.apply(r.apply(s, 0), 1));
  fails("tokens without them", scores(r.apply(q, 0), r.apply(k, 0), positions), r.apply(r.apply(s, 0), 1));
  fails("features of Q and K, permuted alike", scores(c.apply(q, 1), c.apply(k, 1), positions), s);
  return verdict();
}
