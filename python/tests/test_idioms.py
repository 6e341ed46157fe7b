"""What people who come from NumPy, PyTorch or MLX type: each idiom runs, or its error names what to type instead."""

import re

import numpy as np
import pytest

import equigrad as eg

nn = eg.nn
N = np.arange(6.0).reshape(2, 3) - 2.5
M = np.array([[3.0, 1.0], [2.0, 5.0], [4.0, 0.5]])
K = np.array([[4, 1, 3], [0, 2, 9]])
V = np.array([1.0, 2.0, 3.0])
C = np.arange(24.0).reshape(2, 3, 4)


def names():
    """What idioms see: x, m, k, v, c as tensors, and the same arrays in capitals."""
    eg.random.seed(0)
    tensors = {name.lower(): eg.tensor(array.copy()) for name, array in {"X": N, "M": M, "K": K, "V": V, "C": C}.items()}
    return {**tensors, "X": N, "M": M, "K": K, "V": V, "C": C, "np": np, "eg": eg, "nn": nn}


# (what is typed, what NumPy gives)
RUNS = [
    # reductions and their axes
    ("x.sum(axis=0)", "X.sum(axis=0)"),
    ("x.sum(dim=0)", "X.sum(axis=0)"),
    ("x.sum(0)", "X.sum(0)"),
    ("x.sum(axes=(0, 1))", "X.sum()"),
    ("x.sum(axis=(0, 1))", "X.sum()"),
    ("x.sum(axis=None)", "X.sum()"),
    ("x.sum(dim=-1, keepdim=True)", "X.sum(-1, keepdims=True)"),
    ("x.sum(axis=-1, keepdims=True)", "X.sum(-1, keepdims=True)"),
    ("x.mean(axis=1)", "X.mean(axis=1)"),
    ("x.mean()", "X.mean()"),
    ("x.std(axis=0)", "X.std(axis=0, ddof=1)"),
    ("x.var(axis=0, ddof=0)", "X.var(axis=0)"),
    ("x.prod(axis=1)", "X.prod(axis=1)"),
    ("x.amax(axis=0)", "X.max(axis=0)"),
    ("x.amin(dim=1)", "X.min(axis=1)"),
    ("x.max(axis=0)", "X.max(axis=0)"),
    ("x.min(axis=1)", "X.min(axis=1)"),
    ("x.amax()", "X.max()"),
    ("x.max()", "X.max()"),
    ("x.min(dim=0)", "X.min(axis=0)"),
    ("x.argmax()", "X.argmax()"),
    ("eg.max(x)", "X.max()"),
    ("eg.argmin(x, axis=0)", "X.argmin(axis=0)"),
    ("x.unsqueeze(dim=0)", "X[None]"),
    ("x[None].squeeze(dim=0)", "X"),
    ("eg.linalg.inv(m[:2])", "np.linalg.inv(M[:2])"),
    ("eg.linalg.det(m[:2])", "np.linalg.det(M[:2])"),
    ("eg.linalg.solve(m[:2], v[:2])", "np.linalg.solve(M[:2], V[:2])"),
    ("eg.linalg.svd(m, full_matrices=False)[1]", "np.linalg.svd(M, full_matrices=False)[1]"),
    ("eg.linalg.pinv(m)", "np.linalg.pinv(M)"),
    ("eg.linalg.matrix_rank(m)", "np.linalg.matrix_rank(M)"),
    ("x.argmax(axis=1)", "X.argmax(axis=1)"),
    ("x.argmin(dim=0)", "X.argmin(axis=0)"),
    ("x.cumsum(axis=1)", "X.cumsum(axis=1)"),
    ("x.logsumexp(axis=1)", "np.log(np.exp(X).sum(axis=1))"),
    ("eg.sum(x, axis=0)", "X.sum(axis=0)"),
    ("eg.mean(x, 0)", "X.mean(0)"),
    ("(x > 0).any()", "(X > 0).any()"),
    ("(x > -9).all(axis=0)", "(X > -9).all(axis=0)"),
    ("x.norm()", "np.linalg.norm(X)"),
    # elementwise, as methods and as functions
    ("x.exp()", "np.exp(X)"),
    ("eg.exp(x)", "np.exp(X)"),
    ("x.abs().log()", "np.log(np.abs(X))"),
    ("x.abs().sqrt()", "np.sqrt(np.abs(X))"),
    ("eg.sin(x) + eg.cos(x)", "np.sin(X) + np.cos(X)"),
    ("x.tanh()", "np.tanh(X)"),
    ("x.relu()", "np.maximum(X, 0)"),
    ("eg.ops.softmax(x, axis=-1).sum(-1)", "np.ones(2)"),
    ("eg.softmax(x, dim=-1).sum(-1)", "np.ones(2)"),
    ("x.softmax(dim=-1).sum(dim=-1)", "np.ones(2)"),
    ("x.clip(-1, 1)", "X.clip(-1, 1)"),
    ("x.clamp(min=0.0)", "X.clip(0)"),
    ("eg.maximum(x, 0.0)", "np.maximum(X, 0)"),
    ("x.pow(2)", "X ** 2"),
    ("x.square()", "X ** 2"),
    ("abs(x)", "np.abs(X)"),
    ("x.sign()", "np.sign(X)"),
    ("x.round()", "np.round(X)"),
    ("x.floor()", "np.floor(X)"),
    ("eg.where(x > 0, x, 0.0)", "np.where(X > 0, X, 0)"),
    ("eg.power(x, 2.0)", "X ** 2"),
    ("eg.isnan(x)", "np.isnan(X)"),
    ("x.add(1.0)", "X + 1"),
    ("x.mul(x)", "X * X"),
    ("x // 2", "X // 2"),
    ("7.0 // (x * x)", "7.0 // (X * X)"),
    ("x % 2", "X % 2"),
    ("x + np.float64(1)", "X + 1"),
    ("1 - x", "1 - X"),
    ("x / 49", "X / 49"),
    ("x / x.abs().max()", "X / np.abs(X).max()"),
    ("-x", "-X"),
    # products
    ("x @ m", "X @ M"),
    ("x @ v", "X @ V"),
    ("v @ m", "V @ M"),
    ("v @ v", "V @ V"),
    ("X @ v", "X @ V"),
    ("x.T @ x", "X.T @ X"),
    ("eg.matmul(x, m)", "X @ M"),
    ("x.matmul(m)", "X @ M"),
    ("v.dot(v)", "V.dot(V)"),
    ("eg.einsum([x, m], equation='ij,jk->ik')", "X @ M"),
    # shapes
    ("x.reshape(3, 2)", "X.reshape(3, 2)"),
    ("x.reshape((3, -1))", "X.reshape(3, 2)"),
    ("x.view(3, 2)", "X.reshape(3, 2)"),
    ("x.flatten()", "X.ravel()"),
    ("x.ravel()", "X.ravel()"),
    ("c.flatten(1)", "C.reshape(2, 12)"),
    ("c.transpose(0, 2)", "C.swapaxes(0, 2)"),
    ("c.swapaxes(0, 1)", "C.swapaxes(0, 1)"),
    ("c.permute(2, 0, 1)", "C.transpose(2, 0, 1)"),
    ("c.mT", "C.swapaxes(1, 2)"),
    ("x.unsqueeze(0).squeeze(0)", "X"),
    ("eg.expand_dims(x, axis=0)", "X[None]"),
    ("eg.stack([x, x], axis=1)", "np.stack([X, X], axis=1)"),
    ("eg.concat([x, x], axis=0)", "np.concatenate([X, X])"),
    ("eg.concatenate([x, x], axis=-1)", "np.concatenate([X, X], axis=-1)"),
    ("eg.cat([x, x], dim=0)", "np.concatenate([X, X])"),
    ("eg.stack([x, x])", "np.stack([X, X])"),
    ("x.flip(0)", "X[::-1]"),
    ("x.roll(1, axis=1)", "np.roll(X, 1, axis=1)"),
    ("x.tril()", "np.tril(X)"),
    ("x.repeat_interleave(2, axis=0)", "X.repeat(2, axis=0)"),
    ("len(x)", "2"),
    ("x.ndim, x.size, x.numel(), x.dim()", "(2, 6, 6, 2)"),
    ("x.shape", "(2, 3)"),
    # element types
    ("x.dtype == np.float64", "True"),
    ("x.dtype == 'float64'", "True"),
    ("x.dtype == eg.float64", "True"),
    ("x.dtype == eg.float32", "False"),
    ("eg.zeros((2,), dtype='float32').dtype == 'f32'", "True"),
    ("eg.zeros((2,), dtype=np.float64).dtype == eg.float64", "True"),
    ("x.astype('float32').dtype == eg.float32", "True"),
    ("x.astype(np.float32).dtype == eg.float32", "True"),
    ("x.float().dtype == eg.float32", "True"),
    ("x.float().double().dtype == eg.float64", "True"),
    ("x.long()", "X.astype(np.int64)"),
    ("x.to('f32').to(eg.float64)", "X"),
    # making
    ("eg.zeros(2, 3)", "np.zeros((2, 3))"),
    ("eg.ones(2, 3, dtype='f64')", "np.ones((2, 3))"),
    ("eg.zeros((2, 3))", "np.zeros((2, 3))"),
    ("eg.full((2,), 3.0)", "np.full(2, 3.0)"),
    ("eg.arange(4)", "np.arange(4)"),
    ("eg.linspace(0, 1, 5, dtype='f64')", "np.linspace(0, 1, 5)"),
    ("eg.eye(3)", "np.eye(3)"),
    ("eg.tensor([[1.0, 2.0], [3.0, 4.0]])", "np.array([[1, 2], [3, 4]])"),
    ("np.asarray(x)", "X"),
    ("x.numpy()", "X"),
    ("x.tolist()", "X.tolist()"),
    ("x.copy()", "X"),
    ("x.detach().clone().cpu()", "X"),
    ("x[0, 1].item()", "X[0, 1]"),
    ("eg.random.normal((2, 3)).shape", "(2, 3)"),
    ("eg.random.uniform((2,)).shape", "(2,)"),
    ("eg.random.integers((2,), low=0, high=5).shape", "(2,)"),
    ("eg.random.permutation(5).double().sort().values", "np.arange(5)"),
    ("eg.manual_seed(3)", "None"),
    # indices
    ("x[x > 0]", "X[X > 0]"),
    ("x[X > 0]", "X[X > 0]"),
    ("x[[0, 1], [1, 2]]", "X[[0, 1], [1, 2]]"),
    ("x[[1, 0]]", "X[[1, 0]]"),
    ("x[:, [2, 0]]", "X[:, [2, 0]]"),
    ("c[0, :, [1, 2]]", "C[0][:, [1, 2]]"),
    ("c[[0, 1], :, [1, 2]]", "C[[0, 1], :, [1, 2]]"),
    ("c[[[0], [1]], [[0, 2]]]", "C[[[0], [1]], [[0, 2]]]"),
    ("c[c.sum(axis=-1) > 30]", "C[C.sum(axis=-1) > 30]"),
    ("x[-1, ::2]", "X[-1, ::2]"),
    ("x[..., None]", "X[..., None]"),
    ("x.index_select([1], axis=0)", "X[[1]]"),
    ("eg.take_along_axis(x, (k > 2).long(), axis=0)", "np.take_along_axis(X, (K > 2).astype(int), axis=0)"),
    # integers
    ("k.cumsum(axis=1)", "K.cumsum(axis=1)"),
    ("k == 3", "K == 3"),
    ("(k.double() + 1).long()", "K + 1"),
    # modules
    ("nn.Linear(3, 4)(x.float()).shape", "(2, 4)"),
    ("nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 2))(x.float()).shape", "(2, 2)"),
    ("nn.GELU()(x)", "X * 0.5 * (1 + np.vectorize(__import__('math').erf)(X / 2 ** 0.5))"),
    ("nn.RMSNorm(3)(x.float()).shape", "(2, 3)"),
    ("nn.MLP(3, 8)(x.float()).shape", "(2, 3)"),
    ("nn.MultiHeadAttention(12, 3)(eg.zeros(1, 5, 12)).shape", "(1, 5, 12)"),
    ("nn.Dropout(0.5)(x.float()).shape", "(2, 3)"),
    ("nn.ViT is nn.Vit", "True"),
    ("nn.Linear(3, 4).eval().to('f64')(x).shape", "(2, 4)"),
    ("[name for name, _ in nn.Sequential(nn.Linear(3, 4)).named_parameters()]", "['0.weight', '0.bias']"),
    ("nn.Linear(3, 2).train().training", "True"),
    ("nn.Flatten()(c).shape", "(2, 12)"),
]

