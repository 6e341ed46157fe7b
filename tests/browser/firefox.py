"""Drives Debian's Firefox by its own protocol, Marionette, which needs no driver program."""

import json
import pathlib
import shutil
import socket
import subprocess
import tempfile
import time


class Firefox:
    """A headless Firefox with a fresh profile. `None` of available() means that there is no firefox-esr."""

    @staticmethod
    def available() -> str | None:
        return shutil.which("firefox-esr") or shutil.which("firefox")

    def __init__(self, width: int = 1280, height: int = 900) -> None:
        self.folder = tempfile.TemporaryDirectory()
        profile = pathlib.Path(self.folder.name)
        (profile / "user.js").write_text(
            'user_pref("marionette.port", 0);\nuser_pref("app.update.auto", false);\n'
            'user_pref("datareporting.policy.dataSubmissionEnabled", false);\n'
            'user_pref("network.captive-portal-service.enabled", false);\nuser_pref("network.connectivity-service.enabled", false);\n')
        self.process = subprocess.Popen(
            [str(self.available()), "--headless", "--marionette", "--no-remote", "--profile", str(profile),
             f"--width={width}", f"--height={height}"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env={"HOME": self.folder.name, "PATH": "/usr/bin:/bin", "MOZ_HEADLESS": "1"})
        port_file = profile / "MarionetteActivePort"
        end = time.monotonic() + 120
        while not port_file.exists() or not port_file.read_text().strip():
            if self.process.poll() is not None or time.monotonic() > end:
                raise RuntimeError("Firefox did not start")
            time.sleep(0.1)
        self.connection = socket.create_connection(("127.0.0.1", int(port_file.read_text())), timeout=300)
        self.buffer = b""
        self.number = 0
        self._receive()  # its greeting
        self.command("WebDriver:NewSession", {"capabilities": {"alwaysMatch": {}}})
        self.command("WebDriver:SetTimeouts", {"script": 280_000, "pageLoad": 120_000})

    def _receive(self) -> object:
        while True:
            head, colon, rest = self.buffer.partition(b":")
            if colon and len(rest) >= int(head):
                self.buffer = rest[int(head):]
                return json.loads(rest[: int(head)])
            piece = self.connection.recv(1 << 20)
            if not piece:
                raise RuntimeError("Firefox closed the connection")
            self.buffer += piece

    def command(self, name: str, parameters: dict) -> object:
        self.number += 1
        text = json.dumps([0, self.number, name, parameters]).encode()
        self.connection.sendall(f"{len(text)}:".encode() + text)
        _, number, error, result = self._receive()  # type: ignore[misc]
        if number != self.number or error is not None:
            raise RuntimeError(f"{name}: {error}")
        return result

    def goto(self, address: str) -> None:
        self.command("WebDriver:Navigate", {"url": address})

    def run(self, body: str, *arguments: object) -> object:
        """Runs the body of an asynchronous function in the page, and returns what it returns."""
        script = f"const done = arguments[arguments.length - 1]; (async (...args) => {{ {body} }})(...Array.from(arguments).slice(0, -1)).then(v => done({{value: v}}), e => done({{failure: String(e)}}))"
        result = self.command("WebDriver:ExecuteAsyncScript", {"script": script, "args": list(arguments), "sandbox": None})["value"]  # type: ignore[index]
        if "failure" in result:
            raise RuntimeError(result["failure"])
        return result.get("value")

    def __enter__(self) -> "Firefox":
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self.command("Marionette:Quit", {"flags": ["eForceQuit"]})
        except (OSError, RuntimeError):
            pass
        self.connection.close()
        try:
            self.process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.folder.cleanup()
