// Grouped queries: groups move with their query heads, query heads move within their group.

#include "theorem.h"

using namespace theorem;

int main() {
  const Tensor q = normal({6, 7, 4}), k = normal({3, 7, 4}), v = normal({3, 7, 4}); // two query heads share a key head
  const auto f = [](const Tensor& a, const Tensor& b, const Tensor& c) {
    return scaled_dot_product_attention(a, b, c, AttentionOptions{});
  };
  const Permutation groups({2, 0, 1}), with_them({4, 5, 0, 1, 2, 3}), inside({1, 0, 3, 2, 5, 4}),
      across({2, 1, 0, 3, 4, 5});
  const Tensor y = f(q, k, v);
  holds("groups with their query heads", f(with_them.apply(q, 0), groups.apply(k, 0), groups.apply(v, 0)),
        with_them.apply(y, 0));
  holds("query heads within a group", f(inside.apply(q, 0), k, v), inside.apply(y, 0));
  fails("query heads across groups", f(across.apply(q, 0), k, v), across.apply(y, 0));
  return verdict();
}
