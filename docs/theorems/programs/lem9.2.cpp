// Lemma 9.2: softmax commutes with permutations of rows and of columns.

#include "theorem.h"

using namespace theorem;

int main() {
  const Tensor a = normal({7, 12});
  const Permutation r = permutation(7), c = permutation(12);
  holds_in_bits("Softmax(P_R A) = P_R Softmax(A)", softmax(r.apply(a, 0)), r.apply(softmax(a), 0));
  holds("Softmax(A P_C) = Softmax(A) P_C", softmax(c.apply(a, 1)), c.apply(softmax(a), 1));
  const ReductionScope exact(Reduction::exact); // sums that no order of their terms changes
  holds_in_bits("the same with exact sums", softmax(c.apply(a, 1)), c.apply(softmax(a), 1));
  fails("Softmax(A P_C) = Softmax(A)", softmax(c.apply(a, 1)), softmax(a));
  return verdict();
}
