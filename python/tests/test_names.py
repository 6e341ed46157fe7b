"""Names that other libraries have: each is one here, or the error says what to type. And what it says exists."""

import re

import equigrad as eg
import numpy as np
import pytest

from equigrad import _names

nn = eg.nn

# What people of PyTorch, NumPy and MLX type most.
TOP = """
abs absolute acos acosh add addbmm addcdiv addcmul addmm addmv addr all allclose amax amin aminmax angle any arange
arccos arccosh arcsin arcsinh arctan arctan2 arctanh argmax argmin argpartition argsort argwhere array array_equal
array_split as_strided as_tensor asarray ascontiguousarray asin asinh atan atan2 atanh atleast_1d atleast_2d autograd
average backends baddbmm bernoulli bfloat16 bincount bitwise_and bitwise_or block_diag bmm bool_ broadcast_arrays
broadcast_shapes broadcast_tensors broadcast_to bucketize cat cbrt cdist ceil chunk clamp clamp_max clamp_min clip
column_stack compile complex64 compress concat concatenate conj convolve copysign corrcoef correlate cos cosh
count_nonzero cov cross cuda cummax cummin cumprod cumsum deg2rad degrees det device diag diag_embed diagonal diff
digitize dist distributed div divide divmod dot double dsplit dstack dtype eig einsum empty empty_like enable_grad eq
equal erf erfc eval exp exp2 expand_dims expm1 eye fft finfo fix flatnonzero flatten flip fliplr flipud float float16
float32 float64 float_power floor floor_divide fmax fmin fmod frac frombuffer from_dlpack from_numpy full full_like func
gather ge geomspace gradient greater greater_equal gt half heaviside histc histogram hsplit hstack hypot identity iinfo
imag index_add index_copy index_fill index_put index_select inference_mode inner int int16 int32 int64 int8 interp inv
inverse is_floating_point is_grad_enabled is_tensor isclose isfinite isin isinf isnan isneginf isposinf isreal jit kron
kthvalue ldexp le lerp less less_equal lexsort linalg linspace load loadtxt log log10 log1p log2 logaddexp logcumsumexp
logical_and logical_not logical_or logical_xor logit logspace logsumexp long lt lu manual_seed masked_fill masked_scatter
masked_select matmul matrix_exp matrix_power max maximum mean median meshgrid min minimum mm mod mode modf moveaxis
movedim msort mul multinomial multiply mv nan_to_num nanmax nanmean nanmedian nanmin nanstd nansum ndim ne neg negative
nn no_grad nonzero norm normal normalize not_equal ones ones_like optim outer pad partition percentile permute
permute_dims piecewise polar pow power prelu prod ptp put_along_axis qr quantile rad2deg radians rand rand_like randint
randn randn_like random randperm ravel real reciprocal relu remainder repeat repeat_interleave reshape rint roll
rollaxis rot90 round row_stack rsqrt save savez scatter scatter_add searchsorted select set_default_device
set_default_dtype set_grad_enabled set_num_threads set_printoptions shape sigmoid sign signbit sin sinc sinh size
sliding_window_view softmax solve sort split sqrt square squeeze stack std std_mean stop_gradient stream sub subtract
sum svd swapaxes swapdims t take take_along_axis take_along_dim tan tanh tensor tensor_split tensordot testing threshold
tile topk trace transpose trapezoid trapz tri tril tril_indices triu true_divide trunc uint8 unbind unflatten uniform
unique unsqueeze unstack use_deterministic_algorithms utils value_and_grad var var_mean vdot vmap vsplit vstack where
zeros zeros_like
""".split()

