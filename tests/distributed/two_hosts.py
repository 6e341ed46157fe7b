#!/usr/bin/env python3
"""Trains on two hosts, which are network namespaces with a slow link between them.

    two_hosts.py PROGRAM [--steps 10] [--delay 5] [--rate 100] [--mpi openmpi]

Two processes on each host talk by TCP over a link of --rate Mbit/s and --delay ms each way: by netem where the kernel
has it, else by packets that this script holds back. Each host has a /sys of its own, where MPICH's UCX looks for
networks. The bytes must be those of one process. Then the link is taken down: every process must end within the timeout
and 15 s more, and one must say which process on which host is gone.
Skipped (77) without the right to make namespaces.
"""

import argparse
import collections
import ctypes
import fcntl
import json
import os
import pathlib
import select
import struct
import subprocess
import sys
import tempfile
import threading
import time

from train_launch import SKIPPED, Training, difference, hashes, launchers, train, whole_checkpoint
from train_models import arguments, write_data

HOSTS = ("host-a", "host-b")
ADDRESSES = ("10.213.77.1", "10.213.77.2")
TIMEOUT = 10  # EQUIGRAD_MPI_TIMEOUT, in seconds
LIMIT = TIMEOUT + 15

# Starts a command on another host, as ssh does: in its network, under its name.
AGENT = """#!/bin/sh
while [ "${1#-}" != "$1" ]; do shift; done
case $1 in ADDRESS_A) space=SPACE_A name=NAME_A;; *) space=SPACE_B name=NAME_B;; esac
shift
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
exec nsenter --net=/run/netns/$space unshare --uts --mount sh -c \
  'mount -t sysfs none /sys; hostname '$name'; exec sh -c "$*"' sh "$@"
"""


def ip(*words):
    subprocess.run(["ip", *words], check=True, capture_output=True, text=True)


class Relay(threading.Thread):
    """Carries packets between two tap devices, each after some time."""

    def __init__(self, spaces, name, seconds):
        super().__init__(daemon=True)
        self.seconds = seconds
        self.ends = [self.open(space, name) for space in spaces]
        self.ended = False

    @staticmethod
    def open(space, name):
        libc = ctypes.CDLL(None, use_errno=True)
        here = os.open("/proc/self/ns/net", os.O_RDONLY)
        there = os.open(f"/run/netns/{space}", os.O_RDONLY)
        try:
            if libc.setns(there, 0) != 0:
                raise OSError(ctypes.get_errno(), "setns")
            tun = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
            fcntl.ioctl(tun, 0x400454CA, struct.pack("16sH", name.encode(), 0x1002))  # TUNSETIFF: IFF_TAP, IFF_NO_PI
        finally:
            libc.setns(here, 0)
            os.close(here)
            os.close(there)
        return tun

    def run(self):
        waiting = collections.deque()  # (when, where to, packet)
        while not self.ended:
            wait = 0.2 if not waiting else max(0.0, waiting[0][0] - time.monotonic())
            ready, _, _ = select.select(self.ends, [], [], wait)
            now = time.monotonic()
            for end in ready:
                other = self.ends[1 - self.ends.index(end)]
                for _ in range(64):
                    try:
                        waiting.append((now + self.seconds, other, os.read(end, 65536)))
                    except OSError:  # no more, or the link is down
                        break
            while waiting and waiting[0][0] <= time.monotonic():
                _, end, packet = waiting.popleft()
                try:
                    os.write(end, packet)
                except OSError:
                    pass  # lost, as on any link


