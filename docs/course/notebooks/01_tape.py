# %% [markdown]
# # 1. The tape and vjps
#
# A program computes a loss. Reverse-mode differentiation records what it computed, then walks back and multiplies
# derivatives. This notebook builds such a tape in twenty lines, then uses that of equigrad.
#
# You need: the chain rule. Afterwards: exercise 1 (write the vjp of softmax).

# %%
import math

import numpy as np

import equigrad as eg
from draw import matrices

# %% [markdown]
# ## A tape for numbers
#
# Every operation appends an entry: which values went in, and the derivative by each of them. The walk back starts with
# $\partial y / \partial y = 1$ and adds, for every entry, *cotangent of the output times derivative* to the inputs.


# %%
class ScalarTape:
    def __init__(self):
        self.values, self.entries = [], []  # entry: (output, [(input, derivative), ...])

    def leaf(self, value):
        self.values.append(value)
        return len(self.values) - 1

    def record(self, value, parts):
        output = self.leaf(value)
        self.entries.append((output, parts))
        return output

    def times(self, a, b):
        return self.record(self.values[a] * self.values[b], [(a, self.values[b]), (b, self.values[a])])

    def plus(self, a, b):
        return self.record(self.values[a] + self.values[b], [(a, 1.0), (b, 1.0)])

    def sine(self, a):
        return self.record(math.sin(self.values[a]), [(a, math.cos(self.values[a]))])

    def gradient(self, y):
        cotangents = [0.0] * len(self.values)
        cotangents[y] = 1.0
        for output, parts in reversed(self.entries):
            for place, derivative in parts:
                cotangents[place] += cotangents[output] * derivative
        return cotangents


tape = ScalarTape()
x, w = tape.leaf(0.7), tape.leaf(-1.3)
y = tape.plus(tape.sine(tape.times(x, w)), tape.times(x, x))  # y = sin(x w) + x^2
cotangents = tape.gradient(y)
print("dy/dx =", cotangents[x], " dy/dw =", cotangents[w])
assert math.isclose(cotangents[x], -1.3 * math.cos(0.7 * -1.3) + 2 * 0.7)
assert math.isclose(cotangents[w], 0.7 * math.cos(0.7 * -1.3))

# %% [markdown]
# Note the `+=`: $x$ is used three times, and the contributions of all uses add up. Forget it, and the gradient of $x^2$ is
# wrong. Try it.
#
# ## Tensors: vector-Jacobian products
#
# For tensors the derivative of an output by an input is a large matrix, the Jacobian $J$. The walk back never needs it. It
# needs the product of the cotangent with it, $c^\top J$: the **vjp**. For $Y = X W^\top$ and a cotangent $C = \partial l/\partial Y$:
#
# $$\frac{\partial l}{\partial X} = C W, \qquad \frac{\partial l}{\partial W} = C^\top X.$$
#
# The shapes leave no choice: $C$ is like $Y$, $[n, out]$; $W$ is $[out, in]$; and $C W$ is like $X$, $[n, in]$.

# %%
X = eg.random.normal((4, 3), key=1, dtype="f64")
W = eg.random.normal((2, 3), key=2, dtype="f64")
C = eg.random.normal((4, 2), key=3, dtype="f64")
with eg.Tape() as recorded:
    Y = eg.ops.linear(X, W)
by_x, by_w = recorded.gradient(Y, [X, W], cotangent=C)
print("apart:", eg.relative_error(by_x, C @ W), eg.relative_error(by_w, C.T @ X))
assert eg.relative_error(by_x, C @ W) < 1e-14 and eg.relative_error(by_w, C.T @ X) < 1e-14

# %% [markdown]
# How large would the Jacobian be? For a layer of 768 features and 197 tokens it has $(197 \cdot 768)^2$ entries, 183 GB in f64. The
# vjp costs two matrix products. Here the Jacobian is small enough to look at.

# %%
jacobian = np.asarray(eg.jacobian(lambda x: eg.ops.linear(x, W), X)).reshape(Y.size, X.size)
matrices({"J of Y = X W^T by X": jacobian, "W": W})
assert np.allclose(np.asarray(C).reshape(-1) @ jacobian, np.asarray(by_x).reshape(-1))

# %% [markdown]
# ## An op of your own
#
# `eg.CustomOp(name, forward, vjp)`: the rule gets inputs, outputs and cotangents. For $y = x^3$ it is $3 x^2 c$. `gradcheck`
# compares it with differences $(f(x + h u) - f(x - h u)) / 2h$ along random directions $u$.

# %%
cube = eg.CustomOp(
    "cube", lambda x: x * x * x, lambda inputs, outputs, cotangents: 3.0 * inputs[0] * inputs[0] * cotangents[0]
)
print(eg.gradcheck(cube, [X]))
print(eg.gradcheck(cube, [X], second=True))  # the rule consists of operations, so it has a derivative too

# %% [markdown]
# **Control.** A check that cannot fail checks nothing. Here is a wrong rule.

# %%
wrong = eg.CustomOp(
    "wrong cube", lambda x: x * x * x, lambda inputs, outputs, cotangents: 2.0 * inputs[0] * cotangents[0]
)
result = eg.gradcheck(wrong, [X], raise_exception=False)
print(result)
assert not result

# %% [markdown]
# ## What a tape keeps
#
# A tape keeps what the rules need. Softmax keeps its output, not its input; `linear` keeps both inputs.

# %%
for name, f in {
    "softmax": lambda x: eg.ops.softmax(x),
    "linear": lambda x: eg.ops.linear(x, W),
    "sum": lambda x: x.sum(),
}.items():
    with eg.Tape() as recorded:
        f(X)
    print(f"{name:8} {len(recorded)} call, keeps {recorded.saved_bytes} bytes")

# %% [markdown]
# **Now you.** `exercises/1_softmax.py`, then `python docs/course/check.py 1`.