# (what is typed, the error, what its words must name)
WORDS = [
    ("x.backward()", AttributeError, "tape.gradient"),
    ("x.requires_grad_()", AttributeError, "eg.Tape()"),
    ("x.grad", AttributeError, "tape.gradient"),
    ("x.add_(1)", AttributeError, "x = x + y"),
    ("x.zero_()", AttributeError, "x.fill(0)"),
    ("x.half()", AttributeError, "bf16"),
    ("x.nonzero()", AttributeError, "x[mask]"),
    ("x.softmx(-1)", AttributeError, "did you mean softmax?"),
    ("eg.vmap(lambda a: a)", AttributeError, "per_sample_gradients"),
    ("eg.jit(lambda a: a)", AttributeError, "nothing to compile"),
    ("eg.float16", AttributeError, "bfloat16"),
    ("eg.int32", AttributeError, "int64"),
    ("eg.sofmax", AttributeError, "did you mean softmax?"),
    ("nn.ModuleList([])", AttributeError, "list of modules"),
    ("nn.CrossEntropyLoss()", AttributeError, "eg.ops.cross_entropy"),
    ("nn.functional", AttributeError, "eg.ops"),
    ("nn.Liner(3, 4)", AttributeError, "did you mean Linear?"),
    ("eg.ones(3) + x", eg.DTypeError, "f32"),
    ("eg.ones(3) + eg.arange(3)", eg.DTypeError, "i64"),
    ("eg.zeros((2,), dtype='float16')", eg.ValueError, "f32"),
    # arithmetic, reductions and order of integers
    ("k + 1", eg.DTypeError, "convert it with to("),
    ("k - k", eg.DTypeError, "convert it with to("),
    ("2 * k", eg.DTypeError, "convert it with to("),
    ("k * k", eg.DTypeError, "convert it with to("),
    ("-k", eg.DTypeError, "convert it with to("),
    ("k // 2", eg.DTypeError, "convert it with to("),
    ("k % 3", eg.DTypeError, "convert it with to("),
    ("abs(-k)", eg.DTypeError, "convert it with to("),
    ("k.sum()", eg.DTypeError, "convert it with to("),
    ("k.sum(axis=0)", eg.DTypeError, "convert it with to("),
    ("k.max(axis=1)", eg.DTypeError, "convert it with to("),
    ("k.amin()", eg.DTypeError, "convert it with to("),
    ("k.argmax(axis=1)", eg.DTypeError, "convert it with to("),
    ("k.sort(axis=1).values", eg.DTypeError, "convert it with to("),
    ("k.argsort(axis=1)", eg.DTypeError, "convert it with to("),
    ("k.clip(1, 3)", eg.DTypeError, "convert it with to("),
    ("x.sum(axs=0)", TypeError, "axes"),
    ("x.max(axis=0, dim=0)", TypeError, "give one"),
    ("eg.ops.max(x, axis=None)", TypeError, "axis"),
    ("eg.array([1.0])", AttributeError, "eg.tensor"),
    ("eg.randn(2)", AttributeError, "eg.random.normal"),
    ("nn.BatchNorm2d(3)", AttributeError, "eg.nn.BatchNorm"),
    ("nn.Linear(2, 3, False)", TypeError, "key"),
    ("setattr(nn.Sequential(), '0.weight', nn.Parameter(x))", eg.ValueError, "dot"),
    ("nn.Sequential(nn.ReLU())[3]", eg.IndexError, "no module 3"),
    ("x.flatten(5)", eg.IndexError, "outside"),
    ("x.expand(4, 2, 3).__setitem__(0, 1.0)", eg.ValueError, "clone"),
    ("nn.MultiHeadAttention(10, 3)", eg.ValueError, "head_dim"),
    ("np.sin(x)", TypeError, "eg.sin|__array_ufunc__"),
]