class TwoHosts:
    def __init__(self, folder, delay, rate):
        self.spaces = [f"eqtest{os.getpid()}{x}" for x in "ab"]
        self.names = HOSTS
        self.device = "eqlink"
        self.relay = None
        self.delay, self.rate = delay, rate
        agent = AGENT
        for k, x in enumerate("AB"):
            for what, value in (("ADDRESS", ADDRESSES), ("SPACE", self.spaces), ("NAME", self.names)):
                agent = agent.replace(f"{what}_{x}", value[k])
        self.agent = folder / "agent.sh"
        self.agent.write_text(agent)
        self.agent.chmod(0o755)

    def tc(self, space, *words):
        return subprocess.run(["ip", "netns", "exec", space, "tc", "qdisc", "add", "dev", self.device, *words],
                              capture_output=True, text=True)

    def __enter__(self):
        try:
            for space in self.spaces:
                ip("netns", "add", space)
                ip("-n", space, "link", "set", "lo", "up")
            ip("-n", self.spaces[0], "link", "add", self.device, "type", "veth", "peer", "name", self.device, "netns",
               self.spaces[1])
            has_netem = all(self.tc(space, "root", "handle", "1:", "netem", "delay", f"{self.delay}ms").returncode == 0
                            for space in self.spaces)
            if not has_netem:
                ip("-n", self.spaces[0], "link", "del", self.device)
                self.relay = Relay(self.spaces, self.device, self.delay / 1000)
            for space, address in zip(self.spaces, ADDRESSES):
                ip("-n", space, "addr", "add", f"{address}/24", "dev", self.device)
                ip("-n", space, "link", "set", self.device, "up", "mtu", "1500" if has_netem else "9000")
                parent = ["parent", "1:1"] if has_netem else ["root"]
                shaped = self.tc(space, *parent, "tbf", "rate", f"{self.rate}mbit", "burst", "64kb", "latency", "300ms")
                if shaped.returncode != 0:
                    raise OSError(f"tc: {shaped.stderr.strip()}")
            if self.relay:
                self.relay.start()
            self.how = "netem" if has_netem else "packets held back"
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        if self.relay:
            self.relay.ended = True
            if self.relay.is_alive():
                self.relay.join()
            for end in self.relay.ends:
                os.close(end)
        for space in self.spaces:
            subprocess.run(["ip", "netns", "del", space], capture_output=True)

    def link(self, state):
        ip("-n", self.spaces[0], "link", "set", self.device, state)

    def bytes_sent(self):
        """By both hosts over the link."""
        total = 0
        for space in self.spaces:
            text = subprocess.run(["ip", "-n", space, "-s", "-j", "link", "show", self.device], check=True,
                                  capture_output=True, text=True).stdout
            total += json.loads(text)[0]["stats64"]["tx"]["bytes"]
        return total

    def round_trip(self):
        """Milliseconds, by ping where there is one."""
        try:
            text = subprocess.run(["ip", "netns", "exec", self.spaces[0], "ping", "-c", "5", "-i", "0.2", "-q",
                                   ADDRESSES[1]], capture_output=True, text=True).stdout
            return float(text.split(" = ")[1].split("/")[1])
        except (OSError, IndexError, ValueError):
            return None

    def before(self):
        """What the launcher's command begins with, so that it runs on the first host."""
        return ["nsenter", f"--net=/run/netns/{self.spaces[0]}", "unshare", "--uts", "--mount", "sh", "-c",
                f'mount -t sysfs none /sys; hostname {self.names[0]}; exec "$@"', "sh"]

    def show_the_link(self):
        """True where a program on the first host finds the link in /sys, as UCX does."""
        return subprocess.run([*self.before(), "test", "-e", f"/sys/class/net/{self.device}"],
                              capture_output=True).returncode == 0

    def options(self, launcher):
        both = ",".join(f"{address}:2" for address in ADDRESSES)
        if launcher.name == "openmpi":
            return ["--host", both, "--mca", "plm_rsh_agent", str(self.agent), "--mca", "btl", "tcp,self", "--mca",
                    "btl_tcp_if_include", self.device, "--mca", "oob_tcp_if_include", self.device,
                    "-x", "EQUIGRAD_MPI_TIMEOUT", "-x", "EQUIGRAD_THREADS", "-x", "EQUIGRAD_TEST_MARK"]
        return ["-launcher", "ssh", "-launcher-exec", str(self.agent), "-hosts", both, "-iface", self.device]

    def start(self, program, words, folder, launcher, **env):
        on_two = type(launcher)(launcher.name, [*launcher.words, *self.options(launcher)])
        # MPICH goes through UCX, which sees that both hosts are one machine and looks for networks in /sys, or through
        # libfabric.
        variables = {"EQUIGRAD_MPI_TIMEOUT": str(TIMEOUT), "UCX_TLS": "tcp,self", "UCX_NET_DEVICES": self.device,
                     "FI_PROVIDER": "tcp", "FI_TCP_IFACE": self.device, **env}
        return Training(program, words, folder, on_two, 4, env=variables, before=self.before())


def may_make_namespaces():
    name = f"eqtest{os.getpid()}x"
    try:
        made = subprocess.run(["ip", "netns", "add", name], capture_output=True, text=True)
        subprocess.run(["ip", "netns", "del", name], capture_output=True)
        others = subprocess.run(["unshare", "--uts", "--mount", "true"], capture_output=True)
    except OSError as error:
        return str(error)
    if made.returncode != 0 or others.returncode != 0:
        return (made.stderr or "unshare --uts --mount fails").strip()
    return ""


