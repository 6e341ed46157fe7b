"""Permutations of tensors and models; datasets."""

import equigrad as eg
import numpy as np
import pytest


def test_permutations_are_gathers():
    p = eg.permute.Permutation([2, 0, 1])
    x = np.arange(12.0).reshape(3, 4)
    assert np.array_equal(p.rows(eg.tensor(x)).numpy(), x[[2, 0, 1]])
    q = eg.permute.Permutation.random_nonidentity(4, key=1)
    assert np.array_equal(q.columns(eg.tensor(x)).numpy(), x[:, q.gather])
    assert p.then(p.inverse()).is_identity() and not p.is_identity() and list(p) == [2, 0, 1] and len(p) == 3
    assert p.tensor().tolist() == [2, 0, 1] and eg.permute.from_paper001(p) == p.inverse()
    with pytest.raises(eg.ValueError, match="permutation"):
        eg.permute.Permutation([0, 0, 1])


def vit(key):
    encoder = eg.nn.BlockConfig(dim=16, heads=2, mlp=24)
    model = eg.nn.Vit(eg.nn.VitConfig(image=8, patch=4, classes=5, layers=2, encoder=encoder), key=key)
    model.to("f64")
    return model


def test_a_permuted_model_computes_the_permuted_function():
    """f_(P)(Z P) = f(Z) P, and dL/dW_(P) = P_out^T dL/dW P_in."""
    plain, moved = vit(1), vit(2)
    config = plain.config
    key = eg.permute.BlocksKey.random(config.encoder, config.layers, "decoupled", key=3)
    axes, permutations = eg.permute.vit_axes(config, "encoder"), key.permutations(config.encoder)
    moved.load_state_dict(eg.permute.transform(plain.state_dict(), axes, permutations))
    images = eg.random.normal((4, 3, 8, 8), key=5, dtype="f64")
    z = plain.embed(images)
    with eg.Tape() as tape:
        y = plain.encode(z)
        loss = (y * y * y).sum()
    with eg.Tape() as tape_moved:
        y_moved = moved.encode(key.apply_columns(z))
        loss_moved = (y_moved * y_moved * y_moved).sum()
    assert eg.relative_error(key.undo_columns(y_moved), y) < 1e-12
    assert eg.relative_error(y_moved, y) > 0.1  # the permutation does something
    names = [name for name, _ in plain.named_parameters()]
    gradients = dict(zip(names, tape.gradient(loss, plain.parameters())))
    found = dict(zip(names, tape_moved.gradient(loss_moved, moved.parameters())))
    for name, expected in eg.permute.transform(gradients, axes, permutations).items():
        if name.startswith("blocks.") and expected.numpy().any():
            # b_K has no gradient but rounding
            assert np.abs(found[name].numpy() - expected.numpy()).max() < 1e-10 * (1 + np.abs(expected.numpy()).max()), name
    eg.permute.transform_module(moved, axes, eg.permute.inverse(permutations))
    for a, b in zip(moved.parameters(), plain.parameters()):
        assert eg.same_bits(a, b)


def test_python_modules_can_be_moved():
    class Two(eg.nn.Module):
        def __init__(self):
            super().__init__()
            self.fc1, self.fc2 = eg.nn.Linear(3, 7, key=1), eg.nn.Linear(7, 2, key=2)

        def forward(self, x):
            return self.fc2(eg.ops.gelu(self.fc1(x)))

    two, x = Two(), eg.random.normal((4, 3), key=3)
    before = two(x)
    axes = [
        eg.permute.ParameterAxes("fc1.weight", ["hidden", ""]),
        eg.permute.ParameterAxes("fc1.bias", ["hidden"]),
        eg.permute.ParameterAxes("fc2.weight", ["", "hidden"]),
    ]
    p = {"hidden": eg.permute.Permutation.random_nonidentity(7, key=4)}
    weight = two.fc1.weight.clone()
    eg.permute.transform_module(two, axes, p)
    assert eg.relative_error(two(x), before) < 1e-6 and not eg.same_bits(two.fc1.weight, weight)
    with pytest.raises(eg.ValueError, match="hidden"):
        eg.permute.transform_module(two, axes, {})


def test_secret_keys(tmp_path):
    key = eg.permute.SecretKey.generate()
    path = str(tmp_path / "key")
    key.save(path)
    again = eg.permute.SecretKey.load(path)
    assert key.fingerprint() == again.fingerprint() and key.fingerprint() in repr(key)
    assert key.permutation(20, "residual") == again.permutation(20, "residual") != key.permutation(20, "rows")
    with pytest.raises(eg.FileError):
        key.save(path)


