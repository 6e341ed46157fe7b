"""Overflow, contrast, names, focus, requests and motion, on every page."""

import pathlib

from page_checks import Browser, check_page

from .tools import PAGES, check, opened, ready, visit, wait_for


def part(browser: Browser, folder: pathlib.Path) -> None:
    """No overflow, contrast, names, focus, requests, motion, on every page; formulas have their font."""
    states = {name: (lambda page, name=name: visit(page, name)) for name in PAGES}
    states["small ViT"] = lambda page: (visit(page, "yours"), page.get_by_role("button", name="ViT", exact=True).click(), page.get_by_role("button", name="Check it").wait_for(timeout=60_000))
    states["broken tokens"] = lambda page: visit(page, "tokens?causal=1")
    states["a row"] = lambda page: (visit(page, "catalogue?q=thm4&id=thm4.5"), wait_for(page, "thm4.5", True))
    states["features in a hall"] = lambda page: visit(page, "features?view=hall")
    for found in check_page(browser, folder / "explorer.html", ready=ready, states=states):
        check(False, f"looks: {found}")
    formulas(browser, folder)
    hall(browser, folder)


def formulas(browser: Browser, folder: pathlib.Path) -> None:
    """Formulas are drawn in the font that the page brings, and are named by their TeX."""
    page = opened(browser, folder)
    visit(page, "gradients")
    visit(page, "tokens")
    loaded = page.evaluate("document.fonts.ready.then(() => [...document.fonts].filter(f => f.status === 'loaded').map(f => f.family.replaceAll('\"', '')))")
    check(loaded == ["explorer math"], f"formulas: the fonts {loaded} are loaded")
    name = page.get_by_role("math").first.get_attribute("aria-label")
    check(name == r"\mathrm{Enc}(P_R Z) = P_R\, \mathrm{Enc}(Z)", f"formulas: a formula is named {name!r}")
    width = "document.querySelector('.formula math').getBoundingClientRect().width"
    with_font = page.evaluate(width)
    page.evaluate("document.querySelector('.formula math').style.fontFamily = 'monospace'")
    check(page.evaluate(width) != with_font, "formulas: another font changes nothing")
    page.context.close()


def hall(browser: Browser, folder: pathlib.Path) -> None:
    """The size of a lecture hall: on by button, key and link, from page to page; larger; nothing overflows."""
    for width, height in ((1280, 720), (1920, 1080)):
        page = opened(browser, folder)
        page.set_viewport_size({"width": width, "height": height})
        size = "parseFloat(getComputedStyle(document.querySelector('.handle')).fontSize)"
        cell = "document.querySelector('svg.heatmap rect').getBoundingClientRect().width"
        visit(page, "features")
        before, cells = page.evaluate(size), page.evaluate(cell)
        page.get_by_role("button", name="Projector").click()
        page.wait_for_timeout(200)
        check(page.evaluate(size) > 1.1 * before and page.evaluate(cell) > 1.1 * cells, f"hall: at {width} pixels nothing grows")
        check("view=hall" in page.url, "hall: the link does not hold it")
        check(not page.locator(".words-list").is_visible(), "hall: as many words as before")
        for name in PAGES:
            page.evaluate("name => { location.hash = '#' + name }", name)
            page.wait_for_selector(".neighbours")
            page.wait_for_timeout(400)
            check("view=hall" in page.url and page.evaluate("document.documentElement.dataset.view") == "hall", f"hall: it ends on the page {name}")
            wide = page.evaluate("[...document.querySelectorAll('main *')].filter(e => e.getBoundingClientRect().right > innerWidth + 0.5 && !e.closest('.scroll, .formula, pre, .unseen')).length")
            check(page.evaluate("document.documentElement.scrollWidth") <= width and wide == 0, f"hall: the page {name} overflows at {width} pixels")
            first = page.evaluate("document.querySelector('.stage').getBoundingClientRect().top")
            check(first < 0.45 * height, f"hall: at {width} pixels the picture of {name} begins at {first}")
        page.keyboard.press("Alt+p")
        page.wait_for_timeout(100)
        check("view=hall" not in page.url and page.evaluate("document.documentElement.dataset.view") is None, "hall: its key does not end it")
        page.context.close()
