"""What the parts share: findings, the native program, and steps on a page."""

import json
import pathlib
import subprocess
import time

from page_checks import Browser
from playwright.sync_api import Page

PAGES = ("tokens", "features", "gradients", "twins", "masks", "thief", "yours", "catalogue", "tape")
findings: list[str] = []
skipped: list[str] = []  # parts that this machine cannot run


def check(condition: object, sentence: str) -> None:
    if not condition:
        findings.append(sentence)
        print("  finding:", sentence)


class Door:
    """The native program."""

    def __init__(self, program: str, folder: str) -> None:
        self.process = subprocess.Popen([program, folder], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, question: dict) -> dict:
        self.process.stdin.write(json.dumps(question) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def close(self) -> None:
        self.process.stdin.close()
        self.process.wait(timeout=30)


def until(page: Page, expression: str, seconds: float = 30) -> None:
    """Waits for an expression to be true. Playwright's own wait would need 'unsafe-eval', which the page forbids."""
    end = time.monotonic() + seconds
    while not page.evaluate(expression):
        if time.monotonic() > end:
            raise TimeoutError(f"not true after {seconds} s: {expression}")
        page.wait_for_timeout(30)


def visit(page: Page, link: str) -> None:
    """Another page of the explorer, once it shows what it computed."""
    page.evaluate("location.hash = '#start'")
    page.wait_for_selector(".ways")
    page.evaluate("link => { location.hash = '#' + link }", link)
    name = link.split("?")[0]
    page.wait_for_selector(".neighbours")
    if name in ("tokens", "features", "gradients", "twins", "masks", "thief", "tape"):
        page.wait_for_selector("[data-verdict][data-holds]")
    elif name == "catalogue":
        page.wait_for_selector(".chapter:not([hidden])", timeout=30_000)
    page.wait_for_timeout(60)


def ready(page: Page) -> None:
    page.evaluate("explorer.ready")


def opened(browser: Browser, folder: pathlib.Path, **context: object) -> Page:
    page = browser.chromium.new_context(viewport={"width": 1280, "height": 900}, **context).new_page()
    page.goto((folder / "index.html").resolve().as_uri())
    ready(page)
    return page


def verdicts(page: Page) -> dict[str, bool]:
    return page.evaluate("Object.fromEntries([...document.querySelectorAll('[data-verdict][data-holds]')]"
                         ".map(e => [e.dataset.verdict, e.dataset.holds === 'true']))")


def wait_for(page: Page, verdict: str, holds: bool) -> bool:
    try:
        page.wait_for_selector(f'[data-verdict="{verdict}"][data-holds="{str(holds).lower()}"]', timeout=20_000)
        return True
    except Exception:  # noqa: BLE001: playwright's timeout
        return False
