#!/usr/bin/env python3
"""Writes optimizers.json: steps of update rules and schedules as PyTorch takes them, in float64.

    python3 tests/golden/optimizers.py      # needs PyTorch 2.9 or later (Muon); the file was written by 2.15.0

PyTorch's Muon computes its polynomial in bfloat16. Here the same source runs with that type replaced by the gradient's."""

import inspect
import json
import pathlib

import torch
from torch.optim import _muon, lr_scheduler

SHAPES = [[5, 3], [3, 5], [4, 4], [7]]
STEPS = 5
RATE = 0.03


def in_full_precision():
    source = inspect.getsource(_muon._zeropower_via_newtonschulz)
    assert source.count("torch.bfloat16") == 1
    exec(compile(source.replace("torch.bfloat16", "grad.dtype"), "muon", "exec"), _muon.__dict__)


def drawn(shape, generator):
    """Multiples of 1/64, which JSON holds exactly."""
    return torch.randint(-128, 129, shape, generator=generator).to(torch.float64) / 64


def steps_of(name, make, shapes):
    generator = torch.Generator().manual_seed(7)
    parameters = [torch.nn.Parameter(drawn(s, generator)) for s in shapes]
    before = [p.detach().flatten().tolist() for p in parameters]
    gradients = [[drawn(s, generator) for s in shapes] for _ in range(STEPS)]
    optimizer = make(parameters)
    for step in gradients:
        for p, g in zip(parameters, step):
            p.grad = g.clone()
        optimizer.step()
    return {
        "rule": name,
        "lr": RATE,
        "shapes": shapes,
        "before": before,
        "gradients": [[g.flatten().tolist() for g in step] for step in gradients],
        "after": [p.detach().flatten().tolist() for p in parameters],
    }


def rates_of(name, make, options, steps):
    parameter = torch.nn.Parameter(torch.zeros(1))
    optimizer = torch.optim.SGD([parameter], lr=options["base"])
    schedule = make(optimizer)
    rates = []
    for _ in range(steps):
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        schedule.step()
    return {"schedule": name, **options, "rates": rates}


def main():
    in_full_precision()
    matrices = SHAPES[:3]
    rules = [
        steps_of("rmsprop", lambda p: torch.optim.RMSprop(p, lr=RATE, weight_decay=0.1), SHAPES),
        steps_of("rmsprop-momentum", lambda p: torch.optim.RMSprop(p, lr=RATE, alpha=0.9, momentum=0.8), SHAPES),
        steps_of("adafactor", lambda p: torch.optim.Adafactor(p, lr=RATE, eps=(1e-30, 1e-3), weight_decay=0.1), SHAPES),
        steps_of("muon", lambda p: torch.optim.Muon(p, lr=RATE, weight_decay=0.1, adjust_lr_fn="match_rms_adamw"),
                 matrices),
        steps_of("muon-plain", lambda p: torch.optim.Muon(p, lr=RATE, weight_decay=0.0, nesterov=False,
                                                          adjust_lr_fn="match_rms_adamw"), matrices),
    ]  # fmt: skip
    one_cycle = {"base": 0.5, "warmup": 6, "total_steps": 20, "final_fraction": 0.01}
    schedules = [
        rates_of("step", lambda o: lr_scheduler.StepLR(o, 4, 0.3),
                 {"base": 0.5, "total_steps": 14, "drop_every": 4, "drop_factor": 0.3}, 14),
        rates_of("linear", lambda o: lr_scheduler.LinearLR(o, 1.0, 0.1, 12),
                 {"base": 0.5, "total_steps": 12, "final_fraction": 0.1}, 15),
        rates_of("one-cycle", lambda o: lr_scheduler.OneCycleLR(o, 0.5, 20, pct_start=0.3, final_div_factor=1 / (25 * 0.01)),
                 one_cycle, 20),
    ]  # fmt: skip
    path = pathlib.Path(__file__).resolve().parent / "optimizers.json"
    lines = lambda rows: ",\n".join(json.dumps(row) for row in rows)
    path.write_text(f'{{"torch": "{torch.__version__}",\n"rules": [\n{lines(rules)}],\n"schedules": [\n{lines(schedules)}]}}\n')


if __name__ == "__main__":
    main()
