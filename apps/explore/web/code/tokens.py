"""Theorem 4.1 and 4.2: permuted tokens give permuted outputs and the same gradients of all weights."""

import equigrad as eg


def generic(module: eg.nn.Module) -> None:
    """No gain is 1 and no bias is 0, so that nothing holds by accident."""
    for i, (name, x) in enumerate(module.state_dict().items()):
        mean = 1.0 if name.endswith(("norm1.weight", "norm2.weight")) else 0.0
        x.copy_from(eg.random.normal(x.shape, key=100 + i, mean=mean, std=0.4, dtype="f64"))


block = eg.nn.Block(eg.nn.BlockConfig(dim=8, heads=2, mlp=16), key=1)
block.to("f64")
generic(block)
z, cotangent = (eg.random.normal((1, 6, 8), key=k, dtype="f64") for k in (2, 3))
p = eg.permute.Permutation([2, 0, 1, 5, 3, 4])


def output_and_gradients(z: eg.Tensor, cotangent: eg.Tensor) -> tuple[eg.Tensor, list[eg.Tensor]]:
    with eg.Tape() as tape:
        y = block(z)
    return y, tape.gradient(y, block.parameters(), cotangent)


y, gradients = output_and_gradients(z, cotangent)
moved_y, moved_gradients = output_and_gradients(p.rows(z), p.rows(cotangent))
print("Enc(P Z) = P Enc(Z) up to", eg.relative_error(moved_y, p.rows(y)))
print("the control, Enc(P Z) = Enc(Z), is off by", eg.relative_error(moved_y, y))
assert eg.relative_error(moved_y, p.rows(y)) < 1e-11 < eg.relative_error(moved_y, y)
for a, b in zip(gradients, moved_gradients):
    assert abs(a.numpy() - b.numpy()).max() < 1e-11
