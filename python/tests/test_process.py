"""The module in a process: Ctrl-C, threads, the lock, other libraries' BLAS, importing."""

import os
import subprocess
import sys
import threading
import time

import equigrad as eg
import numpy as np
import pytest
from processes import run


INTERRUPTED = """
    import json, time
    import equigrad as eg
    {setup}
    print("ready", flush=True)
    began = time.time()
    try:
        {work}
        outcome = "finished"
    except KeyboardInterrupt as error:
        outcome = type(error).__name__
    took = time.time() - began
    with eg.Tape() as tape:                     # the module is as good as before
        x = eg.ones((50, 50))
        y = (x @ x).sum()
    usable = tape.gradient(y, x).tolist()[0][0] == 100 and not eg.recording()
    print(json.dumps([outcome, took, usable]))
"""

WORDS = """import tempfile
    folder = tempfile.TemporaryDirectory()
    with open(folder.name + "/vocab.txt", "w") as file:
        file.write("\\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "the", "cat", "##s"]))
    tokenizer = eg.data.Tokenizer.open(folder.name)
    """

# A file whose values are a hole: quickly made, and widened for many seconds.
HALVES = """import struct, tempfile
    folder = tempfile.TemporaryDirectory()
    path = folder.name + "/halves.safetensors"
    size = 2_000_000
    header = json.dumps({f"t{i}": {"dtype": "F16", "shape": [size // 2], "data_offsets": [i * size, (i + 1) * size]}
                         for i in range(800)}).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(header)) + header)
        file.truncate(8 + len(header) + 800 * size)
    """

LONG_WORK = {
    "encoding a text": (WORDS + "text = 'the cats ' * 8_000_000", "tokenizer.encode(text)"),
    "encoding many texts": (WORDS + "texts = ['the cats ' * 1000] * 20_000", "tokenizer.encode_batch(texts)"),
    "reading a file of tensors": (HALVES, "eg.data.load_safetensors(path, widen=True)"),
    "generating a text": (
        "config = {'model_type': 'gpt2', 'architectures': ['GPT2LMHeadModel'], 'vocab_size': 50, 'n_embd': 64, 'n_layer': 4,"
        " 'n_head': 4, 'n_positions': 50_000}; m = eg.hub.make_model(config, key=1); m.module.eval()",
        "eg.hub.generate_text(m, None, [1], max_new_tokens=49_000, end_ids=[])",
    ),
    "one matrix product": ("a = eg.ones((12000, 12000))", "for _ in range(100): a @ a"),
    "a model's forward pass": (
        "m = eg.nn.Vit(eg.nn.VitConfig(image=128, patch=4, layers=200, encoder=eg.nn.BlockConfig(dim=256, heads=4)), key=1)"
        "; x = eg.ones((2, 3, 128, 128))",
        "for _ in range(100): m(x)",
    ),
    "a gradient": (
        "x = eg.ones((700, 700))\n    tape = eg.Tape()\n    y = x\n    with tape:\n"
        "        for _ in range(300): y = y @ x\n        y = y.sum()",
        "for _ in range(100): tape.gradient(y, x, retain=True)",
    ),
    "a Hessian": ("x = eg.ones(20000, 'f64')", "eg.hessian(lambda x: (x * x * x).sum(), x)"),
    "a plain loop": ("x = eg.ones(1000)", "for _ in range(10**9): x * x"),
    "reading a dataset": ("", "eg.data.open_dataset('shapes', count=40_000, size=64)"),
}


@pytest.mark.parametrize("what", LONG_WORK)
def test_ctrl_c_stops_long_work(what):
    setup, work = LONG_WORK[what]
    outcome, took, usable = run(INTERRUPTED.format(setup=setup, work=work), interrupt_after=0.7)
    assert outcome == "KeyboardInterrupt" and usable
    print(f"{what}: stopped {1000 * (took - 0.7):.0f} ms after it was asked")
    assert took < 4.0  # asked after 0.7 s; the machine may be busy


def test_a_handlers_own_exception_comes_through():
    outcome, took, usable = run(
        """
        import json, signal, time
        import equigrad as eg
        class Alarm(Exception): pass
        def ring(*_): raise Alarm("time is up")
        signal.signal(signal.SIGALRM, ring)
        a = eg.ones((8000, 8000))
        signal.setitimer(signal.ITIMER_REAL, 0.3)
        began = time.time()
        try:
            for _ in range(100): a @ a
        except Alarm as error:
            print(json.dumps([str(error), time.time() - began, (eg.ones(2) * 2.0).tolist() == [2, 2]]))
        """
    )
    assert outcome == "time is up" and took < 4.0 and usable


