# Grouped queries: groups move with their query heads, query heads move within their group.

from equigrad import ops
from equigrad.permute import Permutation
from theorem import fails, holds, normal, verdict

q, k, v = normal(6, 7, 4), normal(3, 7, 4), normal(3, 7, 4)  # two query heads share a key head
f = ops.scaled_dot_product_attention
groups, with_them = Permutation([2, 0, 1]), Permutation([4, 5, 0, 1, 2, 3])
inside, across = Permutation([1, 0, 3, 2, 5, 4]), Permutation([2, 1, 0, 3, 4, 5])
y, y_g = f(q, k, v), f(with_them.apply(q, 0), groups.apply(k, 0), groups.apply(v, 0))
holds("groups with their query heads", y_g, with_them.apply(y, 0))
holds("query heads within a group", f(inside.apply(q, 0), k, v), inside.apply(y, 0))
fails("query heads across groups", f(across.apply(q, 0), k, v), across.apply(y, 0))
verdict()
