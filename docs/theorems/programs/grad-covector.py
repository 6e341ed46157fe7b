# A gradient moves by the inverse transpose of its weight's map: SwiGLU's up projection scaled, its down projection
# scaled back.

import equigrad as eg
from equigrad import ops
from theorem import fails, holds, normal, verdict

x, g, w1, w2, w3 = normal(7, 12), normal(7, 12), normal(20, 12), normal(12, 20), normal(20, 12)
s = ops.exp(normal(20, 1, stddev=0.5))


def output(up, down):
    return ops.linear(ops.swiglu(ops.linear(x, w1), ops.linear(x, up)), down)


def gradient(up, down):
    with eg.Tape() as tape:
        loss = (g * ops.gelu(output(up, down))).sum()
    return tape.gradient(loss, up)


up, down = w3 * s, w2 / s.reshape((20,))
plain, scaled = gradient(w3, w2), gradient(up, down)
holds("the same function with W_3' = diag(s) W_3", output(up, down), output(w3, w2))
holds("dL'/dW_3' = diag(s)^-1 dL/dW_3", scaled, plain / s)
fails("dL'/dW_3' = diag(s) dL/dW_3, as the weight", scaled, plain * s)
verdict()
