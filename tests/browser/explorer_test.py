#!/usr/bin/env python3
"""The explorer in a browser: its numbers against the native program, its gestures, "break it", files, budgets, looks.

    explorer_test.py EXPLORER_FOLDER DOOR [--part numbers|breaks|catalogue|files|looks|budgets|firefox]

EXPLORER_FOLDER: what scripts/explorer.sh builds. DOOR: the program explore_door, which answers a page's questions natively.
"""

import argparse
import json
import math
import os
import pathlib
import random
import struct
import subprocess
import sys
import tempfile
import time

from firefox import Firefox
from page_checks import Browser, check_page
from playwright.sync_api import Page

PAGES = ("tokens", "features", "gradients", "twins", "masks", "thief", "yours", "catalogue", "tape")
# What rounding leaves, or a clock measures: compared by its size alone.
LOOSE = {"error", "drift", "forward_error", "gradient_error", "ms", "loss", "twin_loss", "measured"}
findings: list[str] = []


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
    page.wait_for_selector(".start-list")
    page.evaluate("link => { location.hash = '#' + link }", link)
    name = link.split("?")[0]
    page.wait_for_selector(".neighbours")
    if name in ("tokens", "features", "gradients", "twins", "masks", "thief", "tape"):
        page.wait_for_selector("[data-verdict][data-holds]")
    elif name == "catalogue":
        page.wait_for_selector(".card", timeout=30_000)
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


def differences(native: object, shown: object, exact: bool, path: str = "", key: str = "") -> list[str]:
    """Where two answers differ: bit for bit if exact, else by 1e-12 of a number's size."""
    if isinstance(native, dict) and isinstance(shown, dict):
        if {"name", "holds", "of"} <= native.keys() == shown.keys():  # the worst of many: which one is rounding's choice
            return [] if native["holds"] == shown["holds"] else [f"{path}: {native} and {shown}"]
        if native.keys() != shown.keys():
            return [f"{path}: fields {sorted(native)} and {sorted(shown)}"]
        return [found for name in native for found in differences(native[name], shown[name], exact, f"{path}/{name}", name)]
    if isinstance(native, list) and isinstance(shown, list):
        if len(native) != len(shown):
            return [f"{path}: {len(native)} and {len(shown)} members"]
        return [found for i, pair in enumerate(zip(native, shown)) for found in differences(*pair, exact, f"{path}/{i}", key)]
    if isinstance(native, bool) or isinstance(shown, bool) or isinstance(native, str) or native is None or shown is None:
        return [] if native == shown else [f"{path}: {native!r} and {shown!r}"]
    if key in ("ms", "differing"):  # a clock differs, and rounding differs between processors
        return []
    if exact and key not in LOOSE:
        return [] if struct.pack("<d", native) == struct.pack("<d", shown) else [f"{path}: {native!r} and {shown!r}"]
    if math.isclose(native, shown, rel_tol=1e-12, abs_tol=0.0):
        return []
    if key in LOOSE and abs(native - shown) <= max(1e-9, 1e-6 * abs(native)):
        return []
    return [f"{path}: {native!r} and {shown!r}"]


def numbers_differ(native: list[float], shown: list[float], bits: bool, tolerance: float) -> str:
    if len(native) != len(shown):
        return f"{len(native)} and {len(shown)} numbers"
    if bits:
        apart = sum(struct.pack("<d", a) != struct.pack("<d", b) for a, b in zip(native, shown))
        return f"{apart} of {len(native)} numbers have other bits" if apart else ""
    largest = max((abs(a) for a in native), default=0.0)
    apart = max((abs(a - b) for a, b in zip(native, shown)), default=0.0)
    return f"numbers are apart by {apart / largest:.1e} of the largest" if apart > tolerance * largest else ""


