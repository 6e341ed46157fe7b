"""Theorems 4.4, 4.5 and 4.7: permuted features with weights moved along give permuted outputs and gradients."""

import equigrad as eg

config = eg.nn.BlockConfig(dim=8, heads=2, mlp=16)
block = eg.nn.Block(config, key=1)
block.to("f64")
for i, (name, x) in enumerate(block.state_dict().items()):  # no gain is 1 and no bias is 0
    x.copy_from(eg.random.normal(x.shape, key=100 + i, mean=1.0 if "norm" in name else 0.0, std=0.4, dtype="f64"))
key = eg.permute.BlocksKey.random(config, layers=1, form="decoupled", key=5)
axes, permutations = eg.permute.block_axes(), key.permutations(config)

twin = eg.nn.Block(config, key=1)
twin.to("f64")
twin.load_state_dict(eg.permute.transform(block.state_dict(), axes, permutations))
z, cotangent = (eg.random.normal((1, 4, 8), key=k, dtype="f64") for k in (2, 3))


def run(model: eg.nn.Block, z: eg.Tensor, cotangent: eg.Tensor) -> tuple[eg.Tensor, dict[str, eg.Tensor]]:
    with eg.Tape() as tape:
        y = model(z)
    return y, dict(zip(model.state_dict(), tape.gradient(y, model.parameters(), cotangent)))


y, gradients = run(block, z, cotangent)
moved_y, moved_gradients = run(twin, key.apply_columns(z), key.apply_columns(cotangent))
plain_y, _ = run(block, key.apply_columns(z), key.apply_columns(cotangent))
print("Enc'(Z P) = Enc(Z) P up to", eg.relative_error(moved_y, key.apply_columns(y)))
print("with the plain weights it is off by", eg.relative_error(plain_y, key.apply_columns(y)))
assert eg.relative_error(moved_y, key.apply_columns(y)) < 1e-11 < eg.relative_error(plain_y, key.apply_columns(y))
for name, expected in eg.permute.transform(gradients, axes, permutations).items():
    assert abs(moved_gradients[name].numpy() - expected.numpy()).max() < 1e-11, name
print("every gradient moved as its weight did")
