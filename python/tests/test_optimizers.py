"""Optimisers as PyTorch's are called: groups, states, refusals."""

import numpy as np
import pytest

import equigrad as eg

nn = eg.nn
N = np.arange(6.0).reshape(2, 3) - 2.5


def test_an_optimizer_takes_what_pytorchs_takes():
    def train(steps, saved=None, load=None):
        model = nn.Sequential(nn.Linear(3, 4, key=1), nn.Tanh(), nn.Linear(4, 1, key=2))
        optimizer = eg.optim.AdamW(
            [{"params": model[0].parameters(), "lr": 1e-3}, {"params": model[2].parameters(), "weight_decay": 0.0}],
            lr=1e-2, betas=(0.8, 0.9), weight_decay=0.1,
        )
        if load:
            model.load_state_dict(load[0])
            optimizer.load_state_dict(load[1])
        for step in steps:
            with eg.Tape() as tape:
                loss = (model(eg.tensor(N.astype("f4"))) - float(step)).square().mean()
            optimizer.step(tape.gradient(loss, model.parameters()))
        return {n: t.clone() for n, t in model.state_dict().items()}, {n: t.clone() for n, t in optimizer.state_dict().items()}

    whole = train(range(6))
    resumed = train(range(3, 6), load=train(range(3)))
    for before, after in zip(whole, resumed):
        assert before.keys() == after.keys()
        assert all(eg.same_bits(before[name], after[name]) for name in before)
    assert not eg.same_bits(whole[0]["0.weight"], train(range(3, 6))[0]["0.weight"])


def test_optimizer_states_that_do_not_fit_change_nothing():
    weight = eg.tensor(N.copy())
    optimizer = eg.optim.Adam([weight], lr=1e-3)
    optimizer.step([weight.clone()])
    state = {name: tensor.clone() for name, tensor in optimizer.state_dict().items()}
    key = next(name for name in state if name.startswith("0."))
    for wrong, words in [
        ({**state, key: eg.zeros(3, dtype="f64")}, "not"),
        ({**state, "1.exp_avg": eg.zeros(1)}, "there is no"),
        ({name: tensor for name, tensor in state.items() if name != key}, "missing"),
        ({**state, "steps": eg.tensor(-1)}, "steps"),
    ]:
        with pytest.raises(eg.Error, match=words):
            optimizer.load_state_dict(wrong)
        assert all(eg.same_bits(state[name], tensor) for name, tensor in optimizer.state_dict().items())
    snapshot = optimizer.state_dict()
    before = {name: tensor.clone() for name, tensor in snapshot.items()}
    optimizer.step([weight.clone()])
    assert all(eg.same_bits(before[name], tensor) for name, tensor in snapshot.items())
    with pytest.raises(eg.ValueError, match="give that a number"):
        eg.optim.SGD([{"params": [weight], "lr": 0.1}], lr=lambda step: 0.1)
    with pytest.raises(TypeError, match="lr=1e-3"):
        eg.optim.SGD([weight]).step([weight])
