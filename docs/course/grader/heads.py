"""Exercise 2: keeps_heads against what attention does, and the swap that breaks it."""

import equigrad as eg
import numpy as np

from . import apart, arrays, expect, keeping_heads, key, permutation_of, shuffled, with_state

SIZES = [(6, 2), (6, 3), (12, 3), (8, 2), (4, 4), (5, 1), (12, 4)]


def attention_error(dim: int, heads: int, p: list[int], rng) -> float:
    """max |f'(Z P) - f(Z) P| over max |f(Z)| with W' = P^T W P, random weights and tokens, in f64."""
    attention = eg.nn.MultiHeadAttention(dim, heads, dim // heads, key=key(rng))
    attention.to("f64")
    state = {name: rng.normal(size=np.shape(x)) for name, x in arrays(attention.state_dict()).items()}
    rows = [*p, *(dim + i for i in p), *(2 * dim + i for i in p)]
    moved = {
        "qkv.weight": state["qkv.weight"][np.ix_(rows, p)],
        "qkv.bias": state["qkv.bias"][rows],
        "proj.weight": state["proj.weight"][np.ix_(p, p)],
        "proj.bias": state["proj.bias"][p],
    }
    z = rng.normal(size=(1, 5, dim))
    plain = np.asarray(with_state(attention, state)(eg.tensor(z)))
    return apart(np.asarray(with_state(attention, moved)(eg.tensor(z[..., p].copy()))), plain[..., p])


def candidates(dim: int, heads: int, rng):
    """Permutations near the border: valid ones, each with one exchange more, and any."""
    size = dim // heads
    for _ in range(3):
        p = keeping_heads(dim, heads, rng)
        yield p
        i, j = (int(k) for k in rng.choice(dim, 2, replace=False))
        p = list(p)
        p[i], p[j] = p[j], p[i]
        yield p
    yield shuffled(dim, rng)
    yield [(i + size) % dim for i in range(dim)]  # whole heads, in a ring
    yield [(i + 1) % dim for i in range(dim)]  # every head loses an element


def check(work, rng) -> str:
    count = 0
    for dim, heads in SIZES:
        for p in candidates(dim, heads, rng):
            error = attention_error(dim, heads, p, rng)
            claim = work.keeps_heads(list(p), heads)
            expect(claim in (True, False), f"keeps_heads gives {claim!r}; give True or False")
            if error < 1e-10:
                hint = "whole heads may change places, and elements within a head, differently in each head"
            else:
                hint = "some head's elements end in two heads"
            expect(
                bool(claim) == (error < 1e-10),
                f"{heads} heads, p = {p}: you say {bool(claim)}, and f'(Z P) differs from f(Z) P by {error:.1e}; {hint}",
            )
            count += 1
        swap_breaks(work, dim, heads, rng)
    return f"{count} permutations judged as attention does; the swaps break it"


def swap_breaks(work, dim: int, heads: int, rng) -> None:
    swap = work.breaking_swap(dim, heads)
    where = f"breaking_swap({dim}, {heads})"
    if heads == 1 or heads == dim:
        why = "there is one head" if heads == 1 else "every head has one element"
        expect(swap is None, f"{where} gives {swap}, but {why}, so that every permutation is valid: give None")
        return
    expect(swap is not None, f"{where} gives None, and there are permutations that break attention")
    i, j = swap
    p = list(range(dim))
    p[i], p[j] = p[j], p[i]
    permutation_of(p, dim, where)
    expect(i != j, f"{where} exchanges feature {i} with itself: the identity breaks nothing")
    error = attention_error(dim, heads, p, rng)
    expect(error > 1e-6, f"{where}: exchanging {i} and {j} breaks nothing (error {error:.1e}): both are in one head")
