#!/usr/bin/env python3
"""Images a second of `equigrad train vit` and of an equivalent loop in PyTorch, in turn, several rounds: the step, the
loader with random crops and flips, a line of metrics a step, checkpoints. See README.md beside this file.

    EQUIGRAD_DATA=data tests/bench/trainer.py build/release/bin/equigrad --python ~/venv/bin/python

The model is `vit-cifar` (dim 512, 6 layers, 1 head, MLP 512, patches of 4, batch 64, Adam). PyTorch trains on the images
of CIFAR-10 that lie in EQUIGRAD_DATA without loss, decoded beforehand, from a Dataset whose DataLoader has two workers.
Steps before --skip are not measured. A rate covers checkpoints that were written behind it, not the start of a program.
"""

import argparse
import json
import lzma
import os
import pathlib
import resource
import signal
import statistics
import subprocess
import sys
import tempfile
import time

MODEL = ["--dim", "512", "--layers", "6", "--heads", "1", "--mlp", "512", "--patch", "4"]



def processor_seconds(pid):
    """What a process has used so far."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def equigrad(args, folder):
    """Images a second, from the seconds in metrics.jsonl, and the peak memory of the process. With --cpu of processor
    time, looked at when a step is seen."""
    command = [args.equigrad, "train", "vit", "--data", "cifar10", *MODEL, "--batch", str(args.batch), "--augment"]
    command += ["--optimizer", "adam", "--steps", "100000", "--checkpoint-every", str(args.checkpoint_every)]
    command += ["--evaluate-every", "100000", "--threads", str(args.threads), "--out", str(folder / "run"), "--quiet"]
    started = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    at, cpu = {}, {}
    while args.steps not in at:
        time.sleep(0.05)
        if started.poll() is not None:
            sys.exit(f"{' '.join(command)}: ended with {started.returncode}")
        metrics = folder / "run" / "metrics.jsonl"
        whole = metrics.read_text().split("\n")[:-1] if metrics.exists() else []
        at = {line["step"]: line["seconds"] for line in map(json.loads, whole)}
        for step in at.keys() - cpu.keys():
            cpu[step] = processor_seconds(started.pid)
    started.send_signal(signal.SIGINT)  # no test of 10,000 images at the end
    _, _, usage = os.wait4(started.pid, 0)
    return rate(args, cpu if args.cpu else at), usage.ru_maxrss * 1024 / 1e6


def rate(args, at):
    return (args.steps - args.skip) * args.batch / (at[args.steps] - at[args.skip])


def peer(args, folder):
    command = [args.python, __file__, args.equigrad, "--peer", str(folder), "--steps", str(args.steps)]
    command += ["--skip", str(args.skip), "--batch", str(args.batch), "--threads", str(args.threads)]
    command += ["--checkpoint-every", str(args.checkpoint_every), *(["--cpu"] if args.cpu else [])]
    # As peer_tuned.sh: memory is kept instead of being handed back after every operation, in huge pages.
    tuned = {"OMP_NUM_THREADS": str(args.threads), "MALLOC_TOP_PAD_": "1073741824", "MALLOC_MMAP_THRESHOLD_": "4294967295"}
    tuned |= {"MALLOC_TRIM_THRESHOLD_": "4294967295", "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"}
    done = subprocess.run(command, env={**os.environ, **tuned}, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(command)}: {done.stderr}")
    result = json.loads(done.stdout.splitlines()[-1])
    return result["images_per_s"], result["rss_mb"]


def run_peer(args):
    """In PyTorch's Python: trains, and prints a line of JSON."""
    import numpy as np
    import torch
    from torch.nn import functional as F

    import peer_step

    records = np.frombuffer(
        lzma.decompress((pathlib.Path(os.environ["EQUIGRAD_DATA"]) / "cifar10/cifar10_lossless_train_8068.bin.xz").read_bytes()),
        np.uint8,
    ).reshape(-1, 3073)

    class Images(torch.utils.data.Dataset):
        """Random crops of the image among four black pixels on each side, mirrored every second time, normalised."""

        labels = records[:, 0].astype(np.int64)
        pixels = records[:, 1:].reshape(-1, 3, 32, 32)
        mean = torch.tensor([0.4914, 0.4822, 0.4465]).view(3, 1, 1)
        deviation = torch.tensor([0.2470, 0.2435, 0.2616]).view(3, 1, 1)

        def __len__(self):
            return len(self.labels)

        def __getitem__(self, i):
            padded = np.zeros((3, 40, 40), np.uint8)
            padded[:, 4:36, 4:36] = self.pixels[i]
            top, left, mirror = np.random.randint(9), np.random.randint(9), np.random.randint(2)
            image = padded[:, top : top + 32, left : left + 32]
            image = np.ascontiguousarray(image[:, :, ::-1] if mirror else image)
            return (torch.from_numpy(image).float() / 255 - self.mean) / self.deviation, self.labels[i]

    torch.manual_seed(0)
    torch.set_num_threads(args.threads)
    model = peer_step.Vit(**peer_step.CASES["vit-cifar"])
    optimizer, _ = peer_step.make_adam(model.parameters(), "best")
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, args.steps)
    loader = torch.utils.data.DataLoader(
        Images(), args.batch, shuffle=True, drop_last=True, num_workers=2, persistent_workers=True
    )
    folder, start, at, cpu, step = pathlib.Path(args.peer), time.perf_counter(), {}, {}, 0
    with open(folder / "metrics.jsonl", "w", encoding="utf-8") as metrics:
        while step < args.steps:
            batches = iter(loader)
            for images, labels in batches:
                optimizer.zero_grad(set_to_none=True)
                logits = model(images)
                loss = F.cross_entropy(logits, labels)
                loss.backward()
                optimizer.step()
                schedule.step()
                step += 1
                at[step] = time.perf_counter() - start
                cpu[step] = time.process_time() + sum(processor_seconds(w.pid) for w in batches._workers)
                accuracy = (logits.argmax(1) == labels).float().mean().item()
                metrics.write(json.dumps({"step": step, "loss": loss.item(), "accuracy": accuracy, "seconds": at[step]}))
                metrics.write("\n")
                metrics.flush()
                if step % args.checkpoint_every == 0:
                    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, folder / f"{step}.pt")
                if step == args.steps:
                    break
    rss = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6
    print(json.dumps({"images_per_s": rate(args, cpu if args.cpu else at), "rss_mb": rss}))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("equigrad")
    parser.add_argument("--python", default="python3", help="a Python with PyTorch")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--skip", type=int, default=4)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--checkpoint-every", type=int, default=10)
    parser.add_argument("--cpu", action="store_true", help="by processor time, workers included; with --threads 1")
    parser.add_argument("--least", type=float, default=0, help="exit 1 where the ratio of medians is below")
    parser.add_argument("--peer", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.peer:
        return run_peer(args)
    ours, theirs = [], []
    for turn in range(args.rounds):
        for name, run, results in [("equigrad", equigrad, ours), ("torch", peer, theirs)]:
            with tempfile.TemporaryDirectory() as folder:
                results.append(run(args, pathlib.Path(folder)))
            print(f"round {turn + 1}: {name:<9} {results[-1][0]:7.1f} images/s {results[-1][1]:7.0f} MB", flush=True)
    median = [statistics.median(r[0] for r in results) for results in (ours, theirs)]
    best = [max(r[0] for r in results) for results in (ours, theirs)]
    memory = [statistics.median(r[1] for r in results) for results in (ours, theirs)]
    print(f"median   {median[0]:7.1f} / {median[1]:7.1f} images/s: {median[0] / median[1]:.2f}")
    print(f"best     {best[0]:7.1f} / {best[1]:7.1f} images/s: {best[0] / best[1]:.2f}")
    print(f"memory   {memory[0]:7.0f} / {memory[1]:7.0f} MB")
    return int(median[0] / median[1] < args.least)


if __name__ == "__main__":
    sys.exit(main())