def links_to_compare() -> list[str]:
    """Every page, in random orders, right and broken, in each number type."""
    draw = random.Random(7)

    def order(size: int) -> str:
        p = list(range(size))
        draw.shuffle(p)
        return ".".join(map(str, p))

    links = []
    for precision in ("f64", "f32", "exact"):
        links += [f"tokens?order={order(6)}&precision={precision}", f"tokens?order={order(6)}&precision={precision}&causal=1",
                  f"tokens?order={order(6)}&precision={precision}&rotary=1&positions=1"]
        for weights in ("decoupled", "residual", "tied", "plain"):
            links.append(f"features?order={order(8)}&weights={weights}&precision={precision}")
        links += [f"twins?group={group}&optimizer=adamw&precision={precision}" for group in ("features", "tokens", "both")]
    links += [f"gradients?left={order(6)}&right={order(8)}&turn={turn}&stretch={stretch}" for turn, stretch in ((0, 0), (0.7, 0), (0.3, 1.5))]
    links += [f"masks?mask={mask}&order={order(4)}" for mask in ("f.f.f.f", "8.c.e.f", "d.e.7.b")]
    links += [f"thief?sees={sees}&secret={secret}&noise={noise}" for sees in ("weights", "gain", "pair", "tokens") for secret in (0, 1) for noise in (0, 9)]
    links += ["tape?of=block", "tape?of=program", "tape?of=program&lost=2"]
    return links


def replay(asked: list[dict], links: list[str], door_program: str) -> None:
    """What a browser was answered, against the native program."""
    check(len(asked) >= len(links), f"numbers: {len(asked)} questions were asked for {len(links)} links")
    with tempfile.TemporaryDirectory() as temporary:
        door = Door(door_program, temporary + "/model")
        for entry in asked:
            question, answer, numbers = entry["question"], entry["answer"], entry["numbers"]
            native = door.ask(question)
            exact = question.get("precision") == "exact"
            tolerance = 1e-4 if question.get("precision") == "f32" else 1e-12
            about = json.dumps(question)[:150]
            text = numbers_differ(native["numbers"], numbers, exact, tolerance)
            check(not text, f"numbers: {about}: {text}")
            if question.get("precision") != "f32" and not question["ask"].startswith("twins"):
                for found in differences(native["answer"], answer, exact)[:3]:
                    check(False, f"numbers: {about}: {found}")
        door.close()


def part_numbers(browser: Browser, folder: pathlib.Path, door_program: str) -> None:
    """Every question that the pages asked gets the same answer natively."""
    page = opened(browser, folder)
    links = links_to_compare()
    for link in links:
        visit(page, link)
    page.wait_for_timeout(500)
    asked = page.evaluate("explorer.log")
    replay(asked, links, door_program)
    print(f"  {len(asked)} answers compared")
    page.context.close()


