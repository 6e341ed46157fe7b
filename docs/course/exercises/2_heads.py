"""Exercise 2: find the P that breaks multi-head attention.

W' = P^T W P for the weights of queries, keys, values and output: entry W'[i, j] = W[p[i], p[j]]. Then attention of the
permuted features should be the permuted attention: f'(Z P) = f(Z) P. With several heads this holds for some P alone,
because the same P also acts on the axis that is cut into heads of dim / heads elements.
"""


def keeps_heads(p: list[int], heads: int) -> bool:
    """True when f'(Z P) = f(Z) P for all weights: for p a permutation of 0, ..., dim - 1 and that number of heads."""
    raise NotImplementedError


def breaking_swap(dim: int, heads: int) -> tuple[int, int] | None:
    """Two features whose exchange breaks the equation; None where no permutation breaks it."""
    raise NotImplementedError
