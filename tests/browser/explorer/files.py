"""Models: small ones of each family, one that the program put into the page, and files that are malformed."""

import pathlib
import random
import struct
import subprocess
import tempfile

from page_checks import Browser

from .tools import check, opened, ready, until, verdicts, visit, wait_for


def part(browser: Browser, folder: pathlib.Path, program: str) -> None:
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
