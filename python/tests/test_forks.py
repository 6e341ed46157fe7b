"""Children of fork(): they compute, whatever the parent's threads were doing."""

import pytest
from processes import run


def test_children_of_a_fork_can_compute():
    """multiprocessing's fork: the child has none of the parent's worker threads."""
    result = run(
        """
        import json, os
        import equigrad as eg
        a = eg.random.normal((700, 700), key=1)
        expected = (a @ a).sum().item()
        read, write = os.pipe()
        if os.fork() == 0:
            os.write(write, json.dumps((a @ a).sum().item() == expected).encode())
            os._exit(0)
        os.wait()
        print(os.read(read, 100).decode())
        """,
        timeout=60,
    )
    assert result is True


FORKS = """
    import json, os, signal, threading, time
    import equigrad as eg
    eg.set_threads(2)
    x = eg.random.normal(({size}, {size}), key=1)
    compute = lambda: {compute}
    expected = compute()
    going = True
    def busy():
        while going:
            compute()
    thread = threading.Thread(target=busy)
    thread.start()

    def status_of(child):  # of a child that ends within twenty seconds, else 'hangs'
        end = time.time() + 20
        while time.time() < end:
            if (found := os.waitpid(child, os.WNOHANG))[0]:
                return os.waitstatus_to_exitcode(found[1])
            time.sleep(0.001)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        return "hangs"

    found = set()
    for _ in range({forks}):
        child = os.fork()
        if child == 0:
            os._exit(0 if eg.threads() == 1 and eg.same_bits(compute(), expected) else 1)
        found.add(status_of(child))
        if "hangs" in found:
            break
    going = False
    thread.join()
    print(json.dumps([sorted(map(str, found)), eg.threads()]))
"""


@pytest.mark.parametrize(
    "size, compute, forks, gemm",
    [(300, "x @ x", 20, "own"), (32, "x @ x", 600, "openblas"), (4, "eg.ops.gelu(x)", 400, "own")],
    ids=["workers at work", "OpenBLAS at work", "memory being taken"],
)
def test_children_compute_whatever_the_parents_threads_do(size, compute, forks, gemm):
    code = FORKS.format(size=size, compute=compute, forks=forks)
    assert run(code, environment={"EQUIGRAD_GEMM": gemm}, timeout=600) == [["0"], 2]


def test_a_child_of_a_fork_has_one_thread_and_ends_as_others_do():
    reason, refusal, after, ended = run(
        """
        import json, os, sys
        import equigrad as eg
        eg.set_threads(2)
        x = eg.ones((300, 300))
        x @ x
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            reason = eg.system()["threads"]
            try:
                eg.set_threads(2)
                refusal = ""
            except eg.Error as error:
                refusal = str(error)
            eg.set_threads(0)
            os.write(write, json.dumps([reason, refusal, eg.threads()]).encode())
            sys.exit(0)  # not os._exit: destructors run
        status = os.waitpid(child, 0)[1]
        print(json.dumps([*json.loads(os.read(read, 1000)), status]))
        """
    )
    assert reason == "1 (child of a fork)" and "spawn" in refusal and after == 1 and ended == 0


def test_a_child_may_have_threads_where_its_parent_had_started_none():
    assert run(
        """
        import json, os
        import equigrad as eg
        read, write = os.pipe()
        if os.fork() == 0:
            counts = [eg.threads()]
            eg.set_threads(2)
            x = eg.ones((300, 300))
            counts += [eg.threads(), (x @ x)[0, 0].item()]
            os.write(write, json.dumps(counts).encode())
            os._exit(0)
        os.wait()
        print(os.read(read, 100).decode())
        """,
        timeout=60,
    ) == [1, 2, 300]


LOADER = """
    import gc, json, os, signal, sys, time
    import equigrad as eg
    dataset = eg.data.open_dataset("shapes", "train", count=50, size=8)
    make = lambda workers: eg.data.Loader(dataset, batch_size=10, seed=1, workers=workers)
    alone = make(0)
    def right(batches, epoch, begin, end=5):
        expected = [alone.batch(epoch, i) for i in range(begin, end)]
        return len(batches) == len(expected) and all(
            eg.same_bits(a.images, b.images) and eg.same_bits(a.labels, b.labels)
            and (a.epoch, a.batch) == (b.epoch, b.batch)
            for a, b in zip(batches, expected))
    loader = make(2)
    next(loader)
    child = os.fork()
    if child == 0:
        good = False
        {child}
        sys.exit(0 if good else 1)  # not os._exit: what is left goes
    end = time.time() + 20
    while not (found := os.waitpid(child, os.WNOHANG))[0] and time.time() < end:
        time.sleep(0.001)
    if not found[0]:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    print(json.dumps([os.waitstatus_to_exitcode(found[1]) if found[0] else "hangs", right(list(loader), 0, 1)]))
"""


@pytest.mark.parametrize(
    "child",
    [
        "good = right([next(loader)], 0, 1, 2)",
        "good = right(list(loader), 0, 1) and right(list(loader), 1, 0)",
        "loader.seek(3, 2); good = right(list(loader), 3, 2)",
        "loader = None; gc.collect(); good = True",
        "good = True",
    ],
    ids=["next", "for", "seek", "dropped", "exit"],
)
def test_a_child_reads_and_ends_a_loader_of_its_parent(child):
    assert run(LOADER.format(child=child), timeout=60) == [0, True]
