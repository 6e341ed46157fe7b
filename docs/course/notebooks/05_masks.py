# %% [markdown]
# # 5. Masks and automorphisms
#
# Without a mask, attention commutes with every permutation of the tokens. With a mask only some survive: those that map
# the mask onto itself. A mask is a graph, and they are its automorphisms.
#
# You need: notebook 2. Afterwards: exercise 5.

# %%
from itertools import permutations
from math import factorial

import numpy as np

import equigrad as eg
from draw import matrices

closed = -np.inf
rng = np.random.default_rng(5)
weights = [eg.tensor(rng.normal(size=(4, 4))) for _ in range(3)]


def attention(z, mask):
    q, k, v = (eg.ops.linear(eg.tensor(z), w) for w in weights)
    return np.asarray(eg.ops.softmax(q @ k.T * 0.5 + eg.tensor(mask)) @ v)


def brute_force(mask):
    """All p with f(Z[p]) = f(Z)[p], found by trying attention itself."""
    z = rng.normal(size=(len(mask), 4))
    y = attention(z, mask)
    return [
        p
        for p in permutations(range(len(mask)))
        if np.abs(attention(z[list(p)].copy(), mask) - y[list(p)]).max() < 1e-10
    ]


# %% [markdown]
# ## Six masks of six tokens
#
# Entry $M_{ij}$ is 0 where token $i$ sees token $j$, minus infinity where it does not.

# %%
n = 6
i, j = np.indices((n, n))
masks = {
    "none": np.zeros((n, n)),
    "causal": np.where(j <= i, 0.0, closed),
    "padding": np.where(j < 4, 0.0, closed),
    "windows": np.where(i // 3 == j // 3, 0.0, closed),
    "sliding": np.where(abs(i - j) <= 1, 0.0, closed),
    "ring": np.where(np.minimum((i - j) % n, (j - i) % n) <= 1, 0.0, closed),
}
matrices({name: np.isfinite(mask) for name, mask in masks.items()})
expected = {
    "none": factorial(6),
    "causal": 1,
    "padding": factorial(4) * factorial(2),
    "windows": factorial(3) ** 2 * 2,
    "sliding": 2,
    "ring": 12,
}
for name, mask in masks.items():
    group = eg.permute.automorphisms(mask)
    tried = len(brute_force(mask))
    print(f"{name:8} order {group.order:4}, by attention {tried:4}, orbits {group.orbits()}")
    assert group.order == tried == expected[name]

# %% [markdown]
# - *causal*: token $i$ sees $i + 1$ tokens. All rows differ, so only the identity is left.
# - *padding*: valid tokens among themselves, padding among itself.
# - *windows*: within each window, and the windows as wholes: $S_3 \wr S_2$.
# - *sliding*: the reflection. *ring*: rotations and reflections, the dihedral group.
#
# The search tries all $6! = 720$ orders. `eg.permute.automorphisms` needs no search through $n!$ orders, so it goes further:

# %%
big = 64
a, b = np.indices((big, big))
ring = np.where(np.minimum((a - b) % big, (b - a) % big) <= 3, 0.0, closed)
group = eg.permute.automorphisms(ring)
print(group, "order", group.order, "generators", [g.gather[:6] + ["..."] for g in group.generators])
assert group.order == 2 * big

# %% [markdown]
# ## What softmax does not see
#
# Softmax does not change when a number is added to a whole row. So masks that look different act alike. First subtract every
# row's maximum: `softmax_form`.

# %%
shifted = np.repeat(np.arange(4.0)[:, None], 4, axis=1)  # row i holds i: no effect on attention at all
plain, seen = eg.permute.automorphisms(shifted), eg.permute.automorphisms(eg.permute.softmax_form(shifted))
print(
    "of the matrix:", plain.order, "  of what softmax sees:", seen.order, "  by attention:", len(brute_force(shifted))
)
assert plain.order == 1 and seen.order == len(brute_force(shifted)) == 24

# %% [markdown]
# ## Finite entries
#
# A bias such as $-|i - j|$ (as in ALiBi) is a mask too. Its entries are colours of the graph's edges.

# %%
alibi = -np.abs(i - j) * 0.5
group = eg.permute.automorphisms(eg.permute.softmax_form(alibi))
print("order", group.order, [g.gather for g in group.generators])
assert group.order == len(brute_force(alibi)) == 2

# %% [markdown]
# ## Where symmetry leaks
#
# A permuted causal mask $P_R M P_R^\top$ tells which row is which: row $k$ sees $r(k) + 1$ tokens. Someone who sees the mask reads the
# permutation off.

# %%
r = rng.permutation(n)
observed = masks["causal"][np.ix_(r, r)]
read_off = np.isfinite(observed).sum(axis=1) - 1
print("secret", r, " read off", read_off)
assert np.array_equal(read_off, r)

# %% [markdown]
# **Now you.** `exercises/5_masks.py`. The last two masks above show what has to be compared.
