# %% [markdown]
# # 4. Twins and optimisers
#
# If the gradients move as the weights do, then so does a step of an optimiser that treats all entries alike, and so does a
# whole training. A *twin* is a model that starts from moved weights and sees moved inputs.
#
# You need: notebook 3. Afterwards: exercise 4.

# %%
import numpy as np

import equigrad as eg
from draw import curves


class Net(eg.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1, self.fc2 = eg.nn.Linear(2, 32, key=1), eg.nn.Linear(32, 3, key=2)

    def forward(self, x):
        return self.fc2(eg.ops.gelu(self.fc1(x)))


# Three arms of a spiral: 2 numbers in, 3 classes out.
rng = np.random.default_rng(1)
labels = rng.integers(0, 3, 600)
radius = rng.uniform(0.1, 1.0, 600)
angle = 2 * np.pi * labels / 3 + 4 * radius + rng.normal(0, 0.15, 600)
points = 2.0 * radius[:, None] * np.stack([np.cos(angle), np.sin(angle)], axis=1)


def train(model, rule="adamw", rate=0.01, steps=300, move=lambda x: x, dtype="f64"):
    optimizer, losses, history = eg.optim.make_optimizer(rule, model.parameters()), [], []
    for step in range(steps):
        pick = np.random.default_rng(step).integers(0, len(labels), 64)
        x = move(eg.tensor(points[pick]).to(dtype))
        with eg.Tape() as tape:
            loss = eg.ops.cross_entropy(model(x), eg.tensor(labels[pick]))
        optimizer.step(tape.gradient(loss, model.parameters()), rate)
        losses.append(loss.item())
        history.append({name: np.array(value) for name, value in model.state_dict().items()})
    return losses, history


def fresh(dtype="f64"):
    model = Net()
    model.to(dtype)
    return model


# %% [markdown]
# ## A twin with a permuted hidden layer
#
# The model's group has the 32 hidden units in it, and the two inputs. We take an element that moves both.

# %%
symmetries = eg.permute.symmetries(fresh(), {"x": eg.tensor(points[:5])})
print(symmetries)
inside = [g.name for g in symmetries.groups if g.is_secret and all(use.tensor != "output" for use in g.axes)]
element = symmetries.element(7, inside)

# %%
model, twin, stranger = fresh(), fresh(), fresh()
twin.load_state_dict(element.move_state(model.state_dict()))
losses, history = train(model)
twin_losses, twin_history = train(twin, move=lambda x: element.move("x", x))
stranger_losses, stranger_history = train(
    stranger, move=lambda x: element.move("x", x)
)  # control: weights did not move


def drift(ours, theirs, move):
    """The largest difference of any weight after moving ours, over the largest weight, for each step."""
    return [
        max(np.abs(np.asarray(move(name, eg.tensor(a[name]))) - b[name]).max() for name in a)
        / max(np.abs(x).max() for x in a.values())
        for a, b in zip(ours, theirs)
    ]


together, apart = drift(history, twin_history, element.move), drift(history, stranger_history, element.move)
curves({"model": losses, "twin": twin_losses, "unmoved weights": stranger_losses})
curves({"drift of the twin": [d + 1e-18 for d in together], "of unmoved weights": apart}, log=True)
print("loss", losses[0], "->", np.mean(losses[-20:]), "  drift", max(together), "  control", min(apart))
assert np.mean(losses[-20:]) < 0.5 * losses[0] and max(together) < 1e-10 and min(apart) > 1e-3

# %% [markdown]
# ## In f32, and in exact mode
#
# Permuted sums add the same numbers in another order, so rounding differs. In f32 the difference is about $10^{-7}$ at first, and training can
# amplify it. `eg.exact()` makes sums whose result does not depend on the order: then every bit is the same.

# %%
f32, f32_twin, bits, bits_twin = (fresh("f32") for _ in range(4))
for m in (f32_twin, bits_twin):
    m.load_state_dict(element.move_state(f32.state_dict()))
steps = 60
_, h = train(f32, steps=steps, dtype="f32")
_, h_twin = train(f32_twin, steps=steps, dtype="f32", move=lambda x: element.move("x", x))
with eg.exact():
    _, h_bits = train(bits, steps=steps, dtype="f32")
    _, h_bits_twin = train(bits_twin, steps=steps, dtype="f32", move=lambda x: element.move("x", x))
print("f32:", max(drift(h, h_twin, element.move)), "  f32, exact sums:", max(drift(h_bits, h_bits_twin, element.move)))
assert max(drift(h_bits, h_bits_twin, element.move)) == 0.0 < max(drift(h, h_twin, element.move)) < 1e-2

# %% [markdown]
# ## A rotation instead
#
# Turn the inputs by an orthogonal $R$, and start from $W_1 R$. Gradients still move as weights (lemma of notebook 3). SGD and
# momentum are linear in the gradient, so they follow. Adam divides every *entry* by its own size, and a rotation mixes
# entries. A training has the symmetries that architecture and optimiser share.

# %%
R = np.linalg.qr(rng.normal(size=(2, 2)))[0]
turned = {}
for rule, rate in {"sgd": 0.1, "momentum": 0.02, "muon": 0.02, "adam": 0.01, "rmsprop": 0.003, "lion": 0.002}.items():
    model, twin = fresh(), fresh()
    state = twin.state_dict()
    twin.load_state_dict({**state, "fc1.weight": eg.tensor(np.array(state["fc1.weight"]) @ R)})
    _, ours = train(model, rule, rate, steps=150)
    _, theirs = train(twin, rule, rate, steps=150, move=lambda x: x @ eg.tensor(R))
    back = [{**state, "fc1.weight": state["fc1.weight"] @ R.T} for state in theirs]
    turned[rule] = [d + 1e-18 for d in drift(ours, back, lambda name, x: x)]
    print(f"{rule:10} drift after {len(ours)} steps: {turned[rule][-1]:.1e}")
    assert (turned[rule][-1] < 1e-9) == (rule in ("sgd", "momentum", "muon"))
curves(turned, log=True)

# %% [markdown]
# Muon orthogonalises the whole matrix of an update, $p(R^\top M) = R^\top p(M)$, so it follows rotations as well.
#
# **Now you.** `exercises/4_twins.py`. In its second part, predict before you run.
