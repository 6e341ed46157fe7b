# The mean cross-entropy of rows of logits and its gradient, by plain loops and by the library.

import math

import numpy as np
from equigrad import ops
from page import check, fails, holds, library, normal, show, verdict


def forward(x, labels):
    """The mean of -log softmax(x)_label, that of each row, and softmax(x) for the backward pass."""
    losses, p = np.zeros(len(x)), np.zeros_like(x)
    for i, (row, label) in enumerate(zip(x, labels)):
        largest = max(row)
        total = sum(math.exp(value - largest) for value in row)
        for j, value in enumerate(row):
            p[i, j] = math.exp(value - largest) / total
        losses[i] = largest + math.log(total) - row[label]
    return sum(losses) / len(x), losses, p


def backward(p, labels, g):
    """(p - onehot(label)) times what one row's loss weighs in the mean."""
    gx = np.zeros_like(p)
    for i in range(len(p)):
        for j in range(p.shape[1]):
            gx[i, j] = g / len(p) * (p[i, j] - (j == labels[i]))
    return gx


def cross_entropy(x, labels, g):
    loss, gradients = library(lambda logits: ops.cross_entropy(logits, labels), [x], g)
    return loss, gradients[0]


x, labels = np.array([[0, math.log(2), math.log(5)], [1, 1, 1]]), [2, 0]
loss, losses, p = forward(x, labels)
gx = backward(p, labels, 1)
for name, value in {"logits": x, "p": p, "losses": losses, "loss": loss, "glogits": gx}.items():
    show(name, value)

small = cross_entropy(x, labels, 1)
holds("loss", loss, small[0])
holds("glogits", gx, small[1])
a, truth = normal(5, 7), [3, 0, 6, 6, 1]
loss_a, _, pa = forward(a, truth)
large = cross_entropy(a, truth, 0.7)
holds("loss of 5 rows", loss_a, large[0])
holds("glogits of 5 rows", backward(pa, truth, 0.7), large[1])
fails("glogits = p / 5, without the labels", backward(pa, [None] * 5, 0.7), large[1])

# Column j of the permuted logits is column order[j]: class c is now where order has c.
order, relabelled = [2, 0, 1], [0, 1]
moved = cross_entropy(x[:, order], relabelled, 1)
holds("loss of permuted classes, labels with them", moved[0], small[0])
holds("glogits of permuted classes", moved[1], gx[:, order])
fails("loss of permuted classes, labels as they were", cross_entropy(x[:, order], labels, 1)[0], small[0])

sure_loss, _, sure_p = forward(np.array([[1000.0, 0]]), [1])
show("loss of logits 1000 and 0 for the second class", sure_loss)
show("glogits of these", backward(sure_p, [1], 1))
with np.errstate(all="ignore"):
    plain = np.log(np.exp(0.0) / (np.exp(1000.0) + np.exp(0.0)))
check("log(exp(0) / (exp(1000) + exp(0))) is not finite", not math.isfinite(plain))
show("loss of 3 equal logits, log 3", forward(np.zeros((1, 3)), [0])[0])
verdict()