def test_there_are_at_least_120_idioms():
    assert len(RUNS) + len(WORDS) >= 120
    assert len({idiom for idiom, *_ in RUNS + WORDS}) == len(RUNS) + len(WORDS)


def alike(found, wanted):
    if isinstance(found, eg.Tensor):
        found = found.numpy()
    if isinstance(wanted, np.ndarray) or isinstance(found, np.ndarray):
        assert np.shape(found) == np.shape(wanted)
        return np.allclose(found, wanted, rtol=1e-12, atol=1e-12)
    return found == wanted


@pytest.mark.parametrize("idiom, numpy", RUNS, ids=[idiom for idiom, _ in RUNS])
def test_idiom_gives_what_numpy_gives(idiom, numpy):
    assert alike(eval(idiom, names()), eval(numpy, names()))


def test_a_wrong_result_would_be_noticed():
    assert not alike(eval("x.sum(axis=1)", names()), eval("X.sum(axis=1) + 1e-6", names()))
    with pytest.raises(AssertionError):
        alike(eval("x.sum(axis=1)", names()), eval("X.sum(axis=0)", names()))


@pytest.mark.parametrize("idiom, error, words", WORDS, ids=[idiom for idiom, *_ in WORDS])
def test_what_does_not_run_says_what_to_type(idiom, error, words):
    with pytest.raises(error, match=re.escape(words).replace(r"\|", "|")) as raised:
        eval(idiom, names())
    assert "\n" not in str(raised.value)


