"""Exercise 1: the vjp of softmax, against the tape, by differences, and on inputs with exact zeros."""

import ast
import inspect

import equigrad as eg
import numpy as np

from . import Wrong, apart, expect

SHAPES = [(5,), (1, 6), (4, 3), (2, 3, 4), (3, 1)]
THE_LIBRARYS = {"Tape", "grad", "vjp", "jvp", "jacobian", "value_and_grad", "softmax_backward"}


def check(work, rng) -> str:
    names = {node.attr for node in ast.walk(ast.parse(inspect.getsource(work))) if isinstance(node, ast.Attribute)}
    used = names & THE_LIBRARYS
    expect(not used, f"it uses the library's own derivative ({', '.join(sorted(used))}); write the formula")
    for shape in SHAPES:
        against_the_tape(work.softmax_vjp, shape, rng)
    y = eg.ops.softmax(eg.tensor([[0.0, -900.0, 1.0]], dtype="f64"))
    found = np.asarray(work.softmax_vjp(y, eg.tensor(rng.normal(size=(1, 3)))))
    expect(
        np.isfinite(found).all(), f"for y = {np.asarray(y)[0]} it gives {found[0]}: y may be 0, so do not divide by it"
    )
    by_differences(work.softmax_vjp, rng)
    return f"{len(SHAPES)} shapes agree with the tape, and the first and second derivative with differences"


def against_the_tape(vjp, shape, rng) -> None:
    x, cotangent = eg.tensor(rng.normal(size=shape)), eg.tensor(rng.normal(size=shape))
    with eg.Tape() as tape:
        y = eg.ops.softmax(x)
    expected = np.asarray(tape.gradient(y, x, cotangent=cotangent))
    found = vjp(y, cotangent)
    expect(
        isinstance(found, eg.Tensor),
        f"it gives {type(found).__name__}; give an eg.Tensor, made by operators and eg.ops",
    )
    found = np.asarray(found)
    expect(found.shape == shape, f"for inputs of shape {shape} it gives shape {found.shape}; sums need keepdim=True")
    scale = max(float(np.abs(expected).max()), 1e-3)  # one element a row: the gradient is 0
    error = float(np.abs(found - expected).max()) / scale
    if error < 1e-10:
        return
    sums = np.abs(found.sum(axis=-1)).max()
    if apart(found, np.asarray(cotangent * y)) < 1e-10:
        raise Wrong(
            "y * cotangent leaves out the denominator: each y_j depends on every x_i of its row, so a sum is missing"
        )
    if apart(found, np.asarray(cotangent * y * (1 - y))) < 1e-10:
        raise Wrong("this is the diagonal of the Jacobian alone; entries -y_i y_j beside it are not zero")
    if np.abs(found + expected).max() / scale < 1e-10:
        raise Wrong("the sign is wrong: this is -dl/dx")
    if sums > 1e-8 * scale and len(shape) > 1:
        raise Wrong(
            f"shape {shape}: softmax does not change when a constant is added to a row of x, so each row of dl/dx sums to 0; "
            f"yours sums to {sums:.2g}. Sum along the last axis alone"
        )
    if sums > 1e-8 * scale:
        raise Wrong(
            f"softmax does not change when a constant is added to x, so dl/dx sums to 0; yours sums to {sums:.2g}"
        )
    raise Wrong(
        f"shape {shape}: the rows sum to 0, as they must, but differ from the tape's gradient by {error:.1e} of it"
    )


def by_differences(vjp, rng) -> None:
    op = eg.CustomOp(
        "softmax of the exercise", eg.ops.softmax, lambda inputs, outputs, cotangents: vjp(outputs[0], cotangents[0])
    )
    x = eg.tensor(rng.normal(size=(3, 4)))
    first = eg.gradcheck(op, [x], raise_exception=False)
    expect(bool(first), f"differences disagree: {first.detail}")
    second = eg.gradcheck(op, [x], second=True, raise_exception=False)
    expect(
        bool(second),
        "the first derivative is right and the second is wrong: the rule must consist of operators and eg.ops, so that it can "
        "be differentiated again",
    )