def test_an_optimiser_is_not_stopped_half_way():
    """A signal during a step is answered after it: every parameter has moved."""
    moved = run(
        """
        import json
        import equigrad as eg
        w = [eg.ones(30_000_000) for _ in range(4)]
        g = [eg.ones(30_000_000) for _ in range(4)]
        optimizer = eg.optim.SGD(w, momentum=0.9)
        optimizer.step(g, 0.0)
        print("ready", flush=True)
        steps = 0
        try:
            while True:
                optimizer.step(g, 1e-3)
                steps += 1
        except KeyboardInterrupt:
            pass
        values = {(x[0].item(), x[-1].item()) for x in w}
        print(json.dumps([len(values), optimizer.steps]))
        """,
        interrupt_after=0.5,
    )
    assert moved[0] == 1


def test_the_lock_is_free_during_kernels():
    """Another Python thread goes on while a product is computed."""
    a = eg.ones((1500, 1500))
    ticks, stop = 0, threading.Event()

    def count():
        nonlocal ticks
        while not stop.is_set():
            ticks += 1
            time.sleep(0.001)

    thread = threading.Thread(target=count)
    thread.start()
    began = time.time()
    while time.time() - began < 1.0:
        for _ in range(5):
            a @ a
    stop.set()
    thread.join()
    assert ticks > 50


def test_threads_have_tapes_of_their_own():
    x = eg.random.normal((40, 40), key=1, dtype="f64")
    results, errors = {}, []

    def work(i):
        try:
            for _ in range(20):
                with eg.Tape() as tape:
                    y = (eg.ops.tanh(x * float(i)) @ x).sum()
                results[i] = tape.gradient(y, x)
        except Exception as error:  # noqa: BLE001
            errors.append(error)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    for i, found in results.items():
        expected = eg.grad(lambda x: (eg.ops.tanh(x * float(i)) @ x).sum())(x)
        assert eg.same_bits(found, expected)


def test_the_number_of_threads_changes_no_bit():
    before = eg.threads()
    x = eg.random.normal((300, 300), key=1)
    results = []
    for count in (1, 2, 3):
        eg.set_threads(count)
        assert eg.threads() == count
        results.append(eg.ops.softmax(x @ x))
    eg.set_threads(before)
    assert eg.same_bits(results[0], results[1]) and eg.same_bits(results[0], results[2])
    with pytest.raises(eg.ValueError):
        eg.set_threads(-1)


BLAS = """
    import json, os
    {imports}
    def pools(module):  # threads of every OpenBLAS in the process, by the library's own count
        import ctypes
        counts = []
        for line in sorted({{l.split()[-1] for l in open("/proc/self/maps") if "openblas" in l and "/" in l}}):
            library = ctypes.CDLL(line)
            for name in ("openblas_get_num_threads", "openblas_get_num_threads64_", "scipy_openblas_get_num_threads64_"):
                if hasattr(library, name):
                    counts.append(getattr(library, name)())
                    break
        return counts
    n = np.random.rand(300, 300)
    product = n @ n
    before = pools(np)
    x = eg.tensor(n)
    mine = (x @ x).numpy()
    after = pools(np)
    again = n @ n
    print(json.dumps([before, after, bool(np.array_equal(product, again)), float(abs(mine - product).max()),
                      eg.system()["blas"]]))
"""


@pytest.mark.parametrize("imports", ["import numpy as np; import equigrad as eg", "import equigrad as eg; import numpy as np"])
def test_numpys_blas_keeps_its_threads(imports):
    before, after, same, error, blas = run(BLAS.format(imports=imports), environment={"OPENBLAS_NUM_THREADS": ""})
    assert after[: len(before)] == before, "NumPy's OpenBLAS has another number of threads"
    assert same and error < 1e-11 * 300 and "1 thread a call" in blas


def test_import_takes_little_beyond_numpy():
    seconds = run(
        """
        import json, time
        import numpy
        began = time.perf_counter()
        import equigrad
        print(json.dumps(time.perf_counter() - began))
        """
    )
    print(f"import equigrad: {1000 * seconds:.0f} ms beyond NumPy")
    assert seconds < 1.0