def part_breaks(browser: Browser, folder: pathlib.Path) -> None:
    """Every gesture keeps the claim; every "break it" turns red, and turning it off restores the claim."""
    page = opened(browser, folder)
    # Tokens: keyboard, then each switch.
    visit(page, "tokens")
    page.locator(".handle").first.focus()
    for key in ("ArrowDown", "ArrowDown", "End", "Home", "ArrowDown"):
        page.keyboard.press(key)
    page.wait_for_timeout(300)
    check("order=0.2.1.5.3.4" in page.url, f"tokens: five keys give {page.url.split('#')[1]}")
    check(wait_for(page, "forward", True), "tokens: moving a token by the keyboard breaks the claim")
    for name in ("add positions", "causal mask", "rotary", "the second place is scaled"):
        switch = page.get_by_role("switch", name=name)
        switch.check()
        check(wait_for(page, "forward", False), f"tokens: '{name}' stays green")
        check(page.locator(".chip.fails").count() > 0, f"tokens: '{name}' does not say where the difference enters")
        switch.uncheck()
        check(wait_for(page, "forward", True), f"tokens: '{name}' cannot be undone")
    # Mouse: the first word goes to the end.
    visit(page, "tokens?order=")
    first, last = page.locator(".handle").first, page.locator(".handle").last
    a, b = first.bounding_box(), last.bounding_box()
    page.mouse.move(a["x"] + 20, a["y"] + 10)
    page.mouse.down()
    for i in range(1, 9):
        page.mouse.move(a["x"] + 20, a["y"] + 10 + (b["y"] - a["y"]) * i / 8)
    page.mouse.up()
    page.wait_for_timeout(300)
    check("order=1.2.3.4.5.0" in page.url, f"tokens: dragging the first word to the end gives {page.url.split('#')[1]}")
    # Features.
    visit(page, "features")
    for choice, holds in (("stay as they were", False), ("follow, inner axes apart", True), ("follow, inner axes stay", True)):
        page.get_by_role("radio", name=choice, exact=True).check()
        check(wait_for(page, "forward", holds), f"features: '{choice}' {'breaks' if holds else 'stays green'}")
    visit(page, "features?weights=tied&order=3.1.2.0.4.5.6.7")
    check(wait_for(page, "forward", True), "features: tied weights fail for an order that keeps the heads")
    visit(page, "features?weights=tied&order=4.1.2.3.0.5.6.7")
    check(wait_for(page, "forward", False), "features: tied weights stay green for an order that mixes the heads")
    # Gradients.
    visit(page, "gradients?turn=0.7")
    check(wait_for(page, "covector", True) and wait_for(page, "weight", True), "gradients: a rotation breaks a rule")
    page.get_by_role("button", name="Stretch by 1").click()
    check(wait_for(page, "weight", False), "gradients: stretching stays green")
    check(wait_for(page, "covector", True), "gradients: stretching breaks the covector rule")
    # Two trainings.
    visit(page, "twins")
    page.get_by_role("button", name="Start").click()
    page.wait_for_timeout(1500)
    page.get_by_role("button", name="Pause").click()
    check(wait_for(page, "twins", True), "twins: permuted features leave the plain training")
    for name, holds in (("Rotate, with Adam", False), ("Mend it: rotate, with SGD", True), ("Scale, with SGD", False), ("Do not move the weights", False)):
        page.get_by_role("button", name=name).click()
        check(wait_for(page, "twins", holds), f"twins: '{name}' {'leaves' if holds else 'stays green'}")
    # Masks.
    visit(page, "masks")
    check(wait_for(page, "forward", True), "masks: a turn of the ring is refused")
    page.get_by_role("button", name="Exchange two tokens").click()
    check(wait_for(page, "forward", False), "masks: a forbidden order stays green")
    page.get_by_role("button", name="sees all").click()
    check(page.get_by_text("This mask allows every order").is_visible() or page.wait_for_selector("text=This mask allows every order"), "masks: the full mask forbids something")
    page.get_by_role("button", name="causal", exact=True).click()
    page.wait_for_selector('[data-order="1"]')
    page.locator('.mask [data-at="0,0"]').focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Space")
    page.wait_for_selector('.mask [data-at="0,1"][aria-pressed="true"]')
    check(page.locator('.mask [data-at="0,1"]').get_attribute("aria-pressed") == "true", "masks: space does not paint")
    # What was painted stays when a token is added.
    visit(page, "masks?mask=6.3.5&order=")  # a one-way ring of three
    page.wait_for_selector('[data-group="C_3"]')
    page.locator("input[type=range]").first.press("ArrowRight")
    page.wait_for_selector('[data-group="C_3"][data-order="3"]')
    check(page.locator(".mask button").count() == 16, "masks: the slider adds no token")
    # Thief.
    for sees in ("weights", "gain", "pair", "tokens"):
        visit(page, f"thief?sees={sees}")
        check(wait_for(page, "key", True), f"thief: {sees} do not give the key away")
        page.get_by_role("switch").check()
        check(wait_for(page, "key", False), f"thief: {sees} that are secret give the key away")
    # Tape.
    visit(page, "tape")
    check(wait_for(page, "slope", True), "tape: gradients are not the slope")
    for _ in range(7):
        page.get_by_role("button", name="Step", exact=True).click()
    page.get_by_role("button", name="Lose the cotangent").click()
    check(wait_for(page, "slope", False), "tape: a lost cotangent stays green")
    page.get_by_role("button", name="Lose none").click()
    check(wait_for(page, "slope", True), "tape: nothing lost stays red")
    page.locator("#program").fill("y = sum(gelo(x))")
    page.wait_for_selector(".problem:not(:empty)")
    check("did you mean gelu" in (page.locator(".problem").text_content() or ""), "tape: a misspelt function is not explained")
    page.context.close()
    # Hostile addresses.
    page = opened(browser, folder)
    for link in ("%", "%E0%A4%A", "tokens?order=9.9.9", "masks?mask=0.0.0", "catalogue?dim=1e9", "__proto__?x=1", "tape?program=%3Cimg%20src%3Dx%3E"):
        page.goto((folder / "index.html").resolve().as_uri() + "#" + link)
        page.reload()
        ready(page)
        check(page.locator("main h1").count() == 1, f"the address #{link} shows no page")
        page.wait_for_timeout(200)
        check(page.locator("main img").count() == 0, f"the address #{link} makes an image")
    # Sizes that rows cannot have are neither green nor red.
    visit(page, "catalogue?q=thm4&tokens=2&heads=1&dim=13")
    page.get_by_role("button", name="Run all that are shown").click()
    page.wait_for_selector("[data-seconds]", timeout=60_000)
    check(page.locator(".card .fails").count() == 0, "catalogue: a size that is too small is shown as a theorem that fails")
    page.context.close()
    # Touch.
    page = opened(browser, folder, has_touch=True)
    visit(page, "tokens?order=")
    a, b = page.locator(".handle").first.bounding_box(), page.locator(".handle").nth(2).bounding_box()
    session = page.context.new_cdp_session(page)
    at = lambda box, share=0.0: [{"x": box["x"] + 20, "y": box["y"] + 12 + share}]  # noqa: E731
    session.send("Input.dispatchTouchEvent", {"type": "touchStart", "touchPoints": at(a)})
    for i in range(1, 7):
        session.send("Input.dispatchTouchEvent", {"type": "touchMove", "touchPoints": at(a, (b["y"] - a["y"]) * i / 6)})
    session.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
    page.wait_for_timeout(300)
    check("order=1.2.0.3.4.5" in page.url, f"tokens: dragging by touch gives {page.url.split('#')[1]}")
    page.context.close()


