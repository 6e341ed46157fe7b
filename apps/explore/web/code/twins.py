"""Corollary 4.6: training with permuted features, from correspondingly permuted weights, is the same training."""

import equigrad as eg

config = eg.nn.VitConfig(image=16, patch=4, layers=2, encoder=eg.nn.BlockConfig(dim=32, heads=4, mlp=64))
key = eg.permute.BlocksKey.random(config.encoder, layers=2, form="decoupled", key=5)
axes, permutations = eg.permute.vit_axes(config), key.permutations(config.encoder)


def plain_pass(model: eg.nn.Vit, images: eg.Tensor) -> eg.Tensor:
    return model.head(model.encode(model.embed(images)))


def permuted_pass(model: eg.nn.Vit, images: eg.Tensor) -> eg.Tensor:
    return model.head(key.undo_columns(model.encode(key.apply_columns(model.embed(images)))))


def train(forward, moved: bool) -> dict[str, eg.Tensor]:
    model = eg.nn.Vit(config, key=7)
    model.to("f64")
    if moved:
        model.load_state_dict(eg.permute.transform(model.state_dict(), axes, permutations))
    loader = eg.data.Loader(eg.data.open_dataset("shapes", count=200, side=16), batch_size=16, seed=1)
    optimizer = eg.optim.AdamW(model.parameters())
    for _ in range(10):
        batch = next(loader)
        with eg.Tape() as tape:
            loss = eg.ops.cross_entropy(forward(model, batch.images.to("f64")), batch.labels)
        optimizer.step(tape.gradient(loss, model.parameters()), 1e-3)
    return model.state_dict()


def apart(a: dict[str, eg.Tensor], b: dict[str, eg.Tensor]) -> float:
    """The keys' biases have no gradient but for rounding, which Adam scales up: they are left out."""
    weights = [name for name in a if not name.endswith("qkv.bias")]
    return max(float(abs(a[name].numpy() - b[name].numpy()).max()) for name in weights)


expected = eg.permute.transform(train(plain_pass, moved=False), axes, permutations)
twin, other = train(permuted_pass, moved=True), train(permuted_pass, moved=False)
print("after ten steps of AdamW the twin is off by", apart(twin, expected))
print("from the same weights, not moved along, by", apart(other, expected))
assert apart(twin, expected) < 1e-9 < apart(other, expected)
