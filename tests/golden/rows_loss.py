"""Losses."""

import math

import numpy as np
import torch
import torch.nn.functional as nn

from cases import F, I, SHAPES, V, layouts, row
from rows_math import unary, with_cotangent

REDUCTIONS = ("mean", "sum", "none")
LABELLED = [(3, 5), (5, 3), (2, 3, 4), (1, 7), (7, 2), (1, 1), (4, 6), (2, 2, 2, 2), (9, 1), (13, 2), (3, 7), (2, 5, 2), (6, 3), (1, 13), (2, 9), (4, 4), (3, 2), (8, 2), (2, 1, 5), (5,), (1, 3, 4), (2, 3)]
lay = layouts("losses")


def flat(x, labels):
    return x.reshape(-1, x.shape[-1]), labels.reshape(-1)


def reduced_like(y, labels, a):
    return y.reshape(labels.shape) if a.get("reduction", "mean") == "none" else y


def counted(a, labels):
    return labels != a.get("ignore_index", -100)


def cross_entropy(a, x, labels):
    y = nn.cross_entropy(*flat(x, labels), label_smoothing=a.get("label_smoothing", 0.0), ignore_index=a.get("ignore_index", -100), reduction=a.get("reduction", "mean"))
    largest = first_largest(x)
    return reduced_like(y, labels, a), largest * counted(a, labels), torch.logsumexp(x - largest.unsqueeze(-1), -1) * counted(a, labels)


def first_largest(x):
    """The largest logit of each row; of equal ones the first has the gradient."""
    place = torch.from_numpy(np.asarray(np.argmax(x.detach().numpy(), axis=-1)))
    return torch.gather(x, -1, place.unsqueeze(-1)).squeeze(-1)


def cross_entropy_backward(a, x, labels, largest, log_total, g, dlog=None):
    """The formula of the row with largest and log_total as inputs of their own; held to autograd below where it fits."""
    s, classes, keep = a.get("label_smoothing", 0.0), x.shape[-1], counted(a, labels)
    target = nn.one_hot(torch.where(keep, labels, torch.zeros_like(labels)), classes).to(torch.float64) * (1 - s) + s / classes
    weight = keep.to(torch.float64) * g / (keep.sum() if a.get("reduction", "mean") == "mean" else 1)
    p = torch.exp(x - largest.unsqueeze(-1) - log_total.unsqueeze(-1))
    d = weight.unsqueeze(-1) * (p - target)
    return d if dlog is None else d + (dlog * keep).unsqueeze(-1) * p


def labels_for(s, i):
    """Labels within the classes; in every third case some are ignored, never all."""
    n = math.prod(s[:-1])
    if i % 3 != 2 or n < 2:
        return I(s[:-1], 0, s[-1], "s" if s[:-1] else "c"), {}
    return I(s[:-1], [(-1 if k % 3 == 1 else k % s[-1]) for k in range(n)]), {"ignore_index": -1}


