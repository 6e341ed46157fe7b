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

from . import _core
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
from . import cuda, data, hub, nn, ops, optim, permute, random, testing
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

__version__ = _core.__version__

# Without the errors whose names are Python's own: `from equigrad import *` must not replace those.
__all__ = [
    name for name in dir() if not name.startswith("_") and name not in ("IndexError", "MemoryError", "ValueError")
]
