"""Optimisers as PyTorch's are called: groups, states, refusals."""

import pickle

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


@pytest.mark.parametrize("make", [eg.optim.SGD, eg.optim.AdamW])
def test_training_leaves_the_callers_array_alone(make):
    """eg.tensor() shares an array's memory, so an optimizer that wrote there would change the caller's data."""
    array = np.ones((2, 3), "float32")
    w = eg.tensor(array)
    seen = w.numpy()  # on the array's memory
    assert np.shares_memory(seen, array)
    optimizer = make([w], lr=0.5)
    row = w[0]
    optimizer.step([eg.ones((2, 3))])
    assert np.array_equal(array, np.ones((2, 3))) and np.array_equal(seen, array)
    assert np.allclose(w.numpy(), 0.5, atol=0.01) and np.allclose(row.numpy(), 0.5, atol=0.01)  # one memory still
    assert not np.shares_memory(w.numpy(), array)


def test_parameters_do_not_lie_on_the_callers_array():
    class Net(nn.Module):
        def __init__(self, first, second):
            super().__init__()
            tied = eg.tensor(first)
            self.a, self.b = nn.Parameter(tied), nn.Parameter(tied)
            self.layer = nn.Linear(3, 2, key=1)
            self.layer.weight = eg.tensor(second)

        def forward(self, x):
            return self.layer(x * self.a + self.b)

    first, second = np.ones(3, "float32"), np.ones((2, 3), "float32")
    net = Net(first, second)
    assert [name for name, _ in net.named_parameters()] == ["a", "layer.weight", "layer.bias"]  # still tied
    net.load_state_dict({name: tensor * 0.0 for name, tensor in net.state_dict().items()})
    net.a[...] = 3.0
    assert net.b.tolist() == [3, 3, 3] and net.layer.weight.tolist() == [[0] * 3] * 2
    assert np.array_equal(first, np.ones(3)) and np.array_equal(second, np.ones((2, 3)))


def test_an_array_is_kept_for_those_who_see_its_memory():
    """NumPy got the memory from the tensor, and nobody but the tensor keeps the first array."""
    w = eg.tensor(np.arange(1000, dtype="float64"))
    seen = w.numpy()
    eg.optim.SGD([w], lr=1.0).step([eg.ones((1000,), "f64")])
    filler = [np.full(1000, -5.0) for _ in range(50)]
    assert np.array_equal(seen, np.arange(1000)) and w.tolist()[:2] == [-1, 0] and len(filler) == 50


def test_parameters_may_come_one_by_one():
    model = nn.Sequential(nn.Linear(3, 4, key=1), nn.Linear(4, 1, key=2))
    named = dict(model.named_parameters())
    for given in (
        (p for p in model.parameters()),
        filter(lambda p: p.ndim > 1, model.parameters()),
        named.values(),
        [{"params": (p for p in model.parameters())}],
        [{"params": model[0].parameters()}, {"params": iter(model[1].parameters())}],
    ):
        optimizer = eg.optim.SGD(given, lr=0.1)
        assert len(optimizer.parameters) in (2, 4) and optimizer.parameters[0].data_ptr == model[0].weight.data_ptr
    for given, error, words in [
        (set(model.parameters()[:0]), TypeError, "a set has no order"),
        (named, TypeError, r"list\(its.values\(\)\)"),
        ([], eg.ValueError, "there are none"),
        ([{"params": []}], eg.ValueError, "there are none"),
        ([{"params": model}], TypeError, r"'params': a module was given; give model.parameters\(\)"),
        (3, TypeError, "parameters must be a sequence of tensors, not int"),
    ]:
        with pytest.raises(error, match=words):
            eg.optim.SGD(given, lr=0.1)


def test_clipped_gradients_are_taken_apart():
    w = eg.ones((2,))
    optimizer = eg.optim.SGD([w], lr=0.5)
    with pytest.raises(TypeError, match=r"gradients, norm = eg.optim.clip_gradients\(gradients, 1.0\)"):
        optimizer.step(eg.optim.clip_gradients([eg.ones((2,))], 1.0))
    assert optimizer.steps == 0 and w.tolist() == [1, 1]


def test_a_groups_rate_is_a_share_of_a_schedules_base():
    a, b = eg.zeros(1, dtype="f64"), eg.zeros(1, dtype="f64")
    rate = eg.optim.Schedule("linear", base=0.5, total_steps=4)
    optimizer = eg.optim.SGD([{"params": [a]}, {"params": [b], "lr": 0.125}], lr=rate)
    for step in range(3):
        assert optimizer.lr(optimizer.steps) == rate(step)
        optimizer.step([eg.ones(1, dtype="f64")] * 2)
    assert a.item() == -sum(rate(step) for step in range(3)) and b.item() == a.item() / 4


def test_schedules_say_what_they_need():
    Schedule = eg.optim.Schedule
    for arguments, words in [
        (("cosine",), "a cosine schedule needs total_steps"),
        (("linear", 0.1), "a linear schedule needs total_steps"),
        (("one-cycle", 0.1), "a one-cycle schedule needs total_steps"),
        (("step", 0.1), "needs drop_every, .* or total_steps"),
        (("constant", -0.1), "base is -0.1"),
        (("constant", float("nan")), "base is nan"),
        (("constant", 0.1, -1), "warmup is -1"),
        (("linear", 0.1, 5, 4), "warmup is 5, and total_steps 4: the rate would never reach base"),
        (("linear", 0.1, 0, 0), "total_steps is 0"),
        (("linear", 0.1, 0, 4, -0.5), "final_fraction is -0.5; give a share from 0 to 1"),
        (("linear", 0.1, 0, 4, float("nan")), "final_fraction is nan"),
        (("step", 0.1, 0, 4, 0.0, -2), "drop_every is -2"),
        (("step", 0.1, 0, 4, 0.0, 2, 1.5), "drop_factor is 1.5"),
    ]:
        with pytest.raises(eg.ValueError, match=f"Schedule: .*{words}"):
            Schedule(*arguments)
    assert repr(Schedule("cosine", base=0.1, warmup=2, total_steps=9)) == "Schedule('cosine', base=0.1, warmup=2, total_steps=9)"
    assert Schedule("constant", 0.1, 5)(4) == 0.1 and Schedule("step", 0.1, drop_every=3)(3) == pytest.approx(0.01)
    for one in (Schedule("constant", 0.1, 5), Schedule("step", 0.1, total_steps=6), Schedule("cosine", total_steps=1)):
        assert repr(pickle.loads(pickle.dumps(one))) == repr(one)
