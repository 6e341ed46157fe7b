# einsum for any equation, and its gradients, by plain loops and by the library.

import itertools

import numpy as np
from equigrad import ops
from page import fails, holds, library, normal, show, verdict


def letters(equation):
    """"ij,jk->ik": the letters of the operands, and of the result."""
    left, result = equation.split("->")
    return left.split(","), result


def all_values(operands, arrays):
    """Every value of every letter, as {letter: index}."""
    extent = {}
    for word, array in zip(operands, arrays):
        extent.update(zip(word, array.shape))
    for values in itertools.product(*map(range, extent.values())):
        yield dict(zip(extent, values))


def place(word, at):
    return tuple(at[letter] for letter in word)


def forward(equation, arrays, shape):
    """y[result] += product of all operands."""
    operands, result = letters(equation)
    y = np.zeros(shape)
    for at in all_values(operands, arrays):
        product = 1.0
        for word, array in zip(operands, arrays):
            product *= array[place(word, at)]
        y[place(result, at)] += product
    return y


def backward(equation, arrays, g):
    """Each product hands the cotangent of its output to every factor, times the other factors."""
    operands, result = letters(equation)
    sums = [np.zeros_like(array) for array in arrays]
    for at in all_values(operands, arrays):
        for k, word in enumerate(operands):
            product = g[place(result, at)]
            for other, (other_word, array) in enumerate(zip(operands, arrays)):
                if other != k:
                    product *= array[place(other_word, at)]
            sums[k][place(word, at)] += product
    return sums


def einsum(equation, arrays, g):
    return library(lambda *operands: ops.einsum(list(operands), equation), arrays, g)


def compare(equation, arrays, g):
    y, gradients = einsum(equation, arrays, g)
    holds(f"{equation}: y", forward(equation, arrays, g.shape), y)
    for k, found in enumerate(backward(equation, arrays, g)):
        holds(f"{equation}: g{k}", found, gradients[k])


a, b = np.array([[1.0, 2, 3], [0, 1, -1]]), np.array([[1.0, -1], [0, 1], [2, 0]])
g = np.array([[1.0, 2], [0, -1]])
ga, gb = backward("ij,jk->ik", [a, b], g)
shown = {"a": a, "b": b, "y": forward("ij,jk->ik", [a, b], (2, 2)), "g": g, "ga": ga, "gb": gb}
for name, value in shown.items():
    show(name, value)

compare("ij,jk->ik", [a, b], g)
compare("hqd,hkd->hqk", [normal(2, 3, 4), normal(2, 5, 4)], normal(2, 3, 5))
compare("i,j,k->kji", [normal(2), normal(3), normal(4)], normal(4, 3, 2))
compare("ii->i", [normal(4, 4)], normal(4))
compare("ij->j", [normal(3, 4)], normal(4))

u, v, gu = normal(4, 4), normal(4, 4), normal(4, 4)
plain, gradients = einsum("ij,jk->ik", [u, v], gu)
holds("ga = einsum(ik,jk->ij) of g and b", einsum("ik,jk->ij", [gu, v], gu)[0], gradients[0])
holds("gb = einsum(ij,ik->jk) of a and g", einsum("ij,ik->jk", [u, gu], gu)[0], gradients[1])
fails("ga = einsum(ik,kj->ij) of g and b", einsum("ik,kj->ij", [gu, v], gu)[0], gradients[0])

order = [2, 0, 3, 1]
moved, moved_gradients = einsum("ij,jk->ik", [u[:, order], v[order]], gu)
holds("y when the letter j is permuted in both operands", moved, plain)
holds("ga when the letter j is permuted in both operands", moved_gradients[0], gradients[0][:, order])
fails("y when the letter j is permuted in one", einsum("ij,jk->ik", [u[:, order], v], gu)[0], plain)
x = np.array([1.0, 2, 3])
square, gradients = einsum("i,i->", [x, x], 1)
show("i,i-> of (1, 2, 3) with itself", square)
show("the gradient by (1, 2, 3)", gradients[0] + gradients[1])
verdict()
