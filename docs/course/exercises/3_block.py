"""Exercise 3: permute a transformer block by hand.

The block computes h = z + proj(attention(qkv(norm1(z)))), then h + fc2(gelu(fc1(norm2(h)))). Linear layers are
x W^T + b with W of shape [out, in]. The rows of qkv.weight are all queries, then all keys, then all values.

A permutation p is a list, used as a gather: y[i] = x[p[i]]. A weight whose output moves by `out` and whose input moves
by `in_` becomes W'[i, j] = W[out[i], in_[j]].
"""

import numpy as np


def permute_block(
    state: dict[str, np.ndarray], residual: list[int], qk: list[int], v: list[int], hidden: list[int]
) -> dict[str, np.ndarray]:
    """The block's weights after the move, by the same names; `state` stays as it is.

    residual permutes the features of z; qk those of queries and of keys; v those of values, the input of proj; hidden
    those between fc1 and fc2.

    Names and shapes: norm1.weight, norm1.bias [d]; attention.qkv.weight [3 a, d], attention.qkv.bias [3 a];
    attention.proj.weight [d, a], attention.proj.bias [d]; norm2.weight, norm2.bias [d]; mlp.fc1.weight [m, d],
    mlp.fc1.bias [m]; mlp.fc2.weight [d, m], mlp.fc2.bias [d]. Here a is len(qk) = len(v).
    """
    raise NotImplementedError
