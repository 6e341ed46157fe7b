"""Shows how a run goes: a bar on a terminal and in a notebook, nothing in a pipe."""

import html
import os
import sys
import time
from typing import Any


def _notebook_display() -> Any:
    """IPython's display where a notebook runs us, else None."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    if shell is None or type(shell).__name__ == "TerminalInteractiveShell" or not hasattr(shell, "kernel"):
        return None
    from IPython import display  # type: ignore

    return display


def _columns() -> int:
    try:
        return os.get_terminal_size(sys.stderr.fileno()).columns or 80  # some terminals say 0
    except (OSError, ValueError):
        return 80


def clock(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


class Progress:
    """A bar that is drawn at most ten times a second."""

    def __init__(self, shown: bool | None) -> None:
        self._display = _notebook_display() if shown is not False else None
        self._terminal = self._display is None and shown is not False and sys.stderr is not None and sys.stderr.isatty()
        self._lines = shown is True and self._display is None and not self._terminal
        self._handle: Any = None
        self._last, self._began, self._begin_step = 0.0, time.monotonic(), 0
        self._said: list[str] = []
        self._on_line = False

    @property
    def shown(self) -> bool:
        return self._display is not None or self._terminal

    def begin(self, step: int) -> None:
        self._began, self._begin_step = time.monotonic(), step

    def update(self, step: int, total: int, words: str, *, force: bool = False) -> None:
        now = time.monotonic()
        if not self.shown or (not force and now - self._last < 0.1):
            return
        self._last = now
        done = step - self._begin_step
        left = f", {clock((now - self._began) / done * (total - step))} left" if done > 0 and step < total else ""
        self._draw(step / max(total, 1), f"step {step}/{total}  {words}{left}")

    def _draw(self, share: float, words: str) -> None:
        if self._display is not None:
            said = "".join(f"<div>{html.escape(line)}</div>" for line in self._said[-8:])
            bar = f'<progress value="{share:.4f}" max="1"></progress> {html.escape(words)}'
            text = f'<div style="font-family:monospace">{said}{bar}</div>'
            shown = self._display.HTML(text)
            if self._handle is None:
                self._handle = self._display.display(shown, display_id=True)
            else:
                self._handle.update(shown)
            return
        filled = int(24 * share)
        # A line that is wrapped could not be taken back; the last column is the cursor's.
        line = f"[{'#' * filled}{'.' * (24 - filled)}] {words}"[: _columns() - 1]
        sys.stderr.write(f"\r\x1b[K{line}")
        sys.stderr.flush()
        self._on_line = True

    def say(self, line: str) -> None:
        """A line that stays."""
        if self._display is not None:
            self._said.append(line)
        elif self._terminal or self._lines:
            sys.stderr.write(("\r\x1b[K" if self._on_line else "") + line + "\n")
            sys.stderr.flush()
            self._on_line = False

    def end(self, step: int, total: int, words: str) -> None:
        if self.shown:
            self.update(step, total, words, force=True)
        if self._on_line:
            sys.stderr.write("\n")
            sys.stderr.flush()
            self._on_line = False
