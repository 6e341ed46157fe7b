// Lemma 9.6: attention, with permutations of queries, keys and both feature axes.

#include "theorem.h"

using namespace theorem;

int main() {
  const Tensor q = normal({7, 12}), k = normal({9, 12}), v = normal({9, 5});
  const Permutation pi = permutation(7), sigma = permutation(9), qk = permutation(12), pv = permutation(5);
  const auto att = [](const Tensor& a, const Tensor& b, const Tensor& c) { return attention_explicit(a, b, c).output; };
  const Tensor q_p = qk.apply(pi.apply(q, 0), 1), k_p = qk.apply(sigma.apply(k, 0), 1);
  const Tensor expected = pv.apply(pi.apply(att(q, k, v), 0), 1);
  holds("Att(pi Q P, sigma K P, sigma V P_v) = pi Att(Q, K, V) P_v", att(q_p, k_p, pv.apply(sigma.apply(v, 0), 1)),
        expected);
  fails("values in another order than keys", att(q_p, k_p, pv.apply(v, 1)), expected);
  return verdict();
}
