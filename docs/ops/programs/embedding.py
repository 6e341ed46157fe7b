# An embedding, y = rows of a table, and its gradient, by plain loops and by the library.

import numpy as np
from equigrad import ops
from page import fails, holds, library, normal, show, verdict


def forward(table, ids):
    y = np.zeros((len(ids), table.shape[1]))
    for i, word in enumerate(ids):
        for c in range(table.shape[1]):
            y[i, c] = table[word, c]
    return y


def backward(words, ids, g):
    """Each row of the cotangent is added where the row of the table was read."""
    gw = np.zeros((words, g.shape[1]))
    for i, word in enumerate(ids):
        for c in range(g.shape[1]):
            gw[word, c] += g[i, c]
    return gw


def embedding(table, ids, g):
    y, gradients = library(lambda weight: ops.embedding(weight, ids), [table], g)
    return y, gradients[0]


table, g, ids = np.array([[1.0, 2], [3, 4], [5, 6], [7, 8]]), np.array([[1.0, 0], [0, 1], [2, 3]]), [2, 0, 2]
y, gw = forward(table, ids), backward(4, ids, g)
for name, value in {"W": table, "y": y, "g": g, "gW": gw}.items():
    show(name, value)

small = embedding(table, ids, g)
holds("y", y, small[0])
holds("gW", gw, small[1])
words, ga, text = normal(9, 5), normal(6, 5), [3, 3, 0, 8, 3, 1]
large = embedding(words, text, ga)
holds("y of 6 words", forward(words, text), large[0])
holds("gW of 6 words", backward(9, text, ga), large[1])
overwritten = np.zeros((9, 5))
for i, word in enumerate(text):
    overwritten[word] = ga[i]
fails("gW with = in place of +=", overwritten, large[1])

# y = onehot(ids) W: the table's gradient is onehot(ids)^T g.
onehot = np.zeros((3, 4))
for i, word in enumerate(ids):
    onehot[i, word] = 1
product, gradients = library(ops.matmul, [onehot, table], g)
show("onehot(ids)", onehot)
holds("y as a product", product, y)
holds("gW as a product", gradients[1], gw)

# Row v of the permuted table is row order[v]: word w is now where order has w.
order, renamed, swap = [2, 0, 3, 1], [0, 1, 0], [1, 0]
moved = embedding(table[order], renamed, g)
holds("y of permuted words, ids with them", moved[0], y)
holds("gW moves as the table does", moved[1], gw[order])
fails("y of permuted words, ids as they were", embedding(table[order], ids, g)[0], y)
holds("gW of permuted features", embedding(table[:, swap], ids, g[:, swap])[1], gw[:, swap])
show("sum of gW less sum of g", gw.sum() - g.sum())
verdict()
