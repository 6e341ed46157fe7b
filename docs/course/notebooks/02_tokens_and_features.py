# %% [markdown]
# # 2. Tokens and features
#
# A block of a transformer takes a matrix $Z$: one row for each token, one column for each feature. What happens when we
# shuffle its rows, or its columns?
#
# You need: attention, layer norm. Afterwards: exercises 2 (heads) and 3 (a block by hand).

# %%
import numpy as np

import equigrad as eg
from draw import matrices

block = eg.nn.Block(eg.nn.BlockConfig(dim=12, heads=3, mlp=20), key=1)
block.to("f64")
rng = np.random.default_rng(0)
block.load_state_dict({name: eg.tensor(rng.normal(0.1, 0.4, x.shape)) for name, x in block.state_dict().items()})
Z = eg.tensor(rng.normal(size=(1, 6, 12)))  # one sample, 6 tokens, 12 features

# %% [markdown]
# ## Rows
#
# A permutation is stored as a gather: $(P_R Z)[i, :] = Z[r[i], :]$. Claim: $f(P_R Z) = P_R f(Z)$. Linear layers, norms and the MLP
# treat every row alike. In attention the scores $S$ move to $P_R S P_R^\top$, and softmax along a row follows.

# %%
P_R = eg.permute.Permutation([3, 0, 5, 1, 2, 4])
left, right = block(P_R.rows(Z)), P_R.rows(block(Z))
print("f(P_R Z) against P_R f(Z):", eg.relative_error(left, right))
print("control, f(P_R Z) against f(Z):", eg.relative_error(left, block(Z)))
assert eg.relative_error(left, right) < 1e-13 and eg.relative_error(left, block(Z)) > 0.1

# %%
norm = block.norm1(Z)
plain, moved = (np.asarray(block.attention.trace(z)["scores"])[0, 0] for z in (norm, P_R.rows(norm)))
matrices({"S, first head": plain, "after P_R": moved, "P_R S P_R^T": plain[np.ix_(P_R.gather, P_R.gather)]})
assert np.allclose(moved, plain[np.ix_(P_R.gather, P_R.gather)])

# %% [markdown]
# The *weights'* gradients do not change at all: $\partial l / \partial W = \sum_{tokens}$ of something, and a sum has no order. (The loss must see
# the tokens in the old order, so the output is shuffled back.)


# %%
def weight_gradients(f):
    with eg.Tape() as tape:
        loss = (f() ** 3.0).mean()
    return tape.gradient(loss, block.parameters())


before = weight_gradients(lambda: block(Z) * eg.tensor(np.arange(6.0)[:, None]))
after = weight_gradients(lambda: P_R.inverse().rows(block(P_R.rows(Z))) * eg.tensor(np.arange(6.0)[:, None]))
forgot = weight_gradients(lambda: block(P_R.rows(Z)) * eg.tensor(np.arange(6.0)[:, None]))
largest = max(np.abs(np.asarray(g)).max() for g in before)
apart = [
    max(np.abs(np.asarray(a) - np.asarray(b)).max() for a, b in zip(before, other)) / largest
    for other in (after, forgot)
]
print("gradients of all weights apart by", apart[0], "and, without shuffling back,", apart[1])
assert apart[0] < 1e-13 < apart[1]

# %% [markdown]
# ## Columns
#
# Now shuffle the features: $Z P_C$. The weights know which feature is which, so the output breaks.

# %%
key = eg.permute.BlocksKey.random(block.config, 1, "decoupled", 5)
P_C = key.residual
print("f(Z P_C) against f(Z) P_C:", eg.relative_error(block(P_C.columns(Z)), P_C.columns(block(Z))))
assert eg.relative_error(block(P_C.columns(Z)), P_C.columns(block(Z))) > 0.1

# %% [markdown]
# Move the weights along: $W_{(P)} = P_{out}^\top W P_{in}$, that is $W_{(P)}[i, j] = W[out[i], in[j]]$. Every axis of every weight has the
# permutation of the features on that side.

# %%
axes, permutations = eg.permute.block_axes(), key.permutations(block.config)
for axis in axes:
    print(axis)
moved_block = eg.nn.Block(block.config, key=1)
moved_block.to("f64")
moved_block.load_state_dict(eg.permute.transform(block.state_dict(), axes, permutations))
healed = eg.relative_error(moved_block(P_C.columns(Z)), P_C.columns(block(Z)))
print("f_(P)(Z P_C) against f(Z) P_C:", healed)
assert healed < 1e-13

# %%
matrices({"W_1": block.mlp.fc1.weight, "moved": moved_block.mlp.fc1.weight})

# %% [markdown]
# ## Heads
#
# The paper ties all permutations of the attention: $W' = P^\top W P$ with one $P$. That $P$ then acts on the axis that is cut into
# heads. It must move whole heads, and elements within heads. A group of $768!$ elements shrinks to $(64!)^{12} \cdot 12!$.

# %%
width = eg.nn.BlockConfig(dim=768, heads=12)
for form in ("paper", "tied", "residual"):
    print(f"{form:10} 2^{eg.permute.key_space_log2(width, 1, form):.0f} keys for one layer of ViT-Base's width")
assert eg.permute.key_space_log2(width, 1, "paper") < eg.permute.key_space_log2(width, 1, "tied")

# %% [markdown]
# ## All of it at once
#
# The library finds the whole group from one forward pass, and tries every generator, forward and backward.

# %%
symmetries = eg.permute.symmetries(block, {"x": Z})
print(symmetries)
print(symmetries.certify())

# %% [markdown]
# **Now you.** `exercises/2_heads.py` and `exercises/3_block.py`.
