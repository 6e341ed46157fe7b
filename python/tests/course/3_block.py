"""Another right solution, which the checker has to accept."""

import numpy as np


def permute_block(state, residual, qk, v, hidden):
    s = dict(state)
    r = np.array(residual)
    a = len(qk)
    q, k, w = np.split(s["attention.qkv.weight"], 3)
    qb, kb, wb = np.split(s["attention.qkv.bias"], 3)
    out = {}
    for n in ("norm1.weight", "norm1.bias", "norm2.weight", "norm2.bias", "attention.proj.bias", "mlp.fc2.bias"):
        out[n] = s[n][r]
    out["attention.qkv.weight"] = np.concatenate([q[qk], k[qk], w[v]])[:, r]
    out["attention.qkv.bias"] = np.concatenate([qb[qk], kb[qk], wb[v]])
    out["attention.proj.weight"] = s["attention.proj.weight"][r][:, v]
    out["mlp.fc1.weight"] = s["mlp.fc1.weight"][hidden][:, r]
    out["mlp.fc1.bias"] = s["mlp.fc1.bias"][hidden]
    out["mlp.fc2.weight"] = s["mlp.fc2.weight"][r][:, hidden]
    return out