STATEMENTS = {
    "a mask is written": ("x[x > 0] = 0.0", "X[X > 0] = 0.0"),
    "lists are written": ("x[[0, 1], [2, 0]] = [7.0, 8.0]", "X[[0, 1], [2, 0]] = [7.0, 8.0]"),
    "the last of equal places counts": ("x[[0, 0]] = M.T", "X[[0, 0]] = M.T"),
    "a list and a slice are written": ("x[:, [2, 1]] = M[:2]", "X[:, [2, 1]] = M[:2]"),
}


@pytest.mark.parametrize("statement, numpy", STATEMENTS.values(), ids=STATEMENTS)
def test_what_is_written_by_index_is_what_numpy_writes(statement, numpy):
    here = {**names(), "X": N.copy()}
    exec(statement, here)
    exec(numpy, here)
    assert alike(here["x"], here["X"])


def read_by_numpy(array, parts):
    """array[parts], integers first: beside lists NumPy takes an integer for one of them, PyTorch and equigrad do not."""
    first = tuple(part if isinstance(part, int) or part is Ellipsis else slice(None) for part in parts if part is not None)
    return array[first][tuple(part for part in parts if not isinstance(part, int))]


def test_indices_are_read_as_numpy_reads_them():
    random = np.random.default_rng(1)
    array = random.normal(size=(3, 4, 2, 5))
    tensor = eg.tensor(array)
    tried = 0
    for _ in range(1500):
        parts, axis = [], 0
        lists = random.integers(1, 3, size=random.integers(1, 3)).tolist()
        while axis < 4 and random.random() < 0.9:
            kind = random.choice(["int", "slice", "list", "mask", "new", "rest"])
            extent = array.shape[axis]
            if kind == "new":
                if sum(part is None for part in parts) < 2:
                    parts.append(None)
                continue
            if kind == "rest" and not any(part is Ellipsis for part in parts):
                parts.append(Ellipsis)
                axis += int(random.integers(0, 4 - axis))
                continue
            if kind == "int":
                parts.append(int(random.integers(-extent, extent)))
            elif kind == "list":
                parts.append(random.integers(-extent, extent, size=lists).tolist())
            elif kind == "mask":
                parts.append(random.random(extent) < 0.5)
            else:
                parts.append(slice(*(None if random.random() < 0.5 else int(random.integers(-extent, extent)) for _ in range(2))))
            axis += 1
        index = tuple(parts)
        try:
            wanted = read_by_numpy(array, parts)
        except IndexError:
            with pytest.raises((IndexError, eg.IndexError, eg.ShapeError)):
                tensor[index]
            continue
        tried += 1
        found = tensor[index]
        assert found.shape == wanted.shape, index
        assert np.array_equal(found.numpy(), wanted), index
    assert tried > 500