def part_catalogue(browser: Browser, folder: pathlib.Path) -> None:
    """All rows hold, and all controls fail."""
    page = opened(browser, folder)
    visit(page, "catalogue")
    rows = page.evaluate("document.querySelectorAll('.card').length")
    check(rows > 200, f"catalogue: {rows} rows")
    page.get_by_role("button", name="Run all that are shown").click()
    page.wait_for_selector("[data-seconds]", timeout=240_000)
    state = page.evaluate("({...document.querySelector('[data-seconds]').dataset})")
    print(f"  {state['measured']} rows in {float(state['seconds']):.1f} s")
    check(int(state["measured"]) == rows and int(state["holds"]) == rows, f"catalogue: of {rows} rows {state['measured']} were measured and {state['holds']} hold")
    page.get_by_role("switch", name="judge the controls").check()
    page.wait_for_timeout(500)
    green = [name for name, holds in verdicts(page).items() if holds]
    check(not green, f"catalogue: controls that hold: {green[:5]}")
    page.get_by_role("switch", name="judge the controls").uncheck()
    visit(page, "catalogue?id=thm4.5&seed=3")
    check(wait_for(page, "thm4.5", True), "catalogue: a link to a row does not run it")
    page.locator("#search").fill("automorphism")
    page.wait_for_timeout(300)
    shown = page.evaluate("document.querySelectorAll('.card').length")
    check(0 < shown < rows, f"catalogue: the search shows {shown} of {rows} rows")
    page.context.close()


