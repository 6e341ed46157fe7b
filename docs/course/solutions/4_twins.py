"""Solution 4. Permutations are orthogonal and act element by element, so every rule follows them; rotations are orthogonal
alone, so a rule must treat a matrix as one to follow them."""

import equigrad as eg


def step(model, optimizer, x, labels, rate) -> float:
    with eg.Tape() as tape:
        loss = eg.ops.cross_entropy(model(x), labels)
    optimizer.step(tape.gradient(loss, model.parameters()), rate)
    return loss.item()


def train_twins(
    model: eg.nn.Module,
    twin: eg.nn.Module,
    element: eg.permute.SymmetryElement,
    batches: list[tuple[eg.Tensor, eg.Tensor]],
    rule: str,
    rate: float,
) -> list[tuple[float, float]]:
    twin.load_state_dict(element.move_state(model.state_dict()))
    ours, theirs = (eg.optim.make_optimizer(rule, m.parameters()) for m in (model, twin))
    return [
        (step(model, ours, x, labels, rate), step(twin, theirs, element.move("x", x), labels, rate))
        for x, labels in batches
    ]


def rules_that_follow_rotations() -> set[str]:
    return {"sgd", "momentum", "muon"}
