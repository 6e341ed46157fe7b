"""Python programs in processes of their own."""

import json
import os
import signal
import subprocess
import sys
import textwrap
import time


def run(code, *, interrupt_after=None, environment=None, timeout=120):
    """Runs Python code in a process of its own; gives its last line of output as JSON. interrupt_after: SIGINT so many
    seconds after it has printed 'ready'."""
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **(environment or {})},
    )
    if interrupt_after is not None:
        assert process.stdout.readline() == "ready\n", process.communicate()
        time.sleep(interrupt_after)
        process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=timeout)
    assert process.returncode == 0, err
    return json.loads(out.splitlines()[-1])
