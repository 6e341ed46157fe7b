"""Solution 1. dl/dx_i = sum_j c_j y_j (1[i = j] - y_i) = y_i (c_i - sum_j c_j y_j)."""

import equigrad as eg


def softmax_vjp(y: eg.Tensor, cotangent: eg.Tensor) -> eg.Tensor:
    return y * (cotangent - (cotangent * y).sum(-1, keepdim=True))
