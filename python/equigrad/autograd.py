"""Derivatives as functions of functions.

Arguments and results may be tensors or nested lists, tuples and dicts of them; derivatives come in the same structure.
A function has to compute with its arguments: what it captures is constant. nn.ParameterScope makes a model a function of
its parameters. Inputs that are not f32 or f64 (labels, ids) are handed on, and their derivative is None.
"""

from typing import Any, Callable, NamedTuple, Sequence

from . import _core
from ._core import CheckResult, Symmetry, Tensor
from ._core import functional as _functional

__all__ = [
    "checkpoint",
    "grad",
    "gradcheck",
    "hessian",
    "hvp",
    "jacobian",
    "jvp",
    "per_sample_gradients",
    "symmetry_check",
    "value_and_grad",
    "vjp",
]


def _structure(tree, leaves, none_is_leaf=False):
    """Appends the tensors of a tree to `leaves`; gives a function that builds such a tree from an iterator over values."""
    if isinstance(tree, Tensor) or (none_is_leaf and tree is None):
        leaves.append(tree)
        return next
    if tree is None:
        return lambda values: None
    if isinstance(tree, dict):
        parts = {key: _structure(value, leaves, none_is_leaf) for key, value in tree.items()}
        return lambda values: {key: part(values) for key, part in parts.items()}
    if isinstance(tree, (list, tuple)):
        parts = [_structure(value, leaves, none_is_leaf) for value in tree]
        make = type(tree)._make if hasattr(tree, "_make") else type(tree)
        return lambda values: make([part(values) for part in parts])
    raise TypeError(
        f"give tensors, or lists, tuples and dicts of them, not {type(tree).__name__}; numbers and other constants can be "
        "captured: lambda x: f(x, 3)"
    )


def _leaves(tree):
    leaves = []
    _structure(tree, leaves, none_is_leaf=True)
    return leaves


class _Flat:
    """f(*inputs) as a function from the list of all input tensors to the list of all output tensors."""

    def __init__(self, f, inputs):
        self.single = isinstance(inputs, Tensor)
        self.inputs = []
        self._f = f
        self._build_inputs = _structure((inputs,) if self.single else inputs, self.inputs)
        self._build_outputs = None

    def __call__(self, tensors):
        outputs = []
        self._build_outputs = _structure(self._f(*self._build_inputs(iter(tensors))), outputs)
        return outputs

    def like_inputs(self, values):
        tree = self._build_inputs(iter(values))
        return tree[0] if self.single else tree

    def like_outputs(self, values):
        return self._build_outputs(iter(values))


def _argument(args, i, leaves, argnums):
    """_structure() of an argument that is differentiated."""
    if not -len(args) <= i < len(args):
        raise _core.ValueError(f"grad: argnums has {i}, and there are {len(args)} arguments")
    try:
        return _structure(args[i], leaves)
    except TypeError:
        if isinstance(args[i], (dict, list, tuple)):
            raise  # of something in it
        others = [k for k, one in enumerate(args) if isinstance(one, Tensor)]
        way_out = f"argnums={others[0] if len(others) == 1 else others} differentiates the tensors" if others else ""
        way_out = "" if argnums is not None else way_out
        what = f"grad: argument {i} is {type(args[i]).__name__}, which has no gradient; "
        raise TypeError(what + (way_out or "give tensors, or lists, tuples and dicts of them")) from None


def value_and_grad(f: Callable[..., Tensor], argnums: int | Sequence[int] | None = None) -> Callable[..., tuple[Tensor, Any]]:
    """(x, ...) -> (f(x, ...), gradients), where f gives a tensor of one element.

    The gradient of one argument has that argument's structure; those of several are a tuple. argnums: the arguments that
    are differentiated (default: all).
    """

    def evaluate(*args, **kwargs):
        chosen = range(len(args)) if argnums is None else (argnums,) if isinstance(argnums, int) else tuple(argnums)
        leaves = []
        builds = [_argument(args, i, leaves, argnums) for i in chosen]

        def loss(tensors):
            values, arguments = iter(tensors), list(args)
            for i, build in zip(chosen, builds):
                arguments[i] = build(values)
            outputs = []
            _structure(f(*arguments, **kwargs), outputs)
            return outputs

        value, gradients = _functional.value_and_grad(loss, leaves)
        values = iter(gradients)
        trees = tuple(build(values) for build in builds)
        return value, trees[0] if len(trees) == 1 and not isinstance(argnums, Sequence) else trees

    return evaluate


def grad(f: Callable[..., Tensor], argnums: int | Sequence[int] | None = None) -> Callable[..., Any]:
    """(x, ...) -> df/dx: value_and_grad without the value. grad of a function that uses grad is the second derivative."""
    evaluate = value_and_grad(f, argnums)
    return lambda *args, **kwargs: evaluate(*args, **kwargs)[1]


class Vjp(NamedTuple):
    outputs: Any
    gradients: Any


