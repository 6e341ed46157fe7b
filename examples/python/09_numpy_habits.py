"""What fingers type after years of NumPy, PyTorch and MLX."""
import numpy as np

import equigrad as eg

x = eg.tensor(np.arange(6.0).reshape(2, 3))                  # on the array's own memory
print(x.sum(axis=0).tolist(), x.mean(dim=1, keepdims=True).shape, x.dtype == np.float64)
print(x[x > 2].tolist(), x[[0, 1], [1, 2]].tolist(), x[:, None].shape, (x // 2).tolist())
print(eg.stack([x, x]).shape, eg.concatenate([x, x], axis=1).shape, x.flatten().view(3, 2).T.shape)
print(eg.where(x > 2, x, 0.0).max().item(), x.softmax(dim=-1).argmax(dim=-1).tolist())
print(eg.zeros(2, 3, dtype=np.float32).dtype, x.astype("float32").exp().log().dtype)
print(np.asarray(x * 2).sum(), (x.numpy() == np.arange(6.0).reshape(2, 3)).all(), float(x[1, 2]))
