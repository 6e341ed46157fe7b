"""Names that NumPy, PyTorch, JAX and MLX have for what the library calls otherwise, and words for what it does another way."""

# Another library's name of an operation: it is the same function.
OPERATIONS = {
    "absolute": "abs",
    "arccos": "acos",
    "arccosh": "acosh",
    "arcsin": "asin",
    "arcsinh": "asinh",
    "arctan": "atan",
    "arctan2": "atan2",
    "arctanh": "atanh",
    "argwhere": "nonzero",
    "broadcast_to": "expand",
    "cat": "concat",
    "clip": "clamp",
    "concatenate": "concat",
    "divide": "div",
    "equal": "eq",
    "expand_dims": "unsqueeze",
    "fix": "trunc",
    "greater": "gt",
    "greater_equal": "ge",
    "inverse": "inv",
    "less": "lt",
    "less_equal": "le",
    "mod": "remainder",
    "multiply": "mul",
    "negative": "neg",
    "not_equal": "ne",
    "power": "pow",
    "subtract": "sub",
    "take_along_axis": "gather",
    "take_along_dim": "gather",
    "tile": "repeat",
    "true_divide": "div",
}

_RECORD = "gradients come from a tape: with eg.Tape() as tape: loss = ...; tape.gradient(loss, parameters)"

# Names that other libraries have and this one has another way for.
_TRAIN = "eg.train('vit', 'mnist', epochs=3) trains the program's models, a tape and an optimizer your own modules"
WORDS = {
    "Trainer": _TRAIN,
    "fit": _TRAIN,
    "backward": _RECORD,
    "grad": "a tensor holds no gradient: tape.gradient(loss, x) gives it, or eg.grad(f)(x)",
    "requires_grad": _RECORD,
    "requires_grad_": _RECORD,
    "retain_grad": _RECORD,
    "is_leaf": _RECORD,
    "zero_grad": "gradients are values, not state: there is nothing to clear; tape.gradient(loss, parameters) makes new ones",
    "data": "write to the elements with x[...] = values, outside a tape",
    "float16": "there is no float16; bfloat16 is stored in 16 bits",
    "int32": "integers have 64 bits: int64",
    "half": "there is no float16; x.to('bf16') is stored in 16 bits",
    "add_": "operations do not change their inputs: x = x + y, or x[...] = values outside a tape",
    "mul_": "operations do not change their inputs: x = x * y, or x[...] = values outside a tape",
    "copy_": "x[...] = values, outside a tape",
    "zero_": "x.fill(0), outside a tape",
    "fill_": "x.fill(value), outside a tape",
    "vmap": "operations take leading axes as a batch; eg.per_sample_gradients gives a gradient for each sample",
    "jit": "operations run as they are called; there is nothing to compile",
    "compile": "operations run as they are called; there is nothing to compile",
    "array": "eg.tensor(numbers), which shares an array's memory; copy=True copies",
    "asarray": "eg.tensor(numbers), which shares an array's memory",
    "rand": "eg.random.uniform(shape)",
    "randn": "eg.random.normal(shape)",
    "randint": "eg.random.integers(shape, low=0, high=10)",
    "zeros_like": "eg.zeros(x.shape, dtype=x.dtype)",
    "ones_like": "eg.ones(x.shape, dtype=x.dtype)",
    "allclose": "eg.relative_error(a, b) < 1e-6, or np.allclose(a, b)",
    "device_put": "x.to('cuda')",
    "inference_mode": "with eg.no_grad():",
    "autograd": _RECORD,
    "DataLoader": "eg.data.Loader(dataset, batch_size=...)",
    "Dataset": "eg.data.ArrayDataset(images, labels)",
    "TensorDataset": "eg.data.ArrayDataset(images, labels)",
    "percentile": "eg.quantile(x, p / 100)",
}

# The same for arguments of functions that make tensors.
ARGUMENT_WORDS = {"requires_grad": _RECORD}

# The same for modules.
MODULE_WORDS = {
    "ModuleList": "assign a list of modules to an attribute: self.blocks = [eg.nn.Block(...), ...]",
    "ModuleDict": "assign each module to an attribute of its own",
    "TransformerEncoderLayer": "eg.nn.Block(eg.nn.BlockConfig(dim=..., heads=...))",
    "CrossEntropyLoss": "losses are functions: eg.ops.cross_entropy(logits, labels)",
    "MSELoss": "losses are functions: eg.ops.mse_loss(x, target)",
    "losses": "losses are functions: eg.ops.cross_entropy(logits, labels), eg.ops.mse_loss(x, target)",
    "BatchNorm2d": "eg.nn.BatchNorm(channels)",
    "MaxPool2d": "eg.ops.max_pool2d(x, kernel_size=2)",
    "LSTM": "there are no recurrent layers; eg.ops.linear_scan is a linear recurrence",
    "functional": "eg.ops has every operation as a function",
    "init": "a module draws its weights from its key; write others with module.weight[...] = values",
}
