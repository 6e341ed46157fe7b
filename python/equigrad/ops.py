"""Every operation of the library's registry, as a function of the row's inputs and attributes.

Functions are made when they are first asked for; help(ops.softmax) shows the mathematics, shapes and symmetries.
"""

from . import _core, _names, _rows

__all__ = _core.op_names()


def __getattr__(name):
    # Many operations have the names of Python's own functions (sum, max, all), so this file uses none of those.
    if name in __all__:
        globals()[name] = _rows.function_of(name)
        return globals()[name]
    if name in _names.OPERATIONS:
        globals()[name] = __getattr__(_names.OPERATIONS[name])
        return globals()[name]
    operation = _rows.operation_with_result(name)  # "topk" for "TopkResult", by which pickle finds the type
    if operation is not None:
        function = globals().get(operation) or __getattr__(operation)
        globals()[name] = function.__signature__.return_annotation
        return globals()[name]
    raise AttributeError(_rows.unknown(name) + (f": {_names.WORDS[name]}" if name in _names.WORDS else ""))


def __dir__():
    return __all__
