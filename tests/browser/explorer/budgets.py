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


def part(browser: Browser, folder: pathlib.Path) -> None:
    """Sizes, and times as the best of a few: what the machine can do, whoever else uses it."""
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
    check(best < 2.0, f"budget: interactive after {best:.2f} s at fourfold throttling")
    page = opened(browser, folder)
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
    check(drag[0] < 16, f"budget: a drag takes {drag[0]:.1f} ms")
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
    check(pairs > 20, f"budget: {pairs:.1f} pairs of steps a second")
    visit(page, "catalogue")
    page.get_by_role("button", name="Run all that are shown").click()
    page.wait_for_selector("[data-seconds]", timeout=240_000)
    seconds = float(page.evaluate("document.querySelector('[data-seconds]').dataset.seconds"))
    print(f"  the whole catalogue: {seconds:.1f} s")
    check(seconds < 10, f"budget: the catalogue takes {seconds:.1f} s")
    page.context.close()