def class_cases(inputs, attrs):
    out = []
    for i, s in enumerate(LABELLED):
        labels, ignoring = labels_for(s, i)
        a = {**attrs[i % len(attrs)], **ignoring, "reduction": REDUCTIONS[i % 3 if i % 2 else (i // 2) % 3]}
        out.append((a, inputs(i, s, a, labels)))
    return out


SMOOTH = ({}, {"label_smoothing": 0.125}, {"label_smoothing": 0.5})
row("cross_entropy", cross_entropy, class_cases(lambda i, s, a, labels: [F(s, "n", lay(s)), labels], SMOOTH)
    + [({"reduction": "none"}, [V([[2.0**100, 1.0, -5.0], [800.0, 800.0, 799.0], [-800.0, -801.0, -800.0]]), I((3,), [1, 0, 2])], "x")])
row("cross_entropy_backward", cross_entropy_backward, class_cases(lambda i, s, a, labels: [
    F(s, "n", lay(s)), labels, F(s[:-1], "p", lay(s[:-1])), F(s[:-1], "s", lay(s[:-1])), F(s[:-1] if a["reduction"] == "none" else (), "n"), F(s[:-1], "n", lay(s[:-1])) if i % 2 else None], SMOOTH))
for a in ({}, {"reduction": "sum", "label_smoothing": 0.25}, {"reduction": "none", "ignore_index": 1}):
    x = torch.randn(4, 5, dtype=torch.float64, requires_grad=True)
    labels = torch.tensor([0, 1, 4, 1])
    y, largest, log_total = cross_entropy(a, x, labels)
    g, dlog = torch.randn_like(y), torch.randn_like(log_total)
    (right,) = torch.autograd.grad([y, largest, log_total], [x], [g, dlog, dlog])
    assert torch.allclose(right, cross_entropy_backward(a, x, labels, largest, log_total, g, dlog), rtol=1e-12, atol=1e-13)


def nll(a, x, labels, weight=None):
    return reduced_like(nn.nll_loss(*flat(x, labels), weight, ignore_index=a.get("ignore_index", -100), reduction=a.get("reduction", "mean")), labels, a)


def nll_by_weight(a, x, labels, weight=None):
    """torch's nll_loss gives no gradient of the weights: written out, its values compared with torch's."""
    if weight is None:
        return nll(a, x, labels)
    keep = counted(a, labels)
    safe = torch.where(keep, labels, torch.zeros_like(labels))
    w = weight[safe] * keep
    loss = -w * torch.gather(x, -1, safe.unsqueeze(-1)).squeeze(-1)
    word = a.get("reduction", "mean")
    y = loss if word == "none" else loss.sum() if word == "sum" else loss.sum() / w.sum()
    assert torch.allclose(y, nll(a, x.detach(), labels, weight.detach()), rtol=1e-12, atol=1e-13)
    return y


row("nll_loss", nll_by_weight, class_cases(lambda i, s, a, labels: [F(s, "n", lay(s)), labels, F(s[-1:], "p", "s") if i % 3 else None], ({},)))


def soft(a, x, t, weight=None):
    """torch's cross_entropy of probabilities; it divides by the batch, which is the number of rows."""
    y = nn.cross_entropy(x.reshape(-1, x.shape[-1]), t.reshape(-1, x.shape[-1]), weight, label_smoothing=a.get("label_smoothing", 0.0), reduction=a["reduction"])
    return y.reshape(x.shape[:-1]) if a["reduction"] == "none" else y


def soft_by_weight(a, x, t, weight=None):
    """As nll_by_weight: gradients of the weights."""
    if weight is None:
        return soft(a, x, t)
    s = a.get("label_smoothing", 0.0)
    loss = -(weight * (t * (1 - s) + s / x.shape[-1]) * torch.log_softmax(x, -1)).sum(-1)
    y = loss if a["reduction"] == "none" else loss.sum() if a["reduction"] == "sum" else loss.mean()
    assert torch.allclose(y, soft(a, x.detach(), t.detach(), weight.detach()), rtol=1e-12, atol=1e-13)
    return y


row("soft_cross_entropy", soft_by_weight, [({**SMOOTH[i % 3], "reduction": REDUCTIONS[(i // 3 + i) % 3]}, [F(s, "n", lay(s)), F(s, "u", lay(s)), F(s[-1:], "p", "s") if i % 2 else None])
                                           for i, s in enumerate(LABELLED)])


def bce(a, x, t, weight=None, pos_weight=None):
    """torch gives no gradient of the target: composed, its values compared with torch's."""
    ones = torch.ones((), dtype=torch.float64)
    loss = -(ones if weight is None else weight) * ((ones if pos_weight is None else pos_weight) * t * nn.logsigmoid(x) + (1 - t) * nn.logsigmoid(-x))
    own = nn.binary_cross_entropy_with_logits(x.detach(), t.detach(), None if weight is None else weight.detach().expand(x.shape), reduction="none",
                                              pos_weight=None if pos_weight is None else pos_weight.detach())
    assert torch.allclose(loss, own, rtol=1e-12, atol=1e-13)
    return loss if a["reduction"] == "none" else loss.sum() if a["reduction"] == "sum" else loss.mean()


row("bce_with_logits", bce, [({"reduction": REDUCTIONS[i % 3]}, [F(s, "n", lay(s)), F(s, "u", lay(s)), F(s[-1:], "p") if i % 2 and s else None, F(s[-1:], "p") if i % 4 > 1 and s else None])
                             for i, s in enumerate(s for s in SHAPES + [(2, 2), (3, 3)] if 0 not in s)])

# --- of pairs ---


def pairs(name, f, draws=("n", "o"), attrs=({},), reductions=REDUCTIONS):
    row(name, f, [({**attrs[i % len(attrs)], "reduction": reductions[i % len(reductions)]}, [F(s, draws[0], lay(s, False)), F(s, draws[1], lay(s, False))])
                  for i, s in enumerate(s for s in SHAPES + [(2, 2), (3, 3)] if 0 not in s)])


pairs("mse_loss", lambda a, x, t: nn.mse_loss(x, t, reduction=a["reduction"]))
pairs("l1_loss", lambda a, x, t: nn.l1_loss(x, t, reduction=a["reduction"]), ("n", "o"))
pairs("smooth_l1_loss", lambda a, x, t: nn.smooth_l1_loss(x, t, reduction=a["reduction"], beta=a.get("beta", 1.0)), ("p", "o"), ({}, {"beta": 0.3}, {"beta": 2.0 + 1 / 128}))
pairs("huber_loss", lambda a, x, t: nn.huber_loss(x, t, reduction=a["reduction"], delta=a.get("delta", 1.0)), ("p", "o"), ({}, {"delta": 0.3}, {"delta": 2.0 + 1 / 128}))


def kl_div(a, x, t):
    return nn.kl_div(x, t, reduction=a["reduction"], log_target=a.get("log_target", False))


row("kl_div", kl_div, [({"log_target": i % 2 == 1, "reduction": ("mean", "sum", "none", "batchmean")[i % 4]}, [F(s, "n", lay(s)), F(s, "n" if i % 2 else "p", lay(s))])
                       for i, s in enumerate(s for s in SHAPES + [(2, 2), (3, 3)] if 0 not in s and len(s))])
COSINES = [((3, 5), -1), ((3, 5), 0), ((5, 3), 1), ((2, 3, 4), 1), ((2, 3, 4), -1), ((2, 3, 4), 0), ((7,), 0), ((1, 9), 1), ((9, 2), 0), ((2, 2, 2, 2), 2), ((4, 6), 1), ((17,), -1), ((13,), 0), ((3, 7), 1), ((2, 5, 2), 1), ((6,), 0), ((23,), 0),
           ((2, 1, 5), 2), ((3, 3), 0), ((8, 2), -2), ((2, 2), 1), ((1, 4), 1)]


def cosine(x, y, axis, eps):
    """Each norm is bounded by eps, as in later versions. 1.13 bounds their product: compared with it where no bound is reached."""
    norms = [torch.linalg.vector_norm(z, dim=axis) for z in (x, y)]
    z = (x * y).sum(axis) / (torch.clamp(norms[0], min=eps) * torch.clamp(norms[1], min=eps))
    if all((n > max(eps, eps * eps)).all() for n in norms):
        assert torch.allclose(z, torch.cosine_similarity(x, y, axis, eps), rtol=1e-12, atol=1e-13)
    return z


row("cosine_similarity", lambda a, x, y: cosine(x, y, a["axis"], a.get("eps", 1e-8)),
    [({"axis": axis, **({"eps": (0.125, 2.0, 9.0)[i // 3 % 3]} if i % 3 == 2 else {})}, [F(s, "k", lay(s)), F(s, "k", lay(s))]) for i, (s, axis) in enumerate(COSINES)])


def embedding(a, x, y, labels):
    loss = nn.cosine_embedding_loss(x.reshape(-1, x.shape[-1]), y.reshape(-1, x.shape[-1]), labels.reshape(-1), margin=a.get("margin", 0.0), reduction=a["reduction"])
    return loss.reshape(labels.shape) if a["reduction"] == "none" else loss


row("cosine_embedding_loss", embedding, [({"margin": (i % 3 - 1) * 0.25, "reduction": REDUCTIONS[i % 3 if i % 2 else i // 2 % 3]}, [F(s, "k", lay(s)), F(s, "k", lay(s)), I(s[:-1], [1 - 2 * ((k + i) % 2) for k in range(math.prod(s[:-1]))])])
                                         for i, s in enumerate([s for s in LABELLED if s[-1] > 1] + [(3, 3), (4, 2)])])

# --- their parts ---


def huber(a, x):
    return nn.smooth_l1_loss(x, torch.zeros_like(x), reduction="none", beta=a.get("beta", 1.0))


unary("huber", huber, "o", ({}, {"beta": 2.0 + 1 / 128}, {"beta": 0.3}), extremes=False)
unary("huber_slope", lambda a, x: torch.autograd.grad(huber(a, x).sum(), x, create_graph=True)[0], "o", ({}, {"beta": 2.0 + 1 / 128}, {"beta": 0.3}), extremes=False)
unary("xlogx", lambda a, x: torch.special.xlogy(x, x), "p", extremes=False)