def test_gradients_pass_through_masks_and_lists():
    x = eg.tensor(N.copy())
    with eg.Tape() as tape:
        y = (x[x > 0] ** 2.0).sum() + 3.0 * x[[0, 0], [1, 1]].sum()
    wanted = np.where(N > 0, 2 * N, 0.0)
    wanted[0, 1] += 6.0
    assert np.allclose(tape.gradient(y, x).numpy(), wanted)


def test_floor_division_is_numpys():
    random = np.random.default_rng(2)
    a, b = random.normal(size=400) * 10, random.normal(size=400)
    assert np.array_equal((eg.tensor(a) // eg.tensor(b)).numpy(), a // b)
    assert (eg.tensor(np.array([1.0])) // 0.1).item() == 9.0
    with np.errstate(all="ignore"):
        edges = np.array([0.0, 1.0, -1.0, 5.5, -5.5, np.inf, -np.inf, np.nan])
        a, b = (grid.ravel() for grid in np.meshgrid(edges, edges))
        assert np.array_equal((eg.tensor(a) // eg.tensor(b)).numpy(), a // b, equal_nan=True)


def test_division_by_a_number_rounds_once():
    for dtype in ("f4", "f8"):
        x = np.arange(1, 2000).astype(dtype)
        assert np.array_equal((eg.tensor(x) / 255.0).numpy(), x / np.array(255.0, dtype))


@pytest.mark.parametrize("make", [
    lambda: nn.Dropout(0.5),
    lambda: nn.MultiHeadAttention(8, 2, dropout=0.5),
    lambda: nn.Block(nn.BlockConfig(dim=8, heads=2, dropout=0.5)),
])
def test_dropout_without_a_key_drops_others_in_every_step(make):
    model, x = make(), eg.ones(1, 5, 8)
    first, second = model(x), model(x)
    assert not eg.same_bits(first, second)
    assert eg.same_bits(model(x, key=3), model(x, key=3))
    eg.random.seed(1)
    model.eval()
    assert eg.same_bits(model(x), model(x))
    after = eg.random.normal((2,))
    eg.random.seed(1)
    assert eg.same_bits(after, eg.random.normal((2,)))  # evaluation draws no key


def test_without_keys_numbers_are_the_same_in_every_run_and_differ_within_one():
    def drawn():
        eg.random.seed(5)
        return [eg.random.normal((3,)), nn.Linear(3, 3).weight, eg.random.normal((3,))]

    first, second = drawn(), drawn()
    assert all(eg.same_bits(a, b) for a, b in zip(first, second))
    assert not eg.same_bits(first[0], first[2])
    eg.random.seed(6)
    assert not eg.same_bits(eg.random.normal((3,)), first[0])


def test_an_optimizer_takes_what_pytorchs_takes():
    def train(steps, saved=None, load=None):
        model = nn.Sequential(nn.Linear(3, 4, key=1), nn.Tanh(), nn.Linear(4, 1, key=2))
        optimizer = eg.optim.AdamW(
            [{"params": model[0].parameters(), "lr": 1e-3}, {"params": model[2].parameters(), "weight_decay": 0.0}],
            lr=1e-2, betas=(0.8, 0.9), weight_decay=0.1,
        )
        if load:
            model.load_state_dict(load[0])
            optimizer.load_state_dict(load[1])
        for step in steps:
            with eg.Tape() as tape:
                loss = (model(eg.tensor(N.astype("f4"))) - float(step)).square().mean()
            optimizer.step(tape.gradient(loss, model.parameters()))
        return {n: t.clone() for n, t in model.state_dict().items()}, {n: t.clone() for n, t in optimizer.state_dict().items()}

    whole = train(range(6))
    resumed = train(range(3, 6), load=train(range(3)))
    for before, after in zip(whole, resumed):
        assert before.keys() == after.keys()
        assert all(eg.same_bits(before[name], after[name]) for name in before)
    assert not eg.same_bits(whole[0]["0.weight"], train(range(3, 6))[0]["0.weight"])


def test_optimizer_states_that_do_not_fit_change_nothing():
    weight = eg.tensor(N.copy())
    optimizer = eg.optim.Adam([weight], lr=1e-3)
    optimizer.step([weight.clone()])
    state = {name: tensor.clone() for name, tensor in optimizer.state_dict().items()}
    key = next(name for name in state if name.startswith("0."))
    for wrong, words in [
        ({**state, key: eg.zeros(3, dtype="f64")}, "not"),
        ({**state, "1.exp_avg": eg.zeros(1)}, "there is no"),
        ({name: tensor for name, tensor in state.items() if name != key}, "missing"),
        ({**state, "steps": eg.tensor(-1)}, "steps"),
    ]:
        with pytest.raises(eg.Error, match=words):
            optimizer.load_state_dict(wrong)
        assert all(eg.same_bits(state[name], tensor) for name, tensor in optimizer.state_dict().items())
    snapshot = optimizer.state_dict()
    before = {name: tensor.clone() for name, tensor in snapshot.items()}
    optimizer.step([weight.clone()])
    assert all(eg.same_bits(before[name], tensor) for name, tensor in snapshot.items())
    with pytest.raises(eg.ValueError, match="give that a number"):
        eg.optim.SGD([{"params": [weight], "lr": 0.1}], lr=lambda step: 0.1)
    with pytest.raises(TypeError, match="lr=1e-3"):
        eg.optim.SGD([weight]).step([weight])


def test_tensors_are_saved_and_loaded(tmp_path):
    model = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2))
    eg.save(model, tmp_path / "model.safetensors")
    other = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2))
    assert not eg.same_bits(other[0].weight, model[0].weight)
    other.load_state_dict(eg.load(tmp_path / "model.safetensors"))
    assert eg.same_bits(other[0].weight, model[0].weight)
    with pytest.raises(TypeError, match="give a module or tensors by name"):
        eg.save(eg.zeros(2), tmp_path / "x")


def test_modules_are_listed_as_a_tree():
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Sequential(nn.Linear(4, 2)))
    assert [name for name, _ in model.named_modules()] == ["", "0", "1", "2", "2.0"]
    assert [type(module).__name__ for module in model.children()] == ["Linear", "ReLU", "Sequential"]
    assert model.named_children()[0][1] is model[0] and model.modules()[0] is model
    seen = []
    assert model.apply(lambda module: seen.append(type(module).__name__)) is model
    assert seen == ["Linear", "Sequential", "ReLU", "Linear", "Sequential"]
    assert str(model) == (
        "Sequential\n  (0): Linear, weight [4, 3], bias [4]\n  (1): ReLU\n"
        "  (2): Sequential\n    (0): Linear, weight [2, 4], bias [2]"
    )
    vit = nn.Vit(nn.VitConfig(image=8, patch=4, layers=2, encoder=nn.BlockConfig(dim=8, heads=2)))
    names = dict(vit.named_modules())
    assert isinstance(names["blocks.1.attention"], nn.MultiHeadAttention)
    listed = {f"{name}.{own}" if name else own for name, module in names.items() for own, _ in module.named_parameters() if "." not in own}
    assert listed == {name for name, _ in vit.named_parameters()}
    shared = nn.Linear(3, 3)
    assert len(nn.Sequential(shared, shared).modules()) == 2


