# The key-value cache may hold its entries in any order.

from equigrad import ops
from equigrad.permute import Permutation
from theorem import fails, holds, keys, normal, permutation, verdict

q, k, v = normal(3, 7, 4), normal(3, 7, 4), normal(3, 7, 4)
last = ops.scaled_dot_product_attention(q, k, v, causal=True)[:, 6:7]  # the last token's row of the whole pass


def decoded(of_keys, of_values):
    """The last query on a cache whose first six entries lie in another order."""
    keys = ops.concat([of_keys.apply(k[:, :6], 1), k[:, 6:]], axis=1)
    values = ops.concat([of_values.apply(v[:, :6], 1), v[:, 6:]], axis=1)
    return ops.scaled_dot_product_attention(q[:, 6:7], keys, values)


as_it_came, order = Permutation.identity(6), permutation(6)
holds("decoding is the last row of the whole pass", decoded(as_it_came, as_it_came), last)
holds("entries in any order", decoded(order, order), last)
fails("values in another order than keys", decoded(as_it_came, order), last)
verdict()
