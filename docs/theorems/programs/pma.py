# Pooling by attention: invariant to the order of tokens, with the gradients that follow from it.

import equigrad as eg
from equigrad import ops
from theorem import fails, gradients, holds, normal, randomized, rows, verdict

pool = randomized(eg.nn.Pma(eg.nn.SetBlockConfig(dim=12, heads=3, hidden=20), 2, 0))
z, p, g = normal(1, 7, 12), rows(1, 7), normal(1, 2, 12)
z_p = ops.permute_rows(z, p)
holds("f(P_R Z) = f(Z)", pool(z_p), pool(z))
to_z, to_z_p = (eg.vjp(pool, x, g).gradients for x in (z, z_p))
holds("dL/dZ_(P) = P_R dL/dZ", to_z_p, ops.permute_rows(to_z, p))
holds("dL/dW_(P) = dL/dW", gradients(pool, lambda: pool(z_p)), gradients(pool, lambda: pool(z)))
fails("dL/dZ_(P) = dL/dZ, as printed", to_z_p, to_z)
verdict()
