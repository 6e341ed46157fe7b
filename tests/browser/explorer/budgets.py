"""Sizes and times."""

import base64
import gzip
import math
import pathlib
import shutil
import subprocess
import time

from page_checks import Browser

from .tools import check, opened, visit


REFERENCE_MS = 120.0  # what the loop below takes where the budgets were set, on an idle core


def slowdown(page) -> float:
    """How many times slower than that this machine is at the moment, at least 1: budgets of time are multiplied by it."""
    times = page.evaluate("""() => [...Array(6)].map(() => {
      const began = performance.now();
      let x = 0.5;
      for (let i = 0; i < 50_000_000; ++i) x = x * 1.0000001 + 1e-9;
      window.kept = x;
      return performance.now() - began;
    })""")
    return max(1.0, sum(times) / len(times) / REFERENCE_MS)


def within(page, value: float, budget: float, words: str) -> None:
    """Checks a time against its budget, which a machine that is slower or busy stretches."""
    factor = slowdown(page)
    if factor > 1.05:
        print(f"  this machine is {factor:.2f} times slower than where the budgets were set")
    check(value < budget * factor, f"budget: {words}")


def part(browser: Browser, folder: pathlib.Path) -> None:
    """Sizes, and times as the best of a few."""
    packed = base64.b64decode((folder / "engine.js").read_text(encoding="utf-8").split('"')[1])
    page_bytes = sum((folder / name).stat().st_size for name in ("index.html", "explorer.js", "explorer.css"))
    print(f"  engine {len(gzip.decompress(packed)) / 1e6:.2f} MB, {len(packed) / 1e6:.2f} MB by gzip; page with font {page_bytes / 1e3:.0f} kB; one file {(folder / 'explorer.html').stat().st_size / 1e6:.2f} MB")
    check(len(packed) < 1.4e6, f"budget: the engine has {len(packed)} bytes by gzip")
    check(page_bytes < 500e3, f"budget: the page has {page_bytes} bytes")
    if shutil.which("brotli") is None:
        print("  there is no brotli; it is a Debian package of that name")
    else:
        brotli = len(subprocess.run(["brotli", "-q", "11", "-c"], input=gzip.decompress(packed), capture_output=True, check=True).stdout)
        print(f"  engine by brotli: {brotli / 1e6:.3f} MB")
        check(brotli < 1.0e6, f"budget: the engine has {brotli} bytes by brotli")
    best = math.inf
    for _ in range(3):
        page = browser.chromium.new_context().new_page()
        page.context.new_cdp_session(page).send("Emulation.setCPUThrottlingRate", {"rate": 4})
        began = time.monotonic()
        page.goto((folder / "index.html").resolve().as_uri() + "#tokens")
        page.wait_for_selector('[data-verdict="forward"][data-holds="true"]', timeout=60_000)
        best = min(best, time.monotonic() - began)
        page.context.close()
    print(f"  interactive, throttled four times: {best:.2f} s")
    page = opened(browser, folder)
    within(page, best, 2.0, f"interactive after {best:.2f} s at fourfold throttling")
    visit(page, "tokens")
    drag = page.evaluate("""async () => {
      const times = [];
      for (let i = 0; i < 40; ++i) {
        const order = [...Array(16).keys()].sort((a, b) => ((a * 7 + i) % 16) - ((b * 7 + i) % 16));
        const began = performance.now();
        await explorer.engine.ask({ask: 'tokens', tokens: 16, dim: 32, heads: 4, order});
        times.push(performance.now() - began);
      }
      return times.sort((a, b) => a - b);
    }""")
    print(f"  a drag of 16 tokens of 32 features, both sides, forward and backward: best {drag[0]:.1f} ms, median {drag[20]:.1f} ms")
    within(page, drag[0], 16, f"a drag takes {drag[0]:.1f} ms")
    pairs = page.evaluate("""async () => {
      let best = 0;
      await explorer.engine.ask({ask: 'twins.start', precision: 'f32', batch: 16});
      for (let i = 0; i < 4; ++i) {
        const began = performance.now();
        await explorer.engine.ask({ask: 'twins.step', steps: 10});
        best = Math.max(best, 10000 / (performance.now() - began));
      }
      return best;
    }""")
    print(f"  two trainings: {pairs:.1f} pairs of steps a second")
    within(page, 1 / pairs, 1 / 20, f"{pairs:.1f} pairs of steps a second")
    visit(page, "catalogue")
    page.get_by_role("button", name="Run all that are shown").click()
    page.wait_for_selector("[data-seconds]", timeout=240_000)
    seconds = float(page.evaluate("document.querySelector('[data-seconds]').dataset.seconds"))
    print(f"  the whole catalogue: {seconds:.1f} s")
    within(page, seconds, 10, f"the catalogue takes {seconds:.1f} s")
    page.context.close()
