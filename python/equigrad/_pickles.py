"""What copies and pickled values are taken apart and rebuilt with."""

import copy
import weakref
from types import MappingProxyType

from . import _core


def tensor(data, shape, dtype):
    """A tensor of packed bytes, which are copied."""
    return _core._from_bytes(data, shape, dtype)


def config(cls, fields, attributes):
    """A config of a class of the library, or of one that derives from it."""
    made = cls.__new__(cls)
    base = next(base for base in cls.__mro__ if base.__module__ == _core.nn.__name__)
    base.__init__(made, **fields)
    if attributes:
        vars(made).update(attributes)
    return made


def reduce_config(value, fields):
    return config, (type(value), fields, dict(getattr(value, "__dict__", {})))


class Stored:
    """A tensor of modules: one object for all that share the tensor, so that their copies share one as well."""

    __slots__ = ("tensor", "__weakref__")

    def __init__(self, tensor):
        self.tensor = tensor

    def __reduce__(self):
        return Stored, (self.tensor,)

    def __deepcopy__(self, memo):
        with _core.pause():
            return Stored(self.tensor.clone())


_stored = weakref.WeakValueDictionary()


def stored(tensor):
    identity = hash(tensor)
    found = _stored.get(identity)
    if found is None:
        found = _stored[identity] = Stored(tensor)
    return found


def module(cls, arguments):
    """A module of a class of the library, or of one that derives from it, before its state is set."""
    return _core.nn._made(cls, arguments)


def reduce_module(value):
    return module, (type(value), value._arguments()), value.__getstate__()


def copied_module(value, memo):
    """What copy.deepcopy makes of a module, unrecorded: its attributes may hold tensors, whose copies are recorded."""
    with _core.pause():
        rebuild, arguments, state = (*value.__reduce_ex__(4), None)[:3]  # a class may give no state
        made = memo[id(value)] = rebuild(*copy.deepcopy(arguments, memo))
        if state is not None:
            made.__setstate__(copy.deepcopy(state, memo))
    return made


def _part(value):
    """What is kept of a part: a module or a tuple of them as it is, a dict of them; (True, tensor) for what is trained."""
    if isinstance(value, MappingProxyType):
        return dict(value)
    if isinstance(value, _core.nn.Parameter):
        return True, stored(value.value)
    return (False, stored(value)) if isinstance(value, _core.Tensor) else value


def module_state(value):
    attributes = dict(getattr(value, "__dict__", {}))
    parts = value._parts()
    if parts is None:
        tensors, training = value._contents()
        return {"tensors": [stored(tensor) for tensor in tensors], "training": training, "attributes": attributes}
    for name, _ in parts:
        attributes.pop(name, None)
    return {"parts": [(name, _part(part)) for name, part in parts], "training": value.training, "attributes": attributes}


def set_module_state(value, state):
    if "parts" in state:
        _core.nn.Module.train(value, state["training"])  # before it has children, whose flags are their own
        for name, part in state["parts"]:
            _add_part(value, name, part)
        value._adopt(*value._contents())  # tensors that parts share are one parameter
    else:
        value._adopt([shared.tensor for shared in state["tensors"]], state["training"])
    if state["attributes"]:
        vars(value).update(state["attributes"])


def _add_part(value, name, part):
    if isinstance(part, tuple) and len(part) == 2 and isinstance(part[1], Stored):
        trained, shared = part
        if not trained:
            _core.nn.Module.register_state(value, name, shared.tensor)
            return
        part = _core.nn.Parameter(shared.tensor)
    _core.nn.Module.__setattr__(value, name, part)