TENSOR = """
T mT abs add all amax amin any argmax argmin argsort astype at backward bfloat16 bmm bool byte char chunk clamp clamp_
clamp_min clip clone contiguous copy copy_ cos cpu cross cuda cumprod cumsum data data_ptr det detach detach_ device diag
diagonal diff dim div dot double dtype dump element_size eq exp exp_ expand expand_as fill fill_ flatten flip float
floor gather ge get_device grad grad_fn gt half index_add index_add_ index_copy index_fill index_put index_select int inverse
is_contiguous is_cuda is_floating_point is_leaf item itemsize kthvalue le log logical_and logsumexp long lt masked_fill
masked_fill_ masked_select matmul max mean median min mm mul mul_ mv narrow nbytes ndim ne neg new_empty new_full new_ones
new_tensor new_zeros nonzero norm normal_ numel numpy permute pin_memory pow prod put ravel reciprocal register_hook relu
relu_ remainder repeat repeat_interleave requires_grad requires_grad_ reshape reshape_as retain_grad roll round rsqrt
scatter scatter_ scatter_add scatter_add_ select shape short sigmoid sign sin size softmax sort split sqrt square squeeze std
storage stride sub sub_ sum swapaxes t take tan tanh tile to tobytes tolist topk trace transpose tril triu trunc type
type_as unbind unflatten unfold uniform_ unique unsqueeze unsqueeze_ var view view_as where zero_
""".split()

MODULES = """
AdaptiveAvgPool1d AdaptiveAvgPool2d AdaptiveMaxPool2d AlphaDropout AvgPool1d AvgPool2d BCELoss BCEWithLogitsLoss
BatchNorm BatchNorm1d BatchNorm2d BatchNorm3d Bilinear Buffer CELU CTCLoss ConstantPad2d Conv1d Conv2d Conv3d
ConvTranspose1d ConvTranspose2d CosineEmbeddingLoss CosineSimilarity CrossEntropyLoss DataParallel Dropout Dropout1d
Dropout2d Dropout3d ELU Embedding EmbeddingBag Flatten Fold GELU GLU GRU GRUCell GroupNorm Hardsigmoid Hardswish Hardtanh
HuberLoss Identity InstanceNorm InstanceNorm1d InstanceNorm2d KLDivLoss L1Loss LSTM LSTMCell LayerNorm LazyLinear
LeakyReLU Linear LogSigmoid LogSoftmax MSELoss MarginRankingLoss MaxPool1d MaxPool2d Mish Module ModuleDict ModuleList
MultiHeadAttention MultiheadAttention NLLLoss PReLU PairwiseDistance Parameter ParameterDict ParameterList PixelShuffle
QuantizedLinear RMSNorm RNN RReLU ReLU ReLU6 ReflectionPad2d RoPE SELU Sequential SiLU Sigmoid SinusoidalPositionalEncoding
SmoothL1Loss Softmax Softmax2d Softmin Softplus SyncBatchNorm Tanh Threshold Transformer TransformerDecoder
TransformerDecoderLayer TransformerEncoder TransformerEncoderLayer TripletMarginLoss Unfold Upsample ZeroPad2d functional
gelu init losses parallel quantize relu silu softmax utils value_and_grad
""".split()

OPTIMISERS = """
ASGD AdaFactor Adadelta Adafactor Adagrad Adam AdamW Adamax CosineAnnealingLR LBFGS LambdaLR Lion Muon NAdam OneCycleLR
Optimizer RAdam RMSprop ReduceLROnPlateau Rprop SGD Schedule StepLR clip_grad_norm clip_grad_norm_ cosine_decay
exponential_decay join_schedules linear_schedule lr_scheduler step_decay swa_utils
""".split()

OF_A_MODULE = """
add_module apply bfloat16 buffers children cpu cuda double eval float freeze get_parameter get_submodule half
in_features load_state_dict load_weights modules named_buffers named_children named_modules named_parameters out_features
parameters register_backward_hook register_buffer register_forward_hook register_forward_pre_hook register_module
register_parameter requires_grad_ save_weights state_dict to train training trainable_parameters unfreeze update zero_grad
""".split()

OF_AN_OPTIMISER = "add_param_group learning_rate load_state_dict param_groups state state_dict step update zero_grad".split()
OF_DATA = "ConcatDataset DataLoader Dataset Loader RandomSampler Subset TensorDataset random_split transforms".split()

