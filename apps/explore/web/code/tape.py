"""A tape records the forward pass and reads it backward; central differences agree."""

import equigrad as eg

x, w, b = (eg.random.normal(shape, key=k, dtype="f64") for k, shape in enumerate([(3, 4), (4, 3), (3,)]))


def loss(w: eg.Tensor) -> eg.Tensor:
    h = eg.ops.gelu(eg.ops.matmul(x, w) + b)
    return (h * h).sum()


with eg.Tape() as tape:
    y = loss(w)
gradient = tape.gradient(y, w)
direction = eg.random.normal(w.shape, key=9, dtype="f64")
h = 1e-5
slope = (loss(w + direction * h) - loss(w - direction * h)).item() / (2 * h)
print("by the tape", (gradient * direction).sum().item(), "by differences", slope)
assert abs((gradient * direction).sum().item() - slope) < 1e-6 * abs(slope)
