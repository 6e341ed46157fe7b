"""Exercise 1: write the vjp of softmax.

y = softmax(x) along the last axis. The loss l depends on x through y alone. A vector-Jacobian product takes the
cotangent dl/dy and gives dl/dx; it never forms the Jacobian.

Hint: dy_j / dx_i = y_j (1[i = j] - y_i). Multiply by dl/dy_j and sum over j.
"""

import equigrad as eg


def softmax_vjp(y: eg.Tensor, cotangent: eg.Tensor) -> eg.Tensor:
    """dl/dx of shape [..., n], from y = softmax(x) and cotangent = dl/dy, both [..., n].

    Use operators and eg.ops, so that the result can be differentiated again. No tape, no eg.grad, no NumPy.
    """
    raise NotImplementedError