def vjp(f: Callable[..., Any], inputs: Any, cotangents: Any = None) -> Vjp:
    """f(*inputs), and sum_o J_oi^T v_o for each input i. inputs: a sequence, or one tensor.

    cotangents: in the structure of f's value; None where one is zero (for a single output of one element: ones).
    """
    flat = _Flat(f, inputs)
    outputs, gradients = _functional.vjp(flat, flat.inputs, _leaves(cotangents))
    return Vjp(flat.like_outputs(outputs), flat.like_inputs(gradients))


class Jvp(NamedTuple):
    outputs: Any
    tangents: Any


def jvp(f: Callable[..., Any], inputs: Any, tangents: Any) -> Jvp:
    """f(*inputs), and sum_i J_oi u_i for each output o; tangents u in the structure of inputs, None where zero."""
    flat = _Flat(f, inputs)
    outputs, products = _functional.jvp(flat, flat.inputs, _leaves(tangents))
    return Jvp(flat.like_outputs(outputs), flat.like_outputs(products))


class Hvp(NamedTuple):
    value: Tensor
    gradients: Any
    products: Any


def hvp(f: Callable[..., Tensor], inputs: Any, tangents: Any) -> Hvp:
    """The loss f(*inputs), its gradients, and its Hessian times the tangents: sum_j d^2 f/dx_i dx_j u_j."""
    flat = _Flat(f, inputs)
    value, gradients, products = _functional.hvp(flat, flat.inputs, _leaves(tangents))
    return Hvp(value, flat.like_inputs(gradients), flat.like_inputs(products))


def jacobian(f: Callable[..., Any], inputs: Any) -> Any:
    """d y_o / d x_i, of shape (shape of output o) + (shape of input i): for each output, in the structure of inputs."""
    flat = _Flat(f, inputs)
    rows = _functional.jacobian(flat, flat.inputs)
    return flat.like_outputs([flat.like_inputs(row) for row in rows])


def hessian(f: Callable[..., Tensor], inputs: Any) -> Any:
    """d^2 f / dx_i dx_j, of shape (shape of input i) + (shape of input j), in the structure of inputs, twice."""
    flat = _Flat(f, inputs)
    rows = _functional.hessian(flat, flat.inputs)
    return flat.like_inputs([flat.like_inputs(row) for row in rows])


def checkpoint(f: Callable[..., Any], *inputs: Any) -> Any:
    """f(*inputs), of which tapes keep the inputs alone: the rest is computed again when the gradient comes by."""
    flat = _Flat(f, inputs)
    return flat.like_outputs(_functional.checkpoint(flat, flat.inputs))


def per_sample_gradients(f: Callable[..., Tensor], parameters: Sequence[Tensor], batch: Sequence[Tensor]) -> list[Tensor]:
    """The gradient of every sample by itself: [B] + the parameter's shape. f(*sample) is the loss of the batch's tensors
    cut to one sample; it captures the parameters."""
    return _functional.per_sample_gradients(lambda sample: f(*sample), list(parameters), list(batch))


def _passed(result, what, raise_exception):
    """The result of a check; raises AutogradError where it failed, so that nobody has to look."""
    if raise_exception and not result:
        raise _core.AutogradError(f"{what}: {result.detail}")
    return result


def gradcheck(
    f: Callable[..., Any],
    inputs: Tensor | Sequence[Tensor | None],
    *,
    step: float = 1e-5,
    tolerance: float = 1e-6,
    directions: int = 3,
    second: bool = False,
    key: Any = None,
    raise_exception: bool = True,
) -> CheckResult:
    """Central differences against the tape, along random directions, in f64. second: the gradient's gradient.

    inputs: the arguments of f, a tensor or a sequence of them. step and tolerance are relative: PyTorch's eps and atol
    are bounds of another comparison.

    Raises AutogradError where they differ. With raise_exception=False the result says so: it is true when the check
    passed, and its `detail` says what was compared.
    """
    listed = [inputs] if isinstance(inputs, Tensor) else list(inputs)
    result = _core._gradcheck(lambda x: f(*x), listed, step, tolerance, directions, second, key)
    return _passed(result, "gradcheck: the gradient is wrong", raise_exception)


def symmetry_check(
    f: Callable[..., Any],
    inputs: Tensor | Sequence[Tensor | None],
    symmetry: Symmetry,
    *,
    tolerance: float = 1e-11,
    draws: int = 2,
    backward: bool = True,
    bits: bool = False,
    key: Any = None,
    raise_exception: bool = True,
) -> CheckResult:
    """f(rho x) against rho' f(x) for drawn permutations (never the identity), and the vector-Jacobian products.

    Raises AutogradError where they differ, or, with raise_exception=False, says so in the result as gradcheck does.
    """
    listed = [inputs] if isinstance(inputs, Tensor) else list(inputs)
    result = _core._symmetry_check(lambda x: f(*x), listed, symmetry, tolerance, draws, backward, bits, key)
    return _passed(result, "symmetry_check: the function does not have this symmetry", raise_exception)