PLACES = {
    "eg": (lambda: eg, TOP),
    "tensor": (lambda: eg.ones(2, 3), TENSOR),
    "nn": (lambda: nn, MODULES),
    "optim": (lambda: eg.optim, OPTIMISERS),
    "module": (lambda: nn.Linear(2, 3, key=1), OF_A_MODULE),
    "optimizer": (lambda: eg.optim.SGD([eg.ones(2)], lr=0.1), OF_AN_OPTIMISER),
    "data": (lambda: eg.data, OF_DATA),
}


@pytest.mark.parametrize("place", PLACES)
def test_every_name_is_there_or_has_words(place):
    make, names = PLACES[place]
    where, bare = make(), []
    assert len(names) == len(set(names))
    for name in names:
        try:
            getattr(where, name)
        except AttributeError as error:
            words = str(error)
            assert "\n" not in words
            if re.search(r" no (attribute )?'\w+'(;.*)?$", words):  # that there is none, and a guess
                bare.append(name)
    assert bare == []


def dictionaries():
    return {name: value for name, value in vars(_names).items() if name.isupper() and isinstance(value, dict)}


@pytest.mark.parametrize("name", [name for name in dictionaries() if name != "OPERATIONS"])
def test_words_name_what_there_is(name):
    """Every eg.something in the words exists, and so does every method of x, model, optimizer and tape in them."""
    x, model = eg.ones(2, 3), nn.Linear(2, 3, key=1)
    places = {"x": x, "model": model, "optimizer": eg.optim.SGD([x], lr=0.1), "tape": eg.Tape(), "self": nn.Module(), "np": np}
    seen = 0
    for key, words in dictionaries()[name].items():
        for path in re.findall(r"\beg((?:\.\w+)+)", words):
            seen += 1
            found = eg
            for part in path[1:].split("."):
                assert hasattr(found, part), (key, words)
                found = getattr(found, part)
        for owner, attribute in re.findall(r"(?<![\w.])(x|model|optimizer|tape|self|np)\.(\w+)", words):
            if owner == "self" and attribute not in ("register_state",):
                continue  # an attribute of the user's
            seen += 1
            assert hasattr(places[owner], attribute), (key, words)
    assert seen > 0 or name == "CALL_WORDS"


def test_words_that_are_expressions_give_what_they_promise():
    """Some of the longer ones, beside NumPy."""
    X = np.arange(6.0).reshape(2, 3) - 2.5
    A, B = X + 0.25, X[::-1].copy()
    x, a, b = eg.tensor(X), eg.tensor(A), eg.tensor(B)
    i = [0, 1]
    names = {"eg": eg, "np": np, "x": x, "a": a, "b": b, "y": b, "i": i, "n": 2, "p": 30, "v": x[0], "w": a.abs()}

    def of(word):
        return eval(_names.WORDS[word].split(";")[0], names)

    pairs = [
        ("ptp", np.ptp(X)),
        ("average", np.average(X, weights=np.abs(A))),
        ("hypot", np.hypot(A, B)),
        ("cbrt", np.cbrt(X)),
        ("logaddexp", np.logaddexp(A, B)),
        ("isclose", np.isclose(A, B)),
        ("nan_to_num", np.nan_to_num(X)),
        ("copysign", np.copysign(X, B)),
        ("diff", np.diff(X, axis=0)),
        ("flatnonzero", np.flatnonzero(X)),
        ("fliplr", np.fliplr(X)),
        ("rot90", np.rot90(X)),
        ("vdot", np.vdot(X, B)),
        ("dstack", np.dstack([A, B])),
        ("percentile", np.percentile(X, 30)),
        ("tri", np.tri(2)),
        ("cdist", np.linalg.norm(X[:, None] - B[None], axis=-1)),
    ]
    for word, wanted in pairs:
        found = np.asarray(of(word))
        assert found.shape == np.shape(wanted) and np.allclose(found, wanted, atol=1e-12), word
