# Theorem 4.2: permuted tokens leave the gradient of every parameter as it is.

import equigrad as eg
from equigrad import ops
from theorem import fails, gradients, holds, normal, randomized, rows, verdict

encoder = randomized(eg.nn.Block(eg.nn.BlockConfig(dim=12, heads=3, mlp=20), 0))
z, p = normal(2, 7, 12), rows(2, 7)
back = ops.invert_permutation(p)
plain = gradients(encoder, lambda: encoder(z))
permuted = gradients(encoder, lambda: ops.permute_rows(encoder(ops.permute_rows(z, p)), back))
left = gradients(encoder, lambda: encoder(ops.permute_rows(z, p)))
holds("dL/dW_(R) = dL/dW, all parameters", permuted, plain)
fails("the same when the output stays permuted", left, plain)
verdict()
