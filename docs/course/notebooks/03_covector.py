# %% [markdown]
# # 3. The covector lemma
#
# Weights move by $W' = A W B$. How does the gradient move? One computation answers it for permutations, rotations,
# scalings and everything else.
#
# You need: notebook 1. Afterwards you can derive every gradient theorem of the paper in a line.

# %% [markdown]
# ## The lemma
#
# Let $L'(W') = L(A^{-1} W' B^{-1})$: the moved model computes the old loss. A small change of the weights changes the loss by
# $dL = \langle G, dW \rangle$, which defines the gradient $G$. In the new weights $dW = A^{-1} dW' B^{-1}$, so
#
# $$dL = \langle G, A^{-1} dW' B^{-1} \rangle = \langle A^{-\top} G B^{-\top}, dW' \rangle.$$
#
# The gradient by $W'$ is what stands beside $dW'$: $G' = A^{-\top} G B^{-\top}$. A gradient is a *covector*: it moves by the inverse
# transpose. For permutations and rotations $A^{-\top} = A$, so it moves as the weight does. For a scaling it moves the other way.

# %%
import numpy as np

import equigrad as eg
from draw import matrices

rng = np.random.default_rng(3)
W, X = rng.normal(size=(5, 4)), rng.normal(size=(7, 4))


def gradient(w, x, back):
    """dL/dW of L = mean(gelu(x W^T back)^3): `back` undoes what happened to the output."""
    w = eg.tensor(w)
    with eg.Tape() as tape:
        loss = (eg.ops.gelu(eg.ops.linear(eg.tensor(x), w) @ eg.tensor(back)) ** 3.0).mean()
    return np.array(tape.gradient(loss, w))


maps = {
    "permutation": (np.eye(5)[rng.permutation(5)], np.eye(4)[rng.permutation(4)]),
    "rotation": (np.linalg.qr(rng.normal(size=(5, 5)))[0], np.linalg.qr(rng.normal(size=(4, 4)))[0]),
    "scaling": (np.diag(np.exp(rng.normal(size=5))), np.diag(np.exp(rng.normal(size=4)))),
    "any invertible": (rng.normal(size=(5, 5)) + 3 * np.eye(5), rng.normal(size=(4, 4)) + 3 * np.eye(4)),
}
G = gradient(W, X, np.eye(5))
for name, (A, B) in maps.items():
    # W' = A W B on inputs X B^-T gives outputs X W^T A^T; A^-T undoes it.
    moved = gradient(A @ W @ B, X @ np.linalg.inv(B).T, np.linalg.inv(A).T)
    covector, as_weight = np.linalg.inv(A).T @ G @ np.linalg.inv(B).T, A @ G @ B
    errors = [np.abs(moved - x).max() / np.abs(moved).max() for x in (covector, as_weight)]
    print(f"{name:15} as a covector: {errors[0]:.1e}   as the weight: {errors[1]:.1e}")
    assert errors[0] < 1e-10
    assert (errors[1] < 1e-10) == (name in ("permutation", "rotation"))

# %%
A, B = maps["scaling"]
moved = gradient(A @ W @ B, X @ np.linalg.inv(B).T, np.linalg.inv(A).T)
matrices({"G": G, "G'": moved, "A^-T G B^-T": np.linalg.inv(A).T @ G @ np.linalg.inv(B).T, "A G B": A @ G @ B})

# %% [markdown]
# ## Corollary: theorem 4.5
#
# Permutations: $A = P_{out}^\top$ and $B = P_{in}$. So gradients move as weights do, $\partial l/\partial W_{(P)} = P_{out}^\top (\partial l / \partial W) P_{in}$. We check it on a
# block, all weights at once.

# %%
block = eg.nn.Block(eg.nn.BlockConfig(dim=12, heads=3, mlp=20), key=1)
block.to("f64")
block.load_state_dict({name: eg.tensor(rng.normal(0.1, 0.4, x.shape)) for name, x in block.state_dict().items()})
key = eg.permute.BlocksKey.random(block.config, 1, "decoupled", 2)
axes, permutations = eg.permute.block_axes(), key.permutations(block.config)
moved_block = eg.nn.Block(block.config, key=1)
moved_block.to("f64")
moved_block.load_state_dict(eg.permute.transform(block.state_dict(), axes, permutations))
Z, T = (eg.tensor(rng.normal(size=(2, 6, 12))) for _ in range(2))


def block_gradients(module, z, target):
    with eg.Tape() as tape:
        difference = module(z) - target
        loss = (difference * difference).mean()
    return dict(zip((name for name, _ in module.named_parameters()), tape.gradient(loss, module.parameters())))


plain = block_gradients(block, Z, T)
found = block_gradients(moved_block, key.apply_columns(Z), key.apply_columns(T))
expected = eg.permute.transform(plain, axes, permutations)
largest = max(np.abs(np.asarray(g)).max() for g in plain.values())
for name in plain:
    error = np.abs(np.asarray(found[name]) - np.asarray(expected[name])).max() / largest
    control = np.abs(np.asarray(found[name]) - np.asarray(plain[name])).max() / largest
    print(f"{name:24} moved: {error:.1e}   as it was: {control:.1e}")
    assert error < 1e-13 < control

# %% [markdown]
# ## A map that is no rotation
#
# SwiGLU computes $W_2 (\mathrm{silu}(W_1 x) \odot W_3 x)$. Scale row $k$ of $W_3$ by $s_k$ and column $k$ of $W_2$ by $1/s_k$: the same function. The gradient
# of $W_3$ is divided by $s_k$. A weight that grows has a gradient that shrinks, so training with SGD is *not* the same.

# %%
w1, w2, w3, x = rng.normal(size=(8, 4)), rng.normal(size=(4, 8)), rng.normal(size=(8, 4)), rng.normal(size=(6, 4))
s = np.exp(rng.normal(size=(8, 1)))


def swiglu(up, down):
    up, down = eg.tensor(up), eg.tensor(down)
    with eg.Tape() as tape:
        hidden = eg.ops.silu(eg.ops.linear(eg.tensor(x), eg.tensor(w1))) * eg.ops.linear(eg.tensor(x), up)
        y = eg.ops.linear(hidden, down)
        loss = (y**3.0).mean()
    return np.array(y), np.array(tape.gradient(loss, up))


(y, g), (y_scaled, g_scaled) = swiglu(w3, w2), swiglu(w3 * s, w2 / s.T)
print(
    "same outputs:",
    np.abs(y - y_scaled).max(),
    "  gradient / s:",
    np.abs(g_scaled - g / s).max(),
    "  gradient * s:",
    np.abs(g_scaled - g * s).max(),
)
assert np.allclose(y, y_scaled) and np.allclose(g_scaled, g / s) and not np.allclose(g_scaled, g * s)

# %% [markdown]
# **Think.** Which of the four maps above leave SGD's step $W - \eta G$ equivariant? (Compare how $W$ and $G$ move.) Notebook 4 trains and
# measures it.