def part_files(browser: Browser, folder: pathlib.Path, program: str) -> None:
    """Models: small ones of each family, one that the program put into the page, and files that are malformed."""
    asked: list[str] = []
    page = opened(browser, folder)
    page.on("request", lambda request: None if request.url.startswith(("blob:", "data:")) else asked.append(request.url))
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    for family in ("ViT", "BERT", "GPT-2", "Llama"):
        visit(page, "yours")
        page.get_by_role("button", name=family, exact=True).click()
        page.get_by_role("button", name="Check it").wait_for(timeout=60_000)
        page.get_by_role("button", name="Check all").click()
        until(page, "document.querySelectorAll('[data-verdict][data-holds]').length >= document.querySelectorAll('select')[0].options.length", 120)
        bad = [name for name, holds in verdicts(page).items() if not holds]
        check(not bad, f"yours: {family}: {bad} fail")
        page.get_by_role("button", name="Permute the inner groups").click()
        check(wait_for(page, "permuted", True), f"yours: {family}: inner groups change the function")
        with page.expect_download() as download:
            page.get_by_role("link", name="Download the permuted folder").click()
        with tempfile.TemporaryDirectory() as temporary:
            download.value.save_as(temporary + "/m.tar")
            subprocess.run(["tar", "-xf", "m.tar"], cwd=temporary, check=True)
            files = sorted(path.name for path in pathlib.Path(temporary, "permuted-model").iterdir())
            check("config.json" in files and "model.safetensors" in files, f"yours: the archive holds {files}")
            if program:
                run = subprocess.run([program, "symmetries", "--model", temporary + "/permuted-model", "--quiet"], check=False, capture_output=True)
                check(run.returncode == 0, f"yours: the program refuses the permuted folder: {run.stderr.decode()[:200]}")
            model = pathlib.Path(temporary, "permuted-model")
            good = {path.name: path.read_bytes() for path in model.iterdir()}
        page.get_by_role("button", name="Permute all groups").click()
        check(wait_for(page, "permuted", False), f"yours: {family}: all groups leave the function alone")
    # Malformed: each gets a sentence, and the page goes on.
    weights, config = good["model.safetensors"], good["config.json"]
    size = struct.unpack("<Q", weights[:8])[0]
    draw = random.Random(3)
    malformed: list[dict[str, bytes]] = [
        {"model.safetensors": weights}, {"config.json": config}, {"config.json": b"", "model.safetensors": weights},
        {"config.json": b"{", "model.safetensors": weights}, {"config.json": b"[1]", "model.safetensors": weights},
        {"config.json": config, "model.safetensors": b""}, {"config.json": config, "model.safetensors": weights[:7]},
        {"config.json": config, "model.safetensors": struct.pack("<Q", 1 << 60) + weights[8:]},
        {"config.json": config, "model.safetensors": weights[: 8 + size]}, {"config.json": config, "model.safetensors": weights[:-9]},
        {"config.json": config.replace(b'"hidden_size": 24', b'"hidden_size": 2400000').replace(b'"hidden_size":24', b'"hidden_size":2400000'), "model.safetensors": weights},
        {"config.json": config.replace(b"llama", b"mamba"), "model.safetensors": weights}]
    for _ in range(12):
        broken = bytearray(weights)
        for _ in range(3):
            broken[8 + draw.randrange(size)] = draw.randrange(256)
        malformed.append({"config.json": config, "model.safetensors": bytes(broken)})
    said = 0
    for files in malformed:
        visit(page, "yours")
        page.locator("#files").set_input_files([{"name": name, "mimeType": "application/octet-stream", "buffer": content} for name, content in files.items()])
        until(page, "document.querySelector('.problem').textContent !== '' || document.querySelector('[id=head]') !== null", 60)
        text = page.locator(".problem").text_content() or ""
        said += text != ""
        check("RuntimeError" not in text and "unreachable" not in text and "memory access" not in text, f"yours: a trap: {text[:200]}")
    check(said >= len(malformed) - 12, f"yours: {said} of {len(malformed)} malformed models were refused")
    visit(page, "yours")
    page.locator("#files").set_input_files([{"name": name, "mimeType": "application/octet-stream", "buffer": content} for name, content in good.items()])
    page.get_by_role("button", name="Check it").wait_for(timeout=60_000)
    check(not errors, f"yours: scripts fail: {errors[:2]}")
    check(not asked, f"requests after load: {asked[:3]}")
    # Its policy forbids every connection.
    refused = page.evaluate("fetch('https://example.org/').then(() => 'connected', () => 'refused')")
    check(refused == "refused", "the page can connect")
    page.context.close()
    if program:
        with tempfile.TemporaryDirectory() as temporary:
            for name, content in good.items():
                pathlib.Path(temporary, "m").mkdir(exist_ok=True)
                pathlib.Path(temporary, "m", name).write_bytes(content)
            subprocess.run([program, "explore", "--page", str(folder / "explorer.html"), "--model", "m", "--out", "e.html", "--quiet"], cwd=temporary, check=True)
            page = browser.chromium.new_context().new_page()
            page.goto(pathlib.Path(temporary, "e.html").as_uri())
            ready(page)
            visit(page, "yours")
            page.get_by_role("button", name="Open m").click()
            page.get_by_role("button", name="Check it").wait_for(timeout=60_000)
            page.context.close()


