"""Permutations, keys, how they move a model's weights, and which of them a model commutes with.

    s = eg.permute.symmetries(model, {"x": x})     # an nn.Module, a function of tensors, or a hub.Model
    print(s)                                       # a table of groups
    s.certify()                                    # every generator, forward and gradients, in f64
    element = s.element(key=1, groups="inner")
    y = model(element.move("x", x))
"""

import inspect
from typing import Any, Callable, Iterable, Mapping, Sequence

from . import _core
from ._core import Tensor
from ._core import permute as _permute
from ._core.hub import Model
from ._core.nn import Module
from ._core.permute import *
from ._core.permute import Certificate, Permutation, SecretKey, SymmetryGroup
from ._core.random import Key


class SymmetryElement:
    """One element of a model's group: permutations of its parameters, inputs and outputs that belong together."""

    def __init__(self, symmetries: "Symmetries", element: Any):
        self._symmetries, self._element = symmetries, element

    def move(self, tensor: str, x: Any) -> Tensor:
        """A parameter, input or output as the element moves it; gradients and optimiser state move as their parameter."""
        return self._symmetries._core.moved(self._element, tensor, x)

    def inverse(self) -> "SymmetryElement":
        """The element that undoes it."""
        return SymmetryElement(self._symmetries, self._element.inverse())

    def then(self, next: "SymmetryElement") -> "SymmetryElement":
        """First this, then `next`."""
        if next._symmetries is not self._symmetries:
            raise _core.ValueError("then: the elements are of different models")
        return SymmetryElement(self._symmetries, self._element.then(next._element))

    def move_state(self, state: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Every tensor of a state dict (or of gradients by parameter name) moved."""
        return {name: self.move(name, x) for name, x in state.items()}


class Symmetries:
    """The group of permutations that a model commutes with; made by symmetries()."""

    def __init__(self, core: Any, certify: Callable[..., Certificate], name: str):
        self._core, self._certify, self._name = core, certify, name

    @property
    def groups(self) -> list[SymmetryGroup]:
        """Free groups in the order of their first axes, then the trivial ones, each with what stopped it."""
        return self._core.groups

    def __getitem__(self, name: str) -> SymmetryGroup:
        for group in self._core.groups:
            if group.name == name:
                return group
        raise KeyError(name)

    def log2_count(self) -> float:
        """log2 of the number of keys: elements that move parameters, whatever they do to inputs and outputs."""
        return self._core.log2_count()

    def certify(self, *, draw: bool = True, tolerance: float = 1e-9, key: Key | int = 0) -> Certificate:
        """Tries every generator of every group in f64: f(p x) = p f(x), and the same of all gradients.

        A hub.Model is tried on a small copy of the same structure, with numbers of its own: draw and key are for other
        models. Of those floating parameters and inputs are drawn at random, or, where draw is false, have their own
        values, which then must be in general position.
        Raises SymmetryError that names group, generator and operation where one does not hold.
        """
        return self._certify(draw, tolerance, key)

    def element(self, key: SecretKey | Key | int, groups: str | Iterable[str] | None = None) -> SymmetryElement:
        """The element that moves the groups by permutations drawn from `key`.

        groups: 'all' (those of a key), 'inner' (those of them that leave inputs and outputs alone), names and globs
        separated by commas, or a sequence of names. None: 'all', or what a SecretKey of make_key() was made for.
        """
        return SymmetryElement(self, self._core.element(key, groups, self._name))

    def make_key(self, groups: str | Iterable[str] = "all") -> SecretKey:
        """A fresh secret key for these groups of this model."""
        return self._core.make_key(groups, self._name)

    def __repr__(self) -> str:
        free = [g for g in self._core.groups if g.kind != "trivial"]
        fixed = [g for g in self._core.groups if g.kind == "trivial"]
        width = max([len(g.name) for g in self._core.groups], default=0)
        lines = [f"symmetries of {self._name}: 2^{self.log2_count():.1f} keys"]
        lines += [f"  {g.name:<{width}}  {_elements(g):<16} 2^{g.log2_count:.1f}" for g in free]
        lines += [f"  {g.name:<{width}}  fixed: {g.because}" for g in fixed]
        return "\n".join(lines)


def _elements(group: SymmetryGroup) -> str:
    if group.kind == "automorphisms":
        return f"automorphisms of {group.size}"
    if group.copies == 1:
        return f"S_{group.size}"
    return f"S_{group.size} ^ {group.copies}" if group.over else f"S_{group.size} wr S_{group.copies}"


def _outputs(value: Any, name: str = "output") -> list[tuple[str, Tensor]]:
    """A result as tensors with names: 'output', 'output.0', the keys of a dict."""
    if isinstance(value, Tensor):
        return [(name, value)]
    if isinstance(value, Mapping):
        parts = [(str(key), part) for key, part in value.items()]
    elif isinstance(value, (list, tuple)):
        keys = getattr(value, "_fields", range(len(value)))
        parts = [(f"{name}.{key}", part) for key, part in zip(keys, value)]
    elif value is None:
        return []
    else:
        raise TypeError(f"symmetries: the model must give tensors, or lists, tuples and dicts of them, not {type(value).__name__}")
    return [pair for key, part in parts for pair in _outputs(part, key)]


def _named_inputs(f: Callable[..., Any], inputs: Any, others: Mapping[str, Any]) -> tuple[dict[str, Any], bool]:
    """Inputs by name, and whether they are arguments by keyword. The names of `others` are taken."""
    if isinstance(inputs, Mapping):
        return dict(inputs), True
    if isinstance(inputs, Tensor) or not isinstance(inputs, Sequence):
        inputs = [inputs]
    target = getattr(f, "forward", f) if isinstance(f, Module) else f
    try:
        names = [
            p.name
            for p in inspect.signature(target).parameters.values()
            if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) and p.name not in others
        ]
    except (TypeError, ValueError):
        names = []
    by_keyword = bool(others) and len(inputs) <= len(names)  # the others may come before them
    names += [f"input.{i}" for i in range(len(names), len(inputs))]
    return dict(zip(names, inputs)), by_keyword


def symmetries(
    model: Model | Module | Callable[..., Any],
    inputs: Any = None,
    *,
    parameters: Mapping[str, Any] | None = None,
    data_axes: Iterable[tuple[str, int]] = (),
    values: bool = False,
) -> Symmetries:
    """Which permutations a model commutes with, read off one forward pass on shapes alone.

    model: a hub.Model, which needs nothing else; an nn.Module, of the library or written in Python, called with
    `inputs`; or a function of tensors. inputs: one tensor, a sequence for the arguments in their order, or a dict of
    keyword arguments. parameters: of a function, the inputs that are weights, which it is given by keyword too.
    data_axes: (input, axis) pairs whose extent is that of this batch and no part of the model. values: read on values,
    for a model whose course or shapes depend on them. Results are named 'output', 'output.0', or by a dict's keys.
    """
    if isinstance(model, Model):
        if inputs is not None or parameters is not None:
            raise TypeError("symmetries: a hub.Model needs no inputs and no parameters")
        core = _permute._hub_symmetries(model)
        return Symmetries(core, lambda draw, tolerance, key: _permute._hub_certify(core, model, tolerance), model.architecture)
    if inputs is None:
        raise TypeError("symmetries: give inputs: a tensor, a sequence or a dict of them")
    module = model if isinstance(model, Module) else None
    if module is not None and parameters is not None:
        raise TypeError("symmetries: a module's parameters are its own; parameters= is for functions")
    weights = dict(parameters or {})
    given, by_keyword = _named_inputs(model, inputs, weights)
    if both := weights.keys() & given.keys():
        raise _core.ValueError(f"symmetries: '{min(both)}' is a parameter and an input")
    names = list(given) if module is not None else [*weights, *given]

    def run(tensors: Sequence[Tensor]) -> list[tuple[str, Tensor]]:
        named = dict(zip(names, tensors))
        if by_keyword:
            return _outputs(model(**named))
        return _outputs(model(*(named[name] for name in given), **{name: named[name] for name in weights}))

    core = _permute._symmetries(run, module, weights, given, values, list(data_axes))

    def certify(draw: bool, tolerance: float, key: Key | int) -> Certificate:
        try:
            return _permute._certify(core, run, module, weights, given, draw, tolerance, key)
        except _core.DTypeError as error:
            raise _core.DTypeError(
                "certify: values are f64 here, and the model holds constants of another type: make them with the dtype of its "
                f"inputs ({error})"
            ) from None

    return Symmetries(core, certify, type(model).__name__ if module is not None else getattr(model, "__name__", "a function"))


def permute_model(
    model: Model | Module,
    key: SecretKey | Key | int,
    inputs: Any = None,
    *,
    groups: str | Iterable[str] | None = None,
    certify: bool = True,
) -> SymmetryElement:
    """Moves a model's parameters, in place, by the element of its group that a key draws, and gives the element.

    The model then computes the same function of moved inputs: model(element.move('x', x)) is element.move('output', y).
    With groups='inner' inputs and outputs stay. element.inverse() undoes it: load_state_dict(element.inverse().move_state(
    state_dict())). The symmetries are certified first, unless certify is false. Raises ValueError for a module with state
    beside its parameters (running statistics), which would have to move along.
    """
    module = model.module if isinstance(model, Model) else model
    beside = module.state_dict().keys() - dict(module.named_parameters()).keys()
    if beside and not isinstance(model, Model):  # a hub.Model's symmetries are those of its whole state
        raise _core.ValueError(f"permute_model: '{min(beside)}' is state beside the parameters, which the symmetries do not cover")
    found = symmetries(model, inputs)
    if certify:
        found.certify()
    element = found.element(key, groups)
    module.load_state_dict(element.move_state(module.state_dict()))
    return element
