"""Windows of images, convolution, pooling, interpolation."""

import torch
import torch.nn.functional as nn

from cases import F, layouts, row

lay = layouts("images")


def f(s, draw="n"):
    return F(s, draw, lay(s, draw != "d"))


def pair(numbers, otherwise=None):
    """torch wants both numbers, or one that is no list."""
    return otherwise if not numbers else tuple(numbers) * (2 if len(numbers) == 1 else 1)


def windows(a):
    return {"stride": pair(a.get("stride"), 1), "padding": pair(a.get("padding"), 0), "dilation": pair(a.get("dilation"), 1)}


# image, kernel, and the rest of the attributes
UNFOLDS = [((1, 1, 3, 3), [2], {}), ((1, 2, 3, 4), [2, 1], {}), ((2, 1, 4, 4), [2], {"stride": [2]}), ((1, 1, 3, 3), [3], {"padding": [1]}), ((1, 1, 5, 3), [2], {"dilation": [2]}),
           ((1, 1, 4, 5), [3, 2], {"stride": [1, 2], "padding": [1, 0]}), ((1, 1, 1, 1), [1], {}), ((2, 2, 2, 2), [2], {}), ((1, 1, 1, 7), [1, 3], {}), ((1, 1, 7, 1), [3, 1], {"stride": [2]}), ((1, 3, 2, 2), [1], {}),
           ((1, 1, 4, 4), [2], {"stride": [3], "padding": [1]}), ((0, 1, 3, 3), [2], {}), ((1, 1, 5, 5), [3], {"stride": [2]}), ((1, 1, 5, 5), [2], {"dilation": [3]}), ((1, 2, 3, 3), [3], {}), ((3, 1, 2, 3), [2], {}),
           ((1, 1, 2, 2), [2], {"padding": [1]}), ((1, 1, 6, 2), [2], {"stride": [2, 1]}), ((1, 1, 3, 5), [2, 3], {"padding": [0, 1]}), ((2, 1, 3, 3), [2], {"stride": [2]}), ((1, 1, 4, 4), [3], {"stride": [1], "dilation": [1], "padding": [0]})]
row("unfold", lambda a, x: nn.unfold(x, pair(a["kernel_size"]), **windows(a)), [({"kernel_size": k, **a}, [f(s)]) for s, k, a in UNFOLDS if s[0]] + [({"kernel_size": [2]}, [f((1, 1, 2, 5))])])


def columns(s, k, a):
    return tuple(nn.unfold(torch.zeros(s), pair(k), **windows(a)).shape)


row("fold", lambda a, x: nn.fold(x, a["output_size"], pair(a["kernel_size"]), **windows(a)),
    [({"output_size": list(s[2:]), "kernel_size": k, **a}, [f(columns(s, k, a))]) for s, k, a in UNFOLDS if s[0]] + [({"output_size": [2, 5], "kernel_size": [2]}, [f((1, 4, 4))])])

# image, kernel [out, in / groups, rows, columns], attributes
CONVOLUTIONS = [((1, 1, 3, 3), (1, 1, 2, 2), {}), ((1, 2, 3, 4), (2, 2, 2, 1), {}), ((2, 1, 4, 4), (2, 1, 2, 2), {"stride": [2]}), ((1, 1, 3, 3), (1, 1, 3, 3), {"padding": [1]}), ((1, 1, 5, 3), (1, 1, 2, 2), {"dilation": [2]}),
                ((1, 1, 4, 5), (1, 1, 3, 2), {"stride": [1, 2], "padding": [1, 0]}), ((1, 1, 1, 1), (1, 1, 1, 1), {}), ((1, 2, 3, 3), (2, 1, 2, 2), {"groups": 2}), ((1, 2, 3, 3), (4, 1, 2, 2), {"groups": 2}), ((1, 4, 2, 2), (2, 2, 2, 2), {"groups": 2}),
                ((1, 3, 2, 2), (3, 1, 2, 2), {"groups": 3, "padding": [1]}), ((2, 3, 2, 2), (2, 3, 1, 1), {}), ((1, 1, 1, 7), (1, 1, 1, 3), {}), ((1, 1, 7, 1), (1, 1, 3, 1), {"stride": [2]}), ((1, 1, 4, 4), (1, 1, 2, 2), {"stride": [3], "padding": [1]}),
                ((1, 1, 5, 5), (1, 1, 3, 3), {"stride": [2]}), ((1, 1, 5, 5), (1, 1, 2, 2), {"dilation": [3]}), ((3, 1, 2, 3), (1, 1, 2, 2), {}), ((1, 1, 2, 2), (1, 1, 2, 2), {"padding": [1]}), ((2, 2, 2, 3), (1, 2, 2, 2), {"padding": [0, 1]}),
                ((1, 1, 6, 2), (2, 1, 2, 2), {"stride": [2, 1]}), ((1, 2, 4, 4), (2, 1, 3, 3), {"groups": 2, "stride": [2], "padding": [1]})]


