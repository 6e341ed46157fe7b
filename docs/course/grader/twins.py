"""Exercise 4: twins under four rules, and which rules follow a rotation, measured."""

import copy

import equigrad as eg
import numpy as np

from . import apart, arrays, expect, key

RULES = ["sgd", "momentum", "muon", "adam", "adamw", "rmsprop", "lion", "adafactor"]
STEPS = 12


class Net(eg.nn.Module):
    def __init__(self, seed: int):
        super().__init__()
        self.calls = []
        self.fc1, self.fc2 = eg.nn.Linear(6, 10, key=seed), eg.nn.Linear(10, 3, key=seed + 1)

    def forward(self, x):
        self.calls.append(x)
        return self.fc2(eg.ops.gelu(self.fc1(x)))


def check(work, rng) -> str:
    drift = max(one(work, rule, rng) for rule in ("sgd", "momentum", "adamw", "rmsprop"))
    claimed = work.rules_that_follow_rotations()
    distances = {rule: rotated_distance(rule, rng) for rule in RULES}
    unknown = set(claimed) - set(RULES)
    expect(not unknown, f"there is no rule {', '.join(map(repr, sorted(unknown)))} in the list")
    for rule, distance in distances.items():
        expect(
            (rule in claimed) == (distance < 1e-9),
            f"{rule}: you say it {'follows' if rule in claimed else 'does not follow'} rotations, and after 20 steps W_t' and W_t R "
            f"differ by {distance:.1e}. Does it treat a matrix as one, or each element apart?",
        )
    return f"twins of 4 rules stay together to {drift:.0e} for {STEPS} steps; {len(RULES)} rules judged"


def one(work, rule: str, rng) -> float:
    seed = key(rng)
    model, twin, reference = Net(seed), Net(key(rng)), Net(seed)
    for net in (model, twin, reference):
        net.to("f64")
    batches = [(eg.tensor(rng.normal(size=(8, 6))), eg.tensor(rng.integers(0, 3, 8))) for _ in range(STEPS)]
    s = eg.permute.symmetries(reference, {"x": batches[0][0]})
    inside = [g.name for g in s.groups if g.is_secret and all(use.tensor != "output" for use in g.axes)]
    element = s.element(key(rng), inside)
    reference_losses = reference_run(reference, batches, rule)
    begun = arrays(model.state_dict())
    model.calls.clear()
    twin.calls.clear()

    losses = work.train_twins(model, twin, element, list(batches), rule, 0.01)
    expect(losses is not None and len(losses) == STEPS, f"give one pair of losses a step: {STEPS} of them")
    ours, theirs = ([float(pair[i]) for pair in losses] for i in (0, 1))
    expect(len(model.calls) >= STEPS, f"{rule}: the model computed {len(model.calls)} times for {STEPS} batches")
    expect(
        len(twin.calls) >= STEPS,
        f"{rule}: the twin computed {len(twin.calls)} times for {STEPS} batches; it trains by itself",
    )
    after = arrays(model.state_dict())
    expect(any(not np.array_equal(after[n], begun[n]) for n in after), f"{rule}: the model's weights did not change")
    error = apart(np.array(ours), np.array(reference_losses))
    expect(
        error < 1e-10,
        f"{rule}: the model's losses differ from a training's by {error:.1e}: one step a batch, in order, at the given rate",
    )
    x_moved = np.asarray(element.move("x", batches[0][0]))
    expect(
        np.array_equal(np.asarray(twin.calls[0]), x_moved),
        f"{rule}: the twin's first input is not element.move('x', x)",
    )
    gap = apart(np.array(theirs), np.array(ours))
    expect(
        gap < 1e-10,
        f"{rule}: the losses of the twins differ by {gap:.1e}; do the twin's weights begin as element.move_state of the model's?",
    )
    expected = arrays(element.move_state(model.state_dict()))
    drift = max(apart(x, expected[name]) for name, x in arrays(twin.state_dict()).items())
    expect(drift < 1e-10, f"{rule}: the twin's weights differ from the moved ones by {drift:.1e}")
    return drift


def reference_run(net, batches, rule: str) -> list[float]:
    optimizer, losses = eg.optim.make_optimizer(rule, net.parameters()), []
    for x, labels in batches:
        with eg.Tape() as tape:
            loss = eg.ops.cross_entropy(net(x), labels)
        optimizer.step(tape.gradient(loss, net.parameters()), 0.01)
        losses.append(loss.item())
    return losses


def rotated_distance(rule: str, rng) -> float:
    """max |W_t' R^T - W_t| over max |W_t| after 20 steps with inputs x R, from W_0 R."""
    rotation, _ = np.linalg.qr(rng.normal(size=(6, 6)))
    start, inputs, target = rng.normal(size=(5, 6)), rng.normal(size=(20, 7, 6)), rng.normal(size=(7, 5))

    def trained(r):
        w = eg.tensor(start @ r)
        optimizer = eg.optim.make_optimizer(rule, [w])
        for x in inputs:
            with eg.Tape() as tape:
                error = eg.ops.gelu(eg.ops.linear(eg.tensor(x @ r), w)) - eg.tensor(target)
                loss = (error * error).mean()
            optimizer.step([tape.gradient(loss, w)], 0.01)
        return np.array(w) @ r.T

    return apart(trained(rotation), trained(np.eye(6)))
