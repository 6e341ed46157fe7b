"""The numbers of the pages against the native program."""

import json
import math
import pathlib
import random
import struct
import tempfile

from page_checks import Browser

from .tools import Door, check, opened, visit

# What rounding leaves, or a clock measures: compared by its size alone.
LOOSE = {"error", "drift", "forward_error", "gradient_error", "ms", "loss", "twin_loss", "measured", "misfit", "least_misfit"}


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
    links += [f"thief?sees={sees}&guess={order(8 if sees == 'tokens' else 16)}" for sees in ("weights", "gain", "pair", "tokens")]
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


def part(browser: Browser, folder: pathlib.Path, door_program: str) -> None:
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
