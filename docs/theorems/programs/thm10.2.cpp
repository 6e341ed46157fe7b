// Theorem 10.2: permuted features do not reach a masked softmax.

#include "theorem.h"

using namespace theorem;

int main() {
  const Tensor q = normal({7, 12}), k = normal({7, 12});
  const Permutation p = permutation(12);
  const auto scores = [](const Tensor& a, const Tensor& b) {
    return masked_softmax(matmul(a, b, false, true) / std::sqrt(12.0), {}, /*causal=*/true);
  };
  holds("MS(Q P_C, K P_C) = MS(Q, K)", scores(p.apply(q, 1), p.apply(k, 1)), scores(q, k));
  fails("MS(Q P_C, K) = MS(Q, K)", scores(p.apply(q, 1), k), scores(q, k));
  return verdict();
}
