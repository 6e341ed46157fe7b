"""CUDA devices: whether there are any, and their memory. Tensors and modules go there by to("cuda")."""

from ._core.cuda import *
