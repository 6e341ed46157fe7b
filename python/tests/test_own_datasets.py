"""Own arrays as a dataset."""

import numpy as np
import pytest

import equigrad as eg


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
