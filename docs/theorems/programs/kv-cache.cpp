// The key-value cache may hold its entries in any order.

#include "theorem.h"

using namespace theorem;

int main() {
  const Tensor q = normal({3, 7, 4}), k = normal({3, 7, 4}), v = normal({3, 7, 4});
  const Tensor whole = scaled_dot_product_attention(q, k, v, {.causal = true}).slice(1, 6, 7); // of the last token
  const auto decoded = [&](const Permutation& of_keys, const Permutation& of_values) {
    nn::KvCache cache({3}, 7, 4, 0, DType::f64);
    cache.append(of_keys.apply(k.slice(1, 0, 6), 1), of_values.apply(v.slice(1, 0, 6), 1));
    cache.append(k.slice(1, 6, 7), v.slice(1, 6, 7));
    return cache.attend(q.slice(1, 6, 7));
  };
  const Permutation as_it_came = Permutation::identity(6), order = permutation(6);
  holds("decoding is the last row of the whole pass", decoded(as_it_came, as_it_came), whole);
  holds("entries in any order", decoded(order, order), whole);
  fails("values in another order than keys", decoded(as_it_came, order), whole);
  return verdict();
}