def same_bytes(hosts, program, place, launcher, steps):
    # About 0.9 million parameters: 3.6 MB of gradients cross the link in every step.
    words = [*arguments("gpt2", steps=steps, checkpoint_every=0, evaluate_every=0), "--out", "run"]
    for flag, value in (("--dim", "128"), ("--layers", "4"), ("--heads", "4")):
        words[words.index(flag) + 1] = value
    train(program, words, place)
    whole = hashes(place / "run")
    (place / "run").rename(place / "alone")
    before = hosts.bytes_sent()
    training = hosts.start(program, [*words, "--json", "result.json"], place, launcher)
    code, _, err = training.wait(300)
    sent = hosts.bytes_sent() - before
    # MPICH 4.0 can hang in MPI_Finalize, when all is written. The program ends without it, in whatever order.
    ended_without = launcher.name == "mpich" and "MPI_Finalize has not returned" in err
    assert code == 0 or ended_without, f"{launcher.name}: exit code {code}: {err}"
    differs = difference(whole, hashes(place / "run"))
    assert not differs, f"{launcher.name}: two hosts give other bytes: {differs}"
    gradients = (place / "run/model.safetensors" if (place / "run/model.safetensors").exists() else
                 place / "run/model/model.safetensors").stat().st_size
    assert sent > steps * gradients, f"{launcher.name}: {sent} bytes crossed the link; another way was taken"
    seconds = json.loads((place / "result.json").read_text())["seconds"]
    print(f"{launcher.name}: the bytes of one process; {1000 * seconds / steps:.0f} ms a step, "
          f"{sent / steps / 1e6:.1f} MB a step over the link for {gradients / 1e6:.1f} MB of gradients"
          f"{'; MPI_Finalize did not return' if ended_without else ''}", flush=True)


def link_down(hosts, program, place, launcher):
    words = [*arguments("gpt2", steps=100000, checkpoint_every=5, evaluate_every=0), "--out", "down"]
    training = hosts.start(program, words, place, launcher)
    latest = place / "down/checkpoints/latest"
    assert training.wait_for(latest.exists), f"{launcher.name}: no checkpoint: {training.text('err')}"
    assert len(training.ranks()) == 4
    hosts.link("down")
    begin = time.monotonic()
    heard = None
    gone = ("has not answered for", "the network to it is gone")
    while training.members() and time.monotonic() - begin < LIMIT:
        if heard is None and gone[0] in training.text("err"):
            heard = time.monotonic() - begin
        time.sleep(0.05)
    ended = time.monotonic() - begin
    left, err = training.ranks(), training.text("err")
    launcher_ended = training.wait_for(lambda: training.process.poll() is not None, 5) or training.process.poll() is not None
    training.stop()
    hosts.link("up")
    assert not left, f"{launcher.name}: after {ended:.0f} s processes {sorted(left)} still run: {err}"
    assert any(f"on {HOSTS[1]}) {gone[0]}" in line for line in err.splitlines()), \
        f"{launcher.name}: no message names a process on {HOSTS[1]}: {err}"
    step = whole_checkpoint(place / "down")
    assert step >= 5
    print(f"{launcher.name}: link down: a message after {heard if heard is not None else ended:.1f} s, all processes ended "
          f"after {ended:.1f} s{'' if launcher_ended else ', the launcher waits on'}; checkpoint of step {step} is whole: "
          f"{next(l for l in err.splitlines() if gone[0] in l)}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--delay", type=float, default=5.0, help="ms")
    parser.add_argument("--rate", type=float, default=100.0, help="Mbit/s")
    parser.add_argument("--mpi", default="", help="openmpi or mpich alone")
    args = parser.parse_args()
    found = launchers(args.program)
    if not found:
        print("skipped: there is no mpirun.openmpi or mpirun.mpich with a module beside the program")
        sys.exit(SKIPPED)
    if why := may_make_namespaces():
        print(f"skipped: no namespaces can be made here: {why}")
        sys.exit(SKIPPED)
    with tempfile.TemporaryDirectory(prefix="two-hosts-") as name:
        folder = pathlib.Path(name)
        with TwoHosts(folder, args.delay, args.rate) as hosts:
            trip = hosts.round_trip()
            print(f"link: {args.rate:g} Mbit/s, {args.delay:g} ms each way by {hosts.how}" +
                  (f", ping {trip:.1f} ms" if trip else ""), flush=True)
            tried = 0
            for launcher in (l for l in found if args.mpi in l.name):
                if launcher.name == "mpich" and not hosts.show_the_link():
                    print("mpich: not tried: its UCX looks for networks in /sys, which cannot be mounted here", flush=True)
                    continue
                place = folder / launcher.name
                place.mkdir()
                write_data(place)
                same_bytes(hosts, args.program, place, launcher, args.steps)
                link_down(hosts, args.program, place, launcher)
                tried += 1
            if tried == 0:
                sys.exit(SKIPPED)


if __name__ == "__main__":
    main()