def test_own_images_are_a_dataset():
    images = np.arange(5 * 3 * 4 * 4, dtype=np.uint8).reshape(5, 3, 4, 4)
    dataset = eg.data.ArrayDataset(images, [0, 2, 1, 0, 2])
    assert (len(dataset), dataset.channels, dataset.class_names) == (5, 3, ["0", "1", "2"])
    assert np.array_equal(dataset.pixels(3), images[3]) and dataset.label(1) == 2
    loader = eg.data.Loader(dataset, batch_size=2, shuffle=True, seed=1)
    first, again = ([batch.labels.tolist() for batch in loader.epoch(4)] for _ in range(2))
    assert first == again and len(first) == len(loader) == 3 and sorted(sum(first, [])) == [0, 0, 1, 2, 2]
    grey = eg.data.ArrayDataset(images[:, 0], np.zeros(5, dtype=np.int64), class_names=["one"])
    assert grey.channels == 1 and np.array_equal(grey.pixels(2)[0], images[2, 0])
    for bad, error, words in [
        ((images.astype("f4"), [0] * 5), eg.DTypeError, "u8"),
        ((images[0, 0], [0] * 4), eg.ShapeError, "channels"),
        ((images, [0] * 4), eg.ShapeError, "one an image"),
        ((images, [0, 1, 2, 3, -1]), eg.ValueError, "-1"),
        ((images, [0.5] * 5), eg.DTypeError, "integers"),
        ((images, [0, 1, 2, 0, 1], ["a", "b"]), eg.ValueError, "2 class names"),
    ]:
        with pytest.raises(error, match=words):
            eg.data.ArrayDataset(*bad)
