"""Another right solution, which the checker has to accept."""

import equigrad as eg


def run(m, xs, rule, rate):
    o = eg.optim.make_optimizer(rule, m.parameters())
    out = []
    for x, l in xs:
        with eg.Tape() as t:
            loss = eg.ops.cross_entropy(m(x), l)
        o.step(t.gradient(loss, m.parameters()), rate)
        out.append(loss)
    return out


def train_twins(model, twin, element, batches, rule, rate):
    twin.load_state_dict({n: element.move(n, x) for n, x in model.state_dict().items()})
    a = run(model, batches, rule, rate)
    b = run(twin, [(element.move("x", x), l) for x, l in batches], rule, rate)
    return list(zip(a, b))


def rules_that_follow_rotations():
    return ["muon", "momentum", "sgd"]
