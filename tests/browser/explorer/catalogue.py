"""Every row of the catalogue, its chapters, and stopping a run."""

import pathlib
import time

from page_checks import Browser
from playwright.sync_api import Page

from .tools import check, opened, ready, until, verdicts, visit, wait_for


def part(browser: Browser, folder: pathlib.Path) -> None:
    """All rows hold, and all controls fail; chapters fold, a run stops at once, links hold what is open."""
    page = opened(browser, folder)
    visit(page, "catalogue")
    rows = page.locator(".strip i").count()
    check(rows > 200, f"catalogue: {rows} rows")
    listed = page.evaluate("explorer.engine.ask({ask: 'catalogue.list'}).then(answer => answer.rows.length)")
    check(rows == listed, f"catalogue: {rows} of {listed} rows have a place")
    check(page.locator('[data-chapter="others"]').count() == 0, "catalogue: docs/catalogue.md has no chapter for some rows")
    check(page.locator(".card").count() == 0, "catalogue: chapters are not folded")
    height = page.evaluate("document.documentElement.scrollHeight")
    check(height < 4000, f"catalogue: the folded page is {height} pixels long")
    run_and_stop(page)
    run_all(page, rows)
    chapters(page)
    visit(page, "catalogue?id=cor4.6&seed=3")
    check(wait_for(page, "cor4.6", True), "catalogue: a link to a row does not run it")
    box = page.locator('[data-row="cor4.6"]').bounding_box()
    check(box is not None and 60 < box["y"] < 840, f"catalogue: a link to a row does not show it: {box}")
    visit(page, "catalogue")
    page.locator("#search").fill("automorphism")
    page.wait_for_timeout(300)
    shown = page.locator(".card:visible").count()
    check(0 < shown < rows, f"catalogue: the search shows {shown} of {rows} rows")
    check("_" not in " ".join(page.locator(".card p:visible").all_text_contents()), "catalogue: a sentence has an index as it is typed")
    for text, sentence in (("thm10.2", f"1 of {rows} rows is shown."), ("nothing of this name", f"None of {rows} rows is like that.")):
        page.locator("#search").fill(text)
        page.wait_for_timeout(300)
        said = (page.locator(".runbar p").text_content() or "").strip()
        check(said == sentence, f"catalogue: it says {said!r}, not {sentence!r}")
    check(page.get_by_role("button", name="Run all that are shown").is_disabled(), "catalogue: no row can be run")
    page.locator("#search").fill("")
    page.wait_for_timeout(300)
    check(page.locator(".card:visible").count() == 0, "catalogue: an empty search leaves chapters unfolded")
    page.context.close()


def run_and_stop(page: Page) -> None:
    """A run with the largest sizes stops at once, keeps what it has, and another can begin."""
    visit(page, "catalogue?tokens=16&dim=48&heads=6&precision=exact")
    page.get_by_role("button", name="Run all that are shown").click()
    until(page, "document.querySelectorAll('.strip .holds').length > 3", 60)
    began = time.monotonic()
    page.get_by_role("button", name="Stop").click()
    page.get_by_role("button", name="Run all that are shown").wait_for(timeout=2_000)
    check(time.monotonic() - began < 1.5, f"catalogue: stopping takes {time.monotonic() - began:.1f} s")
    kept = page.locator(".strip .holds").count()
    page.wait_for_timeout(700)
    check(kept > 3 and page.locator(".strip .holds").count() == kept, "catalogue: a stopped run goes on, or loses its results")
    answer = page.evaluate("explorer.engine.ask({ask: 'catalogue.run', id: 'toy'}).then(row => row.status)")
    check(answer == "pass", "catalogue: after a stop the engine of the pages is gone")
    page.locator('[data-chapter="masks"] summary').click()
    page.get_by_role("button", name="Run thm10.2", exact=True).click()
    check(wait_for(page, "thm10.2", True), "catalogue: after a stop a row cannot be run")


def run_all(page: Page, rows: int) -> None:
    """Every row holds; no control does."""
    visit(page, "catalogue")
    page.get_by_role("button", name="Run all that are shown").click()
    page.wait_for_timeout(300)
    check(page.locator(".runbar progress").is_visible(), "catalogue: a run shows no progress")
    page.mouse.wheel(0, 900)
    page.wait_for_timeout(200)
    top = page.locator(".runbar").bounding_box()
    check(top is not None and 0 < top["y"] < 120, f"catalogue: the state of a run scrolls away: {top}")
    page.wait_for_selector("[data-seconds]", timeout=240_000)
    state = page.evaluate("({...document.querySelector('[data-seconds]').dataset})")
    print(f"  {state['measured']} rows in {float(state['seconds']):.1f} s")
    check(int(state["measured"]) == rows and int(state["holds"]) == rows, f"catalogue: of {rows} rows {state['measured']} were measured and {state['holds']} hold")
    page.get_by_role("button", name="Unfold all").click()
    page.wait_for_timeout(500)
    green = [name for name, holds in verdicts(page).items() if holds]
    check(len(green) == rows, f"catalogue: {len(green)} of {rows} rows that hold are shown so")
    page.get_by_role("switch", name="judge the controls").check()
    page.wait_for_timeout(800)
    green = [name for name, holds in verdicts(page).items() if holds]
    check(not green, f"catalogue: controls that hold: {green[:5]}")
    check(page.locator(".strip .fails").count() == rows, "catalogue: the strips do not judge the controls")
    page.get_by_role("switch", name="judge the controls").uncheck()


def chapters(page: Page) -> None:
    """Chapters unfold by the keyboard; the link holds which; a chapter runs alone."""
    visit(page, "catalogue")
    summary = page.locator('[data-chapter="models"] summary')
    summary.focus()
    page.keyboard.press("Enter")
    page.wait_for_selector('[data-chapter="models"] .card')
    check("open=models" in page.url, f"catalogue: the link of an open chapter is {page.url.split('#')[1]}")
    page.get_by_role("button", name="Run the chapter Models").click()
    page.wait_for_selector("[data-seconds]", timeout=60_000)
    text = page.locator('[data-chapter="models"] .count').text_content() or ""
    check(text.startswith("8 rows: 8 hold"), f"catalogue: the chapter says {text!r}")
    page.reload()
    ready(page)
    page.wait_for_selector('[data-chapter="models"] .card')
    check(page.locator(".chapter[open]").count() == 1, "catalogue: a reload unfolds other chapters")
    page.locator('[data-chapter="models"] summary').press("Enter")
    page.wait_for_timeout(200)
    check(page.locator(".chapter[open]").count() == 0 and "open=none" in page.url, "catalogue: a chapter does not fold")
