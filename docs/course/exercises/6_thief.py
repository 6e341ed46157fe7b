"""Exercise 6: break the scheme.

An owner hides a model from the cloud that runs it: the cloud gets weights moved by secret permutations (exercise 3).
The plain weights are public, say a checkpoint that anyone can download. Recover the secret from both. The number of keys
is about 2^79 for 24 features alone, and it does not matter.
"""

import numpy as np


def recover_residual(public: dict[str, np.ndarray], moved: dict[str, np.ndarray]) -> list[int]:
    """The permutation p of the residual features: moved["norm1.weight"][i] = public["norm1.weight"][p[i]].

    Names and shapes as in exercise 3. All permutations of the block are secret: residual, qk, v and hidden. Three kinds
    of instances, in rising difficulty: public weights as they are; norms whose gains are all one and whose biases are
    all zero, as at the start of a training; and weights that were tuned after they were published, so that every entry
    differs by about 2 % of its tensor's standard deviation.
    """
    raise NotImplementedError
