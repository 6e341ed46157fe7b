// Lemma 9.1: elementwise operations commute with permutations of rows and columns.

#include "theorem.h"

using namespace theorem;

int main() {
  const Tensor a = normal({7, 12}), b = normal({7, 12});
  const Permutation r = permutation(7), c = permutation(12), other = permutation(7);
  const auto moved = [&](const Tensor& x) { return c.apply(r.apply(x, 0), 1); };
  holds_in_bits("products", moved(a) * moved(b), moved(a * b));
  holds_in_bits("sums", moved(a) + moved(b), moved(a + b));
  holds_in_bits("GELU", gelu(moved(a)), moved(gelu(a)));
  fails("products, one side permuted otherwise", moved(a) * c.apply(other.apply(b, 0), 1), moved(a * b));
  return verdict();
}
