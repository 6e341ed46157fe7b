# %% [markdown]
# # 6. The thief: attacks on the scheme
#
# Papers propose to hide data and models from a cloud by permuting features. The number of keys is huge. This notebook
# breaks it in a few lines, and says what exactly remains hidden. Nothing here is encryption.
#
# You need: notebook 2. Afterwards: exercise 6.

# %%
import time

import numpy as np

import equigrad as eg
from draw import curves, matrices

rng = np.random.default_rng(6)
config = eg.nn.BlockConfig(dim=64, heads=4, mlp=128)
block = eg.nn.Block(config, key=1)
block.to("f64")
public = {
    name: rng.normal(1.0 if "norm" in name and "weight" in name else 0.0, 0.3, x.shape)
    for name, x in block.state_dict().items()
}


def hidden_by(state, seed):
    """The weights as the cloud gets them, and the secret permutations by group."""
    key = eg.permute.BlocksKey.random(config, 1, "decoupled", seed)
    permutations = key.permutations(config)
    moved = eg.permute.transform({n: eg.tensor(x) for n, x in state.items()}, eg.permute.block_axes(), permutations)
    return {n: np.array(x) for n, x in moved.items()}, {n: np.array(p.gather) for n, p in permutations.items()}


stolen, secret = hidden_by(public, seed=9)
print(f"keys: 2^{eg.permute.key_space_log2(config, 1, 'decoupled'):.0f}")

# %% [markdown]
# ## Attack 1: sort the gains
#
# The gain of a norm is a vector of 64 different numbers. The cloud sees it permuted, and everybody knows it plain. Sort both.

# %%
start = time.perf_counter()
found = np.empty(64, dtype=int)
found[np.argsort(stolen["norm1.weight"])] = np.argsort(public["norm1.weight"])
print(f"P_C: {np.mean(found == secret['residual']):.0%} in {1e6 * (time.perf_counter() - start):.0f} microseconds")
assert np.array_equal(found, secret["residual"])

# %% [markdown]
# ## Attack 2: match columns
#
# After random initialisation all gains are one. Then take a matrix. Column $j$ of $W_1$ belongs to feature $j$; its rows are in a secret order
# as well. Sorting every column removes that order, and the sorted columns are compared.


# %%
def columns(state):
    return np.sort(state["mlp.fc1.weight"], axis=0).T


def match(theirs, ours):
    return np.square(theirs[:, None, :] - ours[None, :, :]).sum(axis=2).argmin(axis=1)


by_columns = match(columns(stolen), columns(public))
print(f"P_C: {np.mean(by_columns == secret['residual']):.0%}")
assert np.array_equal(by_columns, secret["residual"])

# With P_C known, the hidden units are rows in plain sight.
hidden = match(stolen["mlp.fc1.weight"], public["mlp.fc1.weight"][:, by_columns])
print(f"hidden units: {np.mean(hidden == secret['blocks.0.hidden']):.0%}")
assert np.array_equal(hidden, secret["blocks.0.hidden"])
matrices({"public W_1": public["mlp.fc1.weight"][:24, :24], "stolen": stolen["mlp.fc1.weight"][:24, :24]})

# %% [markdown]
# ## How much tuning protects?
#
# The owner tunes the published model before hiding it. Every entry changes by a share of its tensor's deviation. Sorting single numbers
# fails early. Matching whole columns does not.

# %%
shares, gains, by_column = [0.0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0], [], []
for share in shares:
    right = []
    for seed in range(5):
        tuned = {n: x + share * x.std() * rng.normal(size=x.shape) for n, x in public.items()}
        seen, truth = hidden_by(tuned, seed + 20)
        guess = np.empty(64, dtype=int)
        guess[np.argsort(seen["norm1.weight"])] = np.argsort(public["norm1.weight"])
        right.append(
            [np.mean(guess == truth["residual"]), np.mean(match(columns(seen), columns(public)) == truth["residual"])]
        )
    gain_share, column_share = np.mean(right, axis=0)
    gains.append(float(gain_share))
    by_column.append(float(column_share))
    print(f"tuned by {share:4.0%}: gains {gains[-1]:4.0%}, columns {by_column[-1]:4.0%}")
curves({"sorted gains": gains, "sorted columns": by_column}, xlabel="amount of tuning, index into the list")
assert gains[0] == by_column[0] == 1.0 and by_column[3] > 0.95 and gains[3] < 0.7 and by_column[-1] < 0.8

# %% [markdown]
# ## Control: a thief without public weights
#
# The same attack with unrelated weights finds nothing. The scheme protects an unpublished model.

# %%
other = {name: rng.normal(size=x.shape) for name, x in public.items()}
chance = np.mean(match(columns(stolen), columns(other)) == secret["residual"])
print(f"P_C from unrelated weights: {chance:.0%}; guessing gives {1 / 64:.0%}")
assert chance < 0.2

# %% [markdown]
# ## Attack 3: one known token
#
# The cloud sees $Z P_C$. If it knows a single row of $Z$, for example the embedding of one word, it sorts again. So does a user of the service
# who may send an input.

# %%
Z = rng.normal(size=(10, 64))
row = Z[:, secret["residual"]][3]
from_a_token = np.empty(64, dtype=int)
from_a_token[np.argsort(row)] = np.argsort(Z[3])
assert np.array_equal(from_a_token, secret["residual"])
print("P_C from one known token: 100%")

# %% [markdown]
# ## What shuffled tokens hide
#
# Shuffling tokens leaves the gradient of every weight as it is (theorem 4.2, notebook 2). Whoever sees gradients sees those of the plain
# data. An attack on gradients does not notice the shuffle at all.
#
# | secret | what recovers it | what it needs |
# |---|---|---|
# | $P_C$ | sorting gains, matching columns | the plain weights, nearly |
# | $P_C$ | sorting one row | one known token |
# | $P_R$ | counting open entries of a causal mask | the mask |
# | data in gradients | gradient inversion | nothing more: the gradients are those of plain data |
#
# `docs/privacy.md` has all attacks with measured rates, and what noise costs.
#
# **Now you.** `exercises/6_thief.py`.