def part_looks(browser: Browser, folder: pathlib.Path) -> None:
    """No overflow, contrast, names, focus, requests, motion, on every page."""
    states = {name: (lambda page, name=name: visit(page, name)) for name in PAGES}
    states["small ViT"] = lambda page: (visit(page, "yours"), page.get_by_role("button", name="ViT", exact=True).click(), page.get_by_role("button", name="Check it").wait_for(timeout=60_000))
    states["broken tokens"] = lambda page: visit(page, "tokens?causal=1")
    states["a row"] = lambda page: (visit(page, "catalogue?q=thm4&id=thm4.5"), wait_for(page, "thm4.5", True))
    for found in check_page(browser, folder / "explorer.html", ready=ready, states=states):
        check(False, f"looks: {found}")


def part_budgets(browser: Browser, folder: pathlib.Path) -> None:
    """Sizes, and times as the best of a few: what the machine can do, whoever else uses it."""
    engine = (folder / "engine.js").stat().st_size
    page_bytes = sum((folder / name).stat().st_size for name in ("index.html", "explorer.js", "explorer.css"))
    print(f"  engine.js {engine / 1e6:.2f} MB, page {page_bytes / 1e3:.0f} kB, one file {(folder / 'explorer.html').stat().st_size / 1e6:.2f} MB")
    check(engine < 2.6e6, f"budget: engine.js has {engine} bytes")
    check(page_bytes < 400e3, f"budget: the page has {page_bytes} bytes")
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


# Links, a verdict on the page, and whether it holds.
EXPECTED = (("tokens", "forward", True), ("tokens", "weights", True), ("tokens?positions=1", "forward", False), ("tokens?causal=1", "backward", False),
            ("tokens?rotary=1", "forward", False), ("tokens?scaled=1", "forward", False), ("features", "forward", True),
            ("features?weights=plain", "forward", False), ("features?weights=tied&order=4.1.2.3.0.5.6.7", "forward", False), ("gradients?turn=0.5", "weight", True),
            ("gradients?stretch=1", "weight", False), ("gradients?stretch=1", "covector", True), ("twins", "twins", True),
            ("twins?group=rotation&optimizer=adam", "twins", False), ("twins?group=rotation&optimizer=sgd", "twins", True), ("masks", "forward", True),
            ("masks?order=1.0.2.3.4.5", "forward", False), ("thief", "key", True), ("thief?secret=1", "key", False), ("tape", "slope", True),
            ("tape?lost=2", "slope", False))


