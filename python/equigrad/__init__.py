"""equigrad: tensors, operations with gradients, modules, and the permutations that they commute with.

    import numpy as np
    import equigrad as eg

    x = eg.tensor(np.random.rand(4, 3).astype("float32"))   # on the array's own memory
    w = eg.random.normal((2, 3), key=1)
    with eg.Tape() as tape:                                  # everything inside is recorded
        y = eg.ops.gelu(eg.ops.linear(x, w)).sum()
    slope = tape.gradient(y, w)                              # dy/dw, a value of its own

Operations are in equigrad.ops, one for every row of the library's registry; layers and models in nn; optimisers in
optim; permutations of models in permute; datasets, tokenizers and files in data; model folders in hub.
"""

# Before the library's first product: where NumPy uses the system's OpenBLAS, the library then takes an instance of its
# own (core/base/shared_library.h), and neither changes the other's threads.
import numpy as _numpy
from typing import TYPE_CHECKING as _TYPE_CHECKING

from . import _core, _names
from ._core import (
    AutogradError,
    CheckResult,
    CustomOp,
    DeviceError,
    DTypeError,
    Error,
    FileError,
    HookHandle,
    IndexError,
    Interrupted,
    MemoryError,
    NumericError,
    ShapeError,
    Symmetry,
    SymmetryError,
    Tape,
    Tensor,
    ValueError,
    arange,
    auc,
    detect_anomaly,
    exact,
    eye,
    from_dlpack,
    from_numpy,
    full,
    linspace,
    memory,
    ones,
    pause,
    recording,
    relative_error,
    release_memory,
    same_bits,
    set_memory_limit,
    set_threads,
    system,
    tensor,
    threads,
    top_k_accuracy,
    zeros,
)
from ._core.catalogue import verify
from ._dtypes import bfloat16, float32, float64, int64, uint8
from ._files import load, save
from . import _methods, cuda, data, hub, linalg, nn, ops, optim, permute, random, testing, training
from ._pictures import AttentionMaps, Page, Picture, attention_maps, line_chart
from ._reports import Attacks, Evaluation, attack, attack_defences, attack_schemes, attacks, evaluate, report
from .training import Callback, Curves, Metrics, Record, Run, open_run, train, train_options
from .autograd import (
    checkpoint,
    grad,
    gradcheck,
    hessian,
    hvp,
    jacobian,
    jvp,
    per_sample_gradients,
    symmetry_check,
    value_and_grad,
    vjp,
)

if _TYPE_CHECKING:
    from .ops import *
    from . import permute as permute  # the part, not the operation

no_grad = pause
manual_seed = random.seed
__version__ = _core.__version__


def __getattr__(name):
    """eg.exp is eg.ops.exp, and so is every operation whose name the package has not otherwise."""
    if name in ops.__all__ or name in _names.OPERATIONS or name in _methods.FUNCTIONS:
        globals()[name] = _methods.FUNCTIONS.get(name) or getattr(ops, name)
        return globals()[name]
    if name in _names.WORDS:
        raise AttributeError(f"equigrad.{name}: {_names.WORDS[name]}")
    raise AttributeError(f"module 'equigrad' has no '{name}'" + _core.did_you_mean(name, __dir__()))


def __dir__():
    return sorted({*globals(), *ops.__all__, *_methods.FUNCTIONS})


# Without the errors whose names are Python's own: `from equigrad import *` must not replace those. A list, not computed,
# so that type checkers know what the package exports.
__all__ = [
    "Attacks",
    "AttentionMaps",
    "AutogradError",
    "Callback",
    "CheckResult",
    "Curves",
    "CustomOp",
    "DTypeError",
    "DeviceError",
    "Error",
    "Evaluation",
    "FileError",
    "HookHandle",
    "Interrupted",
    "Metrics",
    "NumericError",
    "Page",
    "Picture",
    "Record",
    "Run",
    "ShapeError",
    "Symmetry",
    "SymmetryError",
    "Tape",
    "Tensor",
    "arange",
    "attack",
    "attack_defences",
    "attack_schemes",
    "attacks",
    "attention_maps",
    "auc",
    "autograd",
    "bfloat16",
    "checkpoint",
    "cuda",
    "data",
    "detect_anomaly",
    "evaluate",
    "exact",
    "eye",
    "float32",
    "float64",
    "from_dlpack",
    "from_numpy",
    "full",
    "grad",
    "gradcheck",
    "hessian",
    "hub",
    "hvp",
    "int64",
    "jacobian",
    "jvp",
    "linalg",
    "line_chart",
    "linspace",
    "load",
    "manual_seed",
    "memory",
    "nn",
    "no_grad",
    "ones",
    "open_run",
    "ops",
    "optim",
    "pause",
    "per_sample_gradients",
    "permute",
    "random",
    "recording",
    "relative_error",
    "release_memory",
    "report",
    "same_bits",
    "save",
    "set_memory_limit",
    "set_threads",
    "symmetry_check",
    "system",
    "tensor",
    "testing",
    "threads",
    "top_k_accuracy",
    "train",
    "train_options",
    "training",
    "uint8",
    "value_and_grad",
    "verify",
    "vjp",
    "zeros",
]
