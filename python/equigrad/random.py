"""Counter-based random numbers: a number depends on its key and place alone."""

import functools
from typing import TYPE_CHECKING, Any, Callable

from . import _core, _names
from ._core.random import *


def __getattr__(name: str) -> object:
    words = _names.RANDOM_WORDS.get(name) or _names.WORDS.get(name)
    if words is not None:
        raise AttributeError(f"equigrad.random.{name}: {words}")
    known = [other for other in vars(_core.random) if not other.startswith("_")]
    raise AttributeError(f"equigrad.random: there is no '{name}'" + _core.did_you_mean(name, known))


if not TYPE_CHECKING:

    def _refusing_extents(function: Callable[..., Any]) -> Callable[..., Any]:
        """The function, which takes no extents one by one: its second argument is the key."""

        @functools.wraps(function)
        def drawn(*args: Any, **kwargs: Any) -> Any:
            if len(args) > 1 and all(isinstance(one, int) for one in args[:2]):
                name, extents = function.__name__, ", ".join(str(one) for one in args)
                raise TypeError(
                    f"{name}({extents}): the second argument is the key; give the shape as one: {name}((2, 3)), "
                    f"and the key by name: {name}(5, key=1)"
                )
            return function(*args, **kwargs)

        return drawn

    normal, uniform, integers = (_refusing_extents(one) for one in (normal, uniform, integers))
