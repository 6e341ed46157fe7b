"""Draws matrices and curves: by matplotlib where that is installed, else as text."""

import numpy as np

try:
    import matplotlib.pyplot as plt
except ImportError:
    plt = None


def _say_once() -> None:
    if not getattr(_say_once, "said", False):
        print("(matplotlib is not installed: pictures are printed as numbers)")
        _say_once.said = True


def matrices(named: dict[str, object]) -> None:
    """Matrices side by side on one colour scale, blue below zero and red above."""
    arrays = {name: np.atleast_2d(np.asarray(x, dtype=np.float64)) for name, x in named.items()}
    finite = [np.abs(x[np.isfinite(x)]) for x in arrays.values()]
    limit = max([float(x.max()) for x in finite if x.size], default=0.0) or 1.0
    if plt is None:
        _say_once()
        for name, x in arrays.items():
            print(f"{name}, {x.shape[0]} x {x.shape[1]}:")
            for row in x[:8]:
                print("  " + " ".join(f"{value:+.2f}" for value in row[:12]) + (" ..." if x.shape[1] > 12 else ""))
            if len(x) > 8:
                print("  ...")
        return
    figure, places = plt.subplots(1, len(arrays), figsize=(2.6 * len(arrays), 2.6), squeeze=False)
    for place, (name, x) in zip(places[0], arrays.items()):
        place.imshow(x, cmap="RdBu_r", vmin=-limit, vmax=limit)
        place.set_title(name, fontsize=9)
        place.set_xticks([])
        place.set_yticks([])
    figure.tight_layout()
    plt.show()
    plt.close(figure)


def curves(named: dict[str, list[float]], log: bool = False, xlabel: str = "step") -> None:
    """Curves over the step."""
    if plt is None:
        _say_once()
        for name, values in named.items():
            chosen = [values[i] for i in np.unique(np.linspace(0, len(values) - 1, 8).astype(int))]
            print(f"  {name:24} " + " ".join(f"{value:9.2e}" for value in chosen))
        return
    figure, place = plt.subplots(figsize=(5.2, 3.0))
    for i, (name, values) in enumerate(named.items()):
        place.plot(values, label=name, linestyle=["-", "--", ":", "-."][i % 4])
    if log:
        place.set_yscale("log")
    place.set_xlabel(xlabel)
    place.legend(fontsize=8)
    figure.tight_layout()
    plt.show()
    plt.close(figure)