def test_permutation_files(tmp_path):
    path = tmp_path / "p.json"
    set_ = {"a": eg.permute.Permutation([1, 0]), "b": eg.permute.Permutation([2, 0, 1])}
    eg.permute.save_permutations(path, set_)
    assert eg.permute.load_permutations(path) == set_
    assert eg.permute.between(set_, set_)["b"].is_identity()
    with pytest.raises(TypeError, match="permutations: 'a' must be a Permutation, not list"):
        eg.permute.save_permutations(path, {"a": [1, 0]})
    with pytest.raises(TypeError, match="permutations: a name must be str, not int"):
        eg.permute.inverse({1: set_["a"]})


def test_generated_shapes_and_loader():
    shapes = eg.data.open_dataset("shapes", "train", count=50, size=16)
    assert len(shapes) == 50 and shapes.pixels(3).shape == (3, 16, 16) and shapes.pixels(3).dtype == "u8"
    assert shapes.class_names[shapes.label(0)] == "disc"
    loader = eg.data.Loader(shapes, batch_size=16, seed=1, workers=1)
    batch = next(loader)
    assert batch.images.shape == (16, 3, 16, 16) and batch.labels.dtype == "i64"
    assert eg.same_bits(loader.batch(0, 0).images, batch.images) and loader.batches_per_epoch == 4
    assert [(b.epoch, b.batch) for b in loader] == [(0, 1), (0, 2), (0, 3)]
    assert [(b.epoch, b.batch) for b in loader] == [(1, 0), (1, 1), (1, 2), (1, 3)] and len(loader) == 4
    for first in loader:
        break
    assert first.epoch == 2 and [b.batch for b in loader] == [1, 2, 3]
    epoch = iter(loader)
    assert len(list(epoch)) == 4 and next(epoch, None) is None
    loader.seek(7, 2)
    assert [(b.epoch, b.batch) for b in loader] == [(7, 2), (7, 3)] and next(loader).epoch == 8


@pytest.mark.parametrize("workers", [0, 1, 2])
def test_a_loop_over_a_loader_ends_with_the_epoch_that_something_else_ended(workers):
    shapes = eg.data.open_dataset("shapes", "train", count=50, size=16)
    loader = eg.data.Loader(shapes, batch_size=16, seed=1, workers=workers)  # 4 batches an epoch
    places = []
    for batch in loader:
        places += [(b.epoch, b.batch) for b in (batch, next(loader))]
    assert places == [(0, 0), (0, 1), (0, 2), (0, 3)]
    after = next(loader)
    assert (after.epoch, after.batch) == (1, 0) and eg.same_bits(after.images, loader.batch(1, 0).images)
    epoch = iter(loader)
    assert next(epoch).batch == 1
    loader.seek(5, 2)
    assert next(epoch, None) is None and next(epoch, None) is None
    assert [(b.epoch, b.batch) for b in loader] == [(5, 2), (5, 3)]
    with pytest.raises(eg.ValueError, match="neither 'train' nor 'test'"):
        eg.data.open_dataset("shapes", "valid")
    with pytest.raises(eg.FileError):
        eg.data.open_dataset("cifar10", data_dir="/nowhere")


def test_a_loader_says_how_it_scales():
    data = eg.data.ArrayDataset(np.array([[[0, 51]], [[102, 255]]], "uint8"), [0, 1])
    still = dict(batch_size=2, shuffle=False, workers=0)
    loader = eg.data.Loader(data, **still)
    batch = loader.batch(0, 0)
    assert np.allclose(batch.images.numpy().ravel(), [-1.0, -0.6, -0.2, 1.0])
    for mean, std in [(0.0, 1.0), (0, 1), ([0.0], [1.0])]:
        pixels = eg.data.Loader(data, **still, mean=mean, std=std).batch(0, 0).images
        assert np.allclose(pixels.numpy().ravel(), [0.0, 0.2, 0.4, 1.0])
    assert loader.batch_size == 2 and len(batch) == 2 and eg.same_bits(batch[0], batch.images) and batch[-1].tolist() == [0, 1]
    with pytest.raises(eg.IndexError, match=r"no part 2; \[0\] is .images, \[1\] is .labels"):
        batch[2]
    with pytest.raises(TypeError, match=r"Loader: it takes .*mean: float \| collections.abc.Sequence\[float\] \| None"):
        eg.data.Loader(data, mean="a", std=1.0)
    assert "(pixel / 255 - mean) / std" in eg.data.Loader.__doc__ and "[-1, 1]" in eg.data.ArrayDataset.__doc__
