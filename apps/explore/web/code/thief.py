"""Whoever knows the weights finds the permutation: rows and columns are matched with the public ones."""

import numpy as np

import equigrad as eg

rng = np.random.default_rng(1)
public = rng.normal(size=(16, 48))  # a weight of a public model: 16 features in, 48 out
secret = rng.permutation(16)
seen = public[secret]  # what the cloud holds

# Row i of what is seen is the public row at the smallest distance.
distances = ((seen[:, None, :] - public[None, :, :]) ** 2).sum(-1)
found = distances.argmin(1)
print("secret", secret, "found", found)
assert np.array_equal(found, secret)
assert eg.permute.Permutation(found.tolist()).inverse().rows(eg.tensor(seen)).numpy().tobytes() == public.tobytes()

# Control: somebody who knows only the shapes finds nothing.
stranger = ((seen[:, None, :] - rng.normal(size=(1, 16, 48))) ** 2).sum(-1).argmin(1)
assert not np.array_equal(stranger, secret)