def conv(a, x, w, b=None):
    return nn.conv2d(x, w, b, groups=a.get("groups", 1), **windows(a))


row("conv2d", conv, [(a, [f(s), f(w), f(w[:1]) if i % 3 else None]) for i, (s, w, a) in enumerate(CONVOLUTIONS)])


def shape_of_conv(s, w, a):
    return tuple(conv(a, torch.zeros(s), torch.zeros(w)).shape)


def conv_input(a, w, g):
    x = torch.zeros((g.shape[0], w.shape[1] * a.get("groups", 1), *a["input_size"]), dtype=torch.float64, requires_grad=True)
    return torch.autograd.grad(conv(a, x, w), x, g, create_graph=True)


def conv_weight(a, x, g):
    w = torch.zeros((g.shape[1], x.shape[1] // a.get("groups", 1), *a["kernel_size"]), dtype=torch.float64, requires_grad=True)
    return torch.autograd.grad(conv(a, x, w), w, g, create_graph=True)


row("conv2d_input_backward", conv_input, [({"input_size": list(s[2:]), **a}, [f(w), f(shape_of_conv(s, w, a))]) for s, w, a in CONVOLUTIONS])
row("conv2d_weight_backward", conv_weight, [({"kernel_size": list(w[2:]), **a}, [f(s), f(shape_of_conv(s, w, a))]) for s, w, a in CONVOLUTIONS])

# --- pooling ---

POOLS = [((1, 1, 4, 4), [2], {}), ((1, 2, 3, 4), [2, 1], {}), ((2, 1, 4, 4), [2], {"stride": [1]}), ((1, 1, 3, 3), [3], {"padding": [1]}), ((1, 1, 5, 3), [2], {"stride": [2, 1]}), ((1, 1, 4, 5), [3, 2], {"stride": [1, 2], "padding": [1, 0]}),
         ((1, 1, 1, 1), [1], {}), ((2, 2, 2, 2), [2], {}), ((1, 1, 1, 7), [1, 3], {"stride": [1]}), ((1, 1, 7, 1), [3, 1], {"stride": [2]}), ((1, 3, 2, 2), [1], {}), ((1, 1, 4, 4), [2], {"stride": [3], "padding": [1]}),
         ((1, 1, 5, 5), [3], {"stride": [2]}), ((1, 1, 5, 5), [2], {"ceil_mode": True}), ((1, 1, 5, 4), [3, 2], {"stride": [2], "ceil_mode": True}), ((1, 1, 6, 5), [3], {"stride": [2], "padding": [1], "ceil_mode": True}), ((3, 1, 2, 3), [2], {"stride": [1]}),
         ((1, 1, 3, 3), [2], {"padding": [1]}), ((1, 1, 6, 2), [2], {}), ((1, 1, 3, 5), [2, 3], {"stride": [1], "padding": [0, 1]}), ((2, 1, 3, 3), [2], {"stride": [1]}), ((1, 2, 3, 3), [3], {"stride": [2], "padding": [1]})]


def pool_attributes(a):
    return {"kernel_size": pair(a["kernel_size"]), "stride": pair(a.get("stride")), "padding": pair(a.get("padding"), 0), "ceil_mode": a.get("ceil_mode", False)}


row("max_pool2d", lambda a, x: tuple(nn.max_pool2d(x, dilation=pair(a.get("dilation"), 1), return_indices=True, **pool_attributes(a))),
    [({"kernel_size": k, **a, **({"dilation": [2]} if s[2] > 4 and s[3] > 4 and k == [2] else {})}, [f(s, "d")]) for s, k, a in POOLS] + [({"kernel_size": [2], "dilation": [2], "stride": [1]}, [f((1, 1, 5, 4), "d")])])


def avg_pool(a, x):
    return nn.avg_pool2d(x, count_include_pad=a.get("count_include_pad", True), divisor_override=a.get("divisor") or None, **pool_attributes(a))


def average_attributes(i, a):
    return {**a, **({"count_include_pad": False} if i % 2 else {}), **({"divisor": 3} if i % 5 == 4 else {})}


row("avg_pool2d", avg_pool, [({"kernel_size": k, **average_attributes(i, a)}, [f(s)]) for i, (s, k, a) in enumerate(POOLS)])


def pulled_back(forward):
    """g -> the gradient of a linear function of images of input_size."""

    def back(a, g):
        x = torch.zeros((*g.shape[:2], *a["input_size"]), dtype=torch.float64, requires_grad=True)
        return torch.autograd.grad(forward(a, x), x, g, create_graph=True)

    return back


row("avg_pool2d_backward", pulled_back(avg_pool), [({"input_size": list(s[2:]), "kernel_size": k, **average_attributes(i, a)}, [f(tuple(avg_pool({"kernel_size": k, **a}, torch.zeros(s)).shape))]) for i, (s, k, a) in enumerate(POOLS)])
BINS = [((1, 1, 4, 4), [2, 2]), ((1, 2, 3, 4), [2, 3]), ((2, 1, 4, 4), [3, 1]), ((1, 1, 3, 3), [3, 3]), ((1, 1, 5, 3), [2, 2]), ((1, 1, 4, 5), [3, 3]), ((1, 1, 1, 1), [1, 1]), ((2, 2, 2, 2), [1, 1]), ((1, 1, 1, 7), [1, 3]), ((1, 1, 7, 1), [4, 1]), ((1, 3, 2, 2), [2, 1]),
        ((1, 1, 6, 4), [4, 3]), ((1, 1, 5, 5), [2, 4]), ((3, 1, 2, 3), [1, 2]), ((1, 1, 2, 2), [3, 3]), ((1, 1, 6, 2), [5, 2]), ((1, 1, 3, 5), [1, 4]), ((2, 1, 3, 3), [2, 2]), ((1, 2, 3, 3), [1, 3]), ((1, 1, 9, 2), [4, 2]), ((1, 1, 2, 9), [2, 5]), ((1, 1, 3, 4), [4, 3])]
row("adaptive_max_pool2d", lambda a, x: tuple(nn.adaptive_max_pool2d(x, a["output_size"], return_indices=True)), [({"output_size": n}, [f(s, "d")]) for s, n in BINS])
row("adaptive_avg_pool2d", lambda a, x: nn.adaptive_avg_pool2d(x, a["output_size"]), [({"output_size": n}, [f(s)]) for s, n in BINS])
row("adaptive_avg_pool2d_backward", pulled_back(lambda a, x: nn.adaptive_avg_pool2d(x, a["output_size"])), [({"input_size": list(s[2:]), "output_size": n}, [f(s[:2] + tuple(n))]) for s, n in BINS])

# --- interpolation ---


def resize(a, x):
    smooth = a.get("mode", "bilinear") in ("bilinear", "bicubic")
    return nn.interpolate(x, tuple(a["size"]), mode=a.get("mode", "bilinear"), align_corners=a.get("align_corners", False) if smooth else None, antialias=a.get("antialias", False))


SIZES = [((1, 1, 3, 3), [5, 4]), ((1, 2, 3, 4), [2, 3]), ((1, 1, 5, 5), [2, 2]), ((1, 1, 4, 4), [4, 4]), ((1, 1, 1, 1), [2, 3]), ((1, 1, 2, 3), [1, 1]), ((2, 1, 2, 2), [3, 3]), ((1, 1, 7, 2), [3, 4]), ((1, 1, 5, 3), [6, 2]), ((1, 1, 1, 7), [2, 3])]
MODES = [{}, {"align_corners": True}, {"mode": "bicubic"}, {"mode": "nearest"}, {"antialias": True}, {"mode": "bicubic", "antialias": True}, {"mode": "nearest-exact"}, {"mode": "bicubic", "align_corners": True}]
CALLS = [(s, {"size": n, **MODES[(3 * i + j) % 8]}) for i, (s, n) in enumerate(SIZES) for j in (0, 1, 2)]
row("interpolate", resize, [(a, [f(s)]) for s, a in CALLS])
row("interpolate_backward", pulled_back(resize), [({"input_size": list(s[2:]), **a}, [f(s[:2] + tuple(a["size"]))]) for s, a in CALLS])
