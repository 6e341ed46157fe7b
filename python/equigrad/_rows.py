"""Functions for the rows of the registry: name, signature and documentation come from the row."""

import collections
import inspect
from collections.abc import Sequence

from . import _core, _names

_TYPES = {
    "bool": bool,
    "int": int,
    "float": float,
    "str": str,
    "Sequence[int]": Sequence[int],
    "Sequence[float]": Sequence[float],
}


def parameters_of(op):
    """(name, default or Parameter.empty, annotation, keyword_only) of each argument: inputs, then attributes.

    From the first argument that must be given behind one that need not be, all are by keyword only.
    """
    listed = []
    for name, optional in op.inputs:
        annotation = Sequence[_core.Tensor] if op.variadic else _core.Tensor | None if optional else _core.Tensor
        listed.append((name, None if optional else inspect.Parameter.empty, annotation))
    for name, kind, required, default, _ in op.attributes:
        listed.append((name, inspect.Parameter.empty if required else default, _TYPES[kind]))
    keyword_only, optional_seen = False, False
    parameters = []
    for name, default, annotation in listed:
        keyword_only = keyword_only or (optional_seen and default is inspect.Parameter.empty)
        optional_seen = optional_seen or default is not inspect.Parameter.empty
        parameters.append((name, default, annotation, keyword_only))
    return parameters


def outputs_of(op):
    """The outputs that the function gives: not those that serve the gradient alone."""
    return op.outputs[: len(op.outputs) - op.auxiliary]


def result_of(op):
    """The type of what a call gives: a tensor, a list of them, or a tuple with the outputs' names."""
    if op.variadic_outputs:
        return list[_core.Tensor]
    outputs = outputs_of(op)
    if len(outputs) == 1:
        return _core.Tensor
    return collections.namedtuple(result_name(op.name), outputs, module="equigrad.ops")


def result_name(name):
    """The name of the type that holds an operation's results: TopkResult."""
    return "".join(part.capitalize() for part in name.split("_")) + "Result"


def operation_with_result(name):
    """The operation whose results are of the type called `name`; None where there is none."""
    for operation in _core.op_names():
        if result_name(operation) == name and hasattr(result_of(_core.find_op(operation)), "_fields"):
            return operation
    return None


def signature_of(op, result):
    kinds = {False: inspect.Parameter.POSITIONAL_OR_KEYWORD, True: inspect.Parameter.KEYWORD_ONLY}
    return inspect.Signature(
        [
            inspect.Parameter(name, kinds[keyword_only], default=default, annotation=annotation)
            for name, default, annotation, keyword_only in parameters_of(op)
        ],
        return_annotation=result,
    )


def function_of(name):
    """The function of one row."""
    op = _core.find_op(name)
    result = result_of(op)
    if hasattr(result, "_fields"):

        def function(*args, **kwargs):
            return result(*op(*args, **kwargs))

    elif op.auxiliary:

        def function(*args, **kwargs):
            return op(*args, **kwargs)[0]

    else:

        def function(*args, **kwargs):
            return op(*args, **kwargs)

    function.__name__ = function.__qualname__ = name
    function.__module__ = "equigrad.ops"
    function.__doc__ = op.reference.strip()
    function.__signature__ = signature_of(op, result)
    return function


def is_method(name):
    """Whether an operation is one on a tensor that is given first, and no gradient of another."""
    op = _core.find_op(name)
    return not name.endswith("_backward") and not op.variadic and bool(op.inputs) and not op.inputs[0][1]


def methods():
    """(method, operation) of each: x.method(...) is ops.operation(x, ...)."""
    own = [name for name in _core.op_names() if is_method(name)]
    return [(name, name) for name in own] + [(other, name) for other, name in _names.OPERATIONS.items() if name in own]


def unknown(name):
    """What is said of a name that no row has."""
    try:
        _core.find_op(name)
    except _core.ValueError as error:
        return f"equigrad.ops: {error}"
    return f"equigrad.ops: there is no '{name}'"