def test_nothing_leaks_and_nothing_is_said_at_the_end():
    result = subprocess.run(
        [sys.executable, "-c", "import equigrad as eg\nx = eg.ones(3)\nm = eg.nn.Linear(2, 2, key=1)\nf = eg.grad(lambda x: x.sum())\nf(x)"],
        capture_output=True,
        text=True,
        env={**os.environ, "EQUIGRAD_LEAK_WARNINGS": "1"},
    )
    assert result.returncode == 0 and result.stdout == result.stderr == ""


def test_arrays_may_outlive_the_interpreter():
    """A tensor on NumPy memory that is still there when Python ends."""
    code = "import numpy as np, equigrad as eg\nimport builtins\nbuiltins.kept = eg.tensor(np.ones(1000))\neg.Tape().__enter__()"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr


def test_system_and_memory():
    facts = eg.system()
    assert set(facts) == {"version", "threads", "parallel", "blas", "simd"} and facts["version"] == eg.__version__
    live = eg.memory()["live"]
    x = eg.zeros(1 << 20)
    assert eg.memory()["live"] == live + (4 << 20)
    limit = eg.memory()["limit"]
    eg.set_memory_limit(eg.memory()["live"] + 1000)
    with pytest.raises(MemoryError, match="limit"):
        eg.zeros(1 << 20)
    eg.set_memory_limit(limit)
    del x
    eg.release_memory()
    assert eg.memory()["cached"] == 0


WITHOUT_OPENBLAS = """
    import json
    import equigrad as eg
    x = eg.eye(65) * 2.0
    try:
        print(json.dumps([eg.system()["blas"], float((x @ x).sum())]))
    except eg.Error as error:
        print(json.dumps([str(error), None]))
"""


def test_a_system_without_openblas():
    """As on a system where a wheel is all there is."""
    nowhere = {"EQUIGRAD_OPENBLAS": "/nowhere/libopenblas.so.0"}
    words, product = run(WITHOUT_OPENBLAS, environment=nowhere)
    if product is None:
        pytest.skip("products need OpenBLAS on this processor")
    assert words.startswith("none, and none is needed: OpenBLAS cannot be opened") and product == 65 * 4
    words, product = run(WITHOUT_OPENBLAS, environment={**nowhere, "EQUIGRAD_GEMM": "openblas"})
    assert words.startswith("blas: OpenBLAS cannot be opened") and product is None


SCRIPTS_THAT_LEAVE_SOMETHING = {
    "an operation of one's own": "double = eg.CustomOp('double', lambda x: x * 2.0, lambda i, o, g: [g[0] * 2.0])",
    "a hook": "x = eg.ones(2)\nwith eg.Tape() as tape: y = (x * x).sum()\ntape.on_gradient(x, lambda g: g)",
    "a checkpoint": "x = eg.ones(2)\nwith eg.Tape() as tape: y = eg.checkpoint(lambda x: x * x, x).sum()",
}


@pytest.mark.parametrize("what", SCRIPTS_THAT_LEAVE_SOMETHING)
def test_functions_at_the_top_level_do_not_leak(what):
    """With the binding library's own check, which users do not see."""
    result = subprocess.run(
        [sys.executable, "-c", "import equigrad as eg\n" + SCRIPTS_THAT_LEAVE_SOMETHING[what]],
        capture_output=True,
        text=True,
        env={**os.environ, "EQUIGRAD_LEAK_WARNINGS": "1"},
    )
    assert result.returncode == 0 and result.stdout == result.stderr == ""


DAEMON = """
import threading, time
import equigrad as eg
ready = threading.Event()
def hold():
    x = eg.ones(3)
    ready.set()
    time.sleep(100)
threading.Thread(target=hold, daemon=True).start()
ready.wait()
"""


def test_a_daemon_thread_that_holds_a_tensor_makes_no_noise():
    quiet, checked = (
        subprocess.run([sys.executable, "-c", DAEMON], capture_output=True, text=True, env={**os.environ, **switch})
        for switch in ({}, {"EQUIGRAD_LEAK_WARNINGS": "1"})
    )
    assert quiet.returncode == 0 and quiet.stdout == quiet.stderr == ""
    assert "leaked 1 instances" in checked.stderr  # or the tests above would find nothing
