"""What the programs of these pages share: random numbers, the library's side, and what they print."""

import itertools

import equigrad as eg
import numpy as np

_streams = itertools.count(1)
_good = True


def normal(*shape):
    """Normally distributed numbers that no other call gives; page.h draws the same ones."""
    return np.array(eg.random.normal(shape, eg.random.Key(1, next(_streams)), 0.0, 1.0, "f64"))


def library(function, inputs, g):
    """What the library computes: the output of a function, and the gradients of sum(g * output) by its inputs."""
    x = [eg.tensor(np.array(a, dtype=np.float64)) for a in inputs]
    with eg.Tape() as tape:
        y = function(*x)
    return np.array(y), [np.array(a) for a in tape.gradient(y, x, eg.tensor(np.array(g, dtype=np.float64)))]


def number(value):
    """Four digits behind the point, and no sign before a zero."""
    text = f"{value:.4f}"
    return "0.0000" if text == "-0.0000" else text


def show(name, a):
    """Prints a name and its numbers, a line for each row."""
    if np.ndim(a) == 0:
        print(f"{name} = {number(a)}")
        return
    print(f"{name} =")
    for row in np.reshape(a, (-1, np.shape(a)[-1])):
        print("".join(f"{number(value):>9}" for value in row))


def error(a, b):
    """The largest difference, relative to the largest number."""
    if np.shape(a) != np.shape(b):
        return 1.0
    return np.max(np.abs(a - b)) / max(np.max(np.abs(a)), np.max(np.abs(b)), 1e-300)


def _say(what, good, yes, no):
    global _good
    _good = _good and good
    print(f"{what}: {yes if good else no}")


def holds(what, a, b):
    """`a` is to equal `b`."""
    _say(what, error(a, b) <= 1e-12, "holds to 1e-12", "FAILS")


def fails(what, a, b):
    """A control: `a` must differ from `b`."""
    _say(what, error(a, b) > 1e-3, "fails, as it must", "HOLDS, and must not")


def check(what, good):
    """A statement that is to be true."""
    _say(what, good, "yes", "NO")


def verdict():
    """Ends the program with an error where something was not as it must be."""
    raise SystemExit(0 if _good else 1)
