"""Modules as a tree of names, and their tensors in files."""

import numpy as np
import pytest

import equigrad as eg

nn = eg.nn


def test_tensors_are_saved_and_loaded(tmp_path):
    model = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2))
    eg.save(model, tmp_path / "model.safetensors")
    other = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2))
    assert not eg.same_bits(other[0].weight, model[0].weight)
    other.load_state_dict(eg.load(tmp_path / "model.safetensors"))
    assert eg.same_bits(other[0].weight, model[0].weight)
    with pytest.raises(TypeError, match="give a module or tensors by name"):
        eg.save(eg.zeros(2), tmp_path / "x")
    for name in ("weights.npz", "weights.pt", "W.NPY"):
        with pytest.raises(eg.ValueError, match="the file is safetensors, and its name ends with"):
            eg.save(model, tmp_path / name)
        assert not (tmp_path / name).exists()
    eg.save(model, tmp_path / "no.ending.at.all")
    assert len(eg.load(tmp_path / "no.ending.at.all")) == 4


def test_modules_are_listed_as_a_tree():
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Sequential(nn.Linear(4, 2)))
    assert [name for name, _ in model.named_modules()] == ["", "0", "1", "2", "2.0"]
    assert [type(module).__name__ for module in model.children()] == ["Linear", "ReLU", "Sequential"]
    assert model.named_children()[0][1] is model[0] and model.modules()[0] is model
    seen = []
    assert model.apply(lambda module: seen.append(type(module).__name__)) is model
    assert seen == ["Linear", "Sequential", "ReLU", "Linear", "Sequential"]
    assert str(model) == (
        "Sequential\n  (0): Linear, weight [4, 3], bias [4]\n  (1): ReLU\n"
        "  (2): Sequential\n    (0): Linear, weight [2, 4], bias [2]"
    )
    vit = nn.Vit(nn.VitConfig(image=8, patch=4, layers=2, encoder=nn.BlockConfig(dim=8, heads=2)))
    names = dict(vit.named_modules())
    assert isinstance(names["blocks.1.attention"], nn.MultiHeadAttention)
    listed = {f"{name}.{own}" if name else own for name, module in names.items() for own, _ in module.named_parameters() if "." not in own}
    assert listed == {name for name, _ in vit.named_parameters()}
    shared = nn.Linear(3, 3)
    assert len(nn.Sequential(shared, shared).modules()) == 2