def part_firefox(folder: pathlib.Path, door_program: str) -> None:
    """The same numbers, verdicts and rows in Firefox."""
    if Firefox.available() is None:
        print("  Skipped: there is no firefox-esr; it is a Debian package of that name")
        return
    with Firefox() as firefox:
        firefox.goto((folder / "index.html").resolve().as_uri())
        firefox.run("await explorer.ready")
        show = """
          const wait = ms => new Promise(done => setTimeout(done, ms));
          const until = async (what, test) => { for (let i = 0; !test(); ++i) { if (i > 3000) throw new Error(what); await wait(20); } };
          location.hash = '#start';
          await until('start', () => document.querySelector('.start-list'));
          location.hash = '#' + args[0];
          await until(args[0], () => document.querySelector('[data-verdict][data-holds]'));
          return Object.fromEntries([...document.querySelectorAll('[data-verdict][data-holds]')].map(e => [e.dataset.verdict, e.dataset.holds === 'true']));"""
        for link, verdict, holds in EXPECTED:
            shown = firefox.run(show, link)
            check(shown.get(verdict) is holds, f"firefox: {link}: {verdict} is {shown.get(verdict)}, must be {holds}")
        links = links_to_compare()
        for link in links:
            firefox.run(show, link)
        asked = json.loads(firefox.run("await new Promise(done => setTimeout(done, 500)); return JSON.stringify(explorer.log)"))
        replay(asked, links, door_program)
        print(f"  {len(asked)} answers compared")
        rows = firefox.run("""
          const list = (await explorer.engine.ask({ask: 'catalogue.list'})).rows;
          const began = performance.now(), bad = [];
          for (const row of list) {
            const result = await explorer.engine.ask({ask: 'catalogue.run', id: row.id});
            if (result.status !== 'pass') bad.push(row.id);
          }
          return {count: list.length, bad, seconds: (performance.now() - began) / 1000};""")
        print(f"  {rows['count']} rows in {rows['seconds']:.1f} s")
        check(rows["count"] > 200 and not rows["bad"], f"firefox: rows that do not hold: {rows['bad']}")
        refused = firefox.run("return await fetch('https://example.org/').then(() => 'connected', () => 'refused')")
        check(refused == "refused", "firefox: the page can connect")


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=lambda path: pathlib.Path(path).resolve())
    parser.add_argument("door")
    parser.add_argument("--program", default="", type=lambda path: os.path.abspath(path) if path else "", help="equigrad, for models in pages")
    parser.add_argument("--part", action="append")
    arguments = parser.parse_args()
    if not (arguments.folder / "index.html").exists():
        print("Skipped: the explorer is not built (scripts/explorer.sh)")
        return 77
    parts = {"numbers": lambda b: part_numbers(b, arguments.folder, arguments.door),
             "breaks": lambda b: part_breaks(b, arguments.folder),
             "catalogue": lambda b: part_catalogue(b, arguments.folder),
             "files": lambda b: part_files(b, arguments.folder, arguments.program),
             "looks": lambda b: part_looks(b, arguments.folder),
             "firefox": lambda _: part_firefox(arguments.folder, arguments.door),
             "budgets": lambda b: part_budgets(b, arguments.folder)}
    with Browser() as browser:
        for name in arguments.part or [name for name in parts if name != "budgets"]:
            began = time.monotonic()
            print(name)
            parts[name](browser)
            print(f"  {time.monotonic() - began:.0f} s")
    print(f"{len(findings)} findings")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
