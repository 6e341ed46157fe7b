"""Overflow, contrast, names, focus, requests and motion, on every page."""

import base64
import pathlib

from page_checks import Browser, check_page
from playwright.sync_api import Page

from .tools import PAGES, check, opened, ready, visit, wait_for


def part(browser: Browser, folder: pathlib.Path) -> None:
    """No overflow, contrast, names, focus, requests, motion, on every page; formulas have their font."""
    states = {name: (lambda page, name=name: visit(page, name)) for name in PAGES}
    states["small ViT"] = lambda page: (visit(page, "yours"), page.get_by_role("button", name="ViT", exact=True).click(), page.get_by_role("button", name="Check it").wait_for(timeout=60_000))
    states["broken tokens"] = lambda page: visit(page, "tokens?causal=1")
    states["a row"] = lambda page: (visit(page, "catalogue?q=thm4&id=thm4.5"), wait_for(page, "thm4.5", True))
    states["features in a hall"] = lambda page: visit(page, "features?view=hall")
    for found in check_page(browser, folder / "explorer.html", ready=settled, states=states):
        check(False, f"looks: {found}")
    formulas(browser, folder)
    glyphs(browser, folder)
    hall(browser, folder)
    menu(browser, folder)
    first_sight(browser, folder)


def settled(page: Page) -> None:
    """The first page, once it shows what it computed: before, its pictures are empty and have no names."""
    ready(page)
    page.wait_for_selector("[data-verdict][data-holds]")
    page.wait_for_timeout(400)


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


def glyphs(browser: Browser, folder: pathlib.Path) -> None:
    """The font that the page brings has a glyph for each character of each formula, and roots in each size."""
    page = opened(browser, folder)
    page.set_viewport_size({"width": 1280, "height": 2000})
    visit(page, "catalogue?open=all")
    page.wait_for_selector(".card msqrt")
    characters = page.evaluate("""() => {
      const seen = new Set();
      for (const leaf of document.querySelectorAll('.formula :is(mi, mo, mn, mtext, ms)')) {
        const name = `${leaf.localName} ${leaf.textContent} ${leaf.getAttribute('mathvariant')}`;
        if (seen.has(name) || !leaf.textContent.trim()) continue;
        seen.add(name);
        leaf.setAttribute('data-glyph', name);
      }
      return seen.size;
    }""")
    check(characters > 100, f"formulas: {characters} letters and signs are too few")
    session = page.context.new_cdp_session(page)
    session.send("DOM.enable")
    session.send("CSS.enable")
    root = session.send("DOM.getDocument")["root"]["nodeId"]
    for node in session.send("DOM.querySelectorAll", {"nodeId": root, "selector": "[data-glyph]"})["nodeIds"]:
        fonts = session.send("CSS.getPlatformFontsForNode", {"nodeId": node})["fonts"]
        if not fonts or not all(font["isCustomFont"] for font in fonts):
            attributes = session.send("DOM.getAttributes", {"nodeId": node})["attributes"]
            check(False, f"formulas: {attributes[attributes.index('data-glyph') + 1]} is drawn by {[font['familyName'] for font in fonts]}")
    # A root is drawn by the layout, not as text: its picture has ink beside what stands below it, at each height.
    tall = "<mfrac><mi>d</mi><mi>k</mi></mfrac>"
    for name, inner in (("small", "<mi>d</mi>"), ("of a fraction", tall), ("of fractions", f"<mfrac>{tall}{tall}</mfrac>"),
                        ("of a tower", f"<mfrac><mfrac>{tall}{tall}</mfrac><mfrac>{tall}{tall}</mfrac></mfrac>")):
        page.evaluate("""markup => {
          const place = document.querySelector('main');
          place.innerHTML = `<math display="block">${markup}</math>`;
          Object.assign(place.style, {fontSize: '64px', padding: '20px', background: 'white', color: 'black'});
        }""", f"<msqrt><mrow>{inner}</mrow></msqrt>")
        page.wait_for_timeout(50)
        box = page.evaluate("""() => {
          const root = document.querySelector('msqrt').getBoundingClientRect(), below = document.querySelector('msqrt > mrow').getBoundingClientRect();
          return {x: root.x, y: below.y, width: below.x - root.x, height: below.height};
        }""")
        share = inked_rows(page, box) if box["width"] > 5 else 0.0
        check(share > 0.9, f"formulas: a root, {name}, has ink in {share:.0%} of its height")
    page.context.close()


def inked_rows(page: Page, box: dict[str, float]) -> float:
    """The share of a picture's lines that hold dark pixels."""
    picture = base64.b64encode(page.screenshot(clip=box)).decode()
    return page.evaluate("""async source => {
      const image = new Image();
      image.src = 'data:image/png;base64,' + source;
      await image.decode();
      const pen = Object.assign(document.createElement('canvas'), {width: image.width, height: image.height}).getContext('2d');
      pen.drawImage(image, 0, 0);
      let lines = 0;
      for (let y = 0; y < image.height; ++y) {
        const line = pen.getImageData(0, y, image.width, 1).data;
        lines += line.some((value, i) => i % 4 === 0 && value < 140);
      }
      return lines / image.height;
    }""", picture)


def menu(browser: Browser, folder: pathlib.Path) -> None:
    """The list of pages opens where the reader is, and Escape closes it."""
    for width, height, view in ((390, 844, ""), (1280, 720, "?view=hall")):
        page = opened(browser, folder)
        page.set_viewport_size({"width": width, "height": height})
        visit(page, f"tokens{view}")
        page.evaluate("scrollTo({top: 500, behavior: 'instant'})")
        page.get_by_role("button", name="Pages").click()
        page.wait_for_timeout(100)
        page.evaluate("document.querySelector('#pages li:last-child a').scrollIntoView({block: 'nearest', behavior: 'instant'})")
        for place in ("first", "last"):
            page.evaluate("place => document.querySelector(`#pages li:${place}-child a`).scrollIntoView({block: 'nearest', behavior: 'instant'})", place)
            hit = page.evaluate("""place => {
              const box = document.querySelector(`#pages li:${place}-child a`).getBoundingClientRect();
              return document.elementFromPoint(box.x + box.width / 2, box.y + box.height / 2)?.closest('#pages') !== null && box.top >= 0 && box.bottom <= innerHeight;
            }""", place)
            check(hit, f"menu: at {width} pixels the {place} page of the list is out of sight")
        check(page.evaluate("scrollY") == 500, f"menu: at {width} pixels the page moves below its list")
        page.keyboard.press("Escape")
        check(not page.locator("#pages").is_visible(), f"menu: at {width} pixels Escape leaves it open")
        page.context.close()


def first_sight(browser: Browser, folder: pathlib.Path) -> None:
    """At the size of a small projector, what a page is about is seen without scrolling; no page has a hole."""
    page = opened(browser, folder)
    page.set_viewport_size({"width": 1280, "height": 720})
    seen = """selector => [...document.querySelectorAll(selector)].every(e => {
      const box = e.getBoundingClientRect();
      return box.width > 0 && box.top >= 0 && box.bottom <= innerHeight;
    })"""
    for name in ("tokens", "features"):
        visit(page, name)
        check(page.evaluate(seen, ".break :is(input, label)"), f"first sight: a way to break {name} is out of sight")
    for name in ("tokens", "features", "gradients", "twins", "masks", "thief", "tape"):
        visit(page, name)
        page.wait_for_timeout(200)
        gap = page.evaluate("document.querySelector('main > .after').getBoundingClientRect().top - Math.max(...[...document.querySelectorAll('.stage .panel')].map(e => e.getBoundingClientRect().bottom))")
        check(gap < 60, f"first sight: {name} has {gap:.0f} empty pixels above its exercise")
    visit(page, "tokens?view=hall")
    page.wait_for_timeout(300)
    named = "[...document.querySelectorAll('figure')].filter(e => ['Enc(P Z)', 'P Enc(Z)'].includes(e.querySelector('figcaption').firstChild.textContent)).map(e => e.querySelector('svg').getBoundingClientRect().bottom)"
    bottoms = page.evaluate(named)
    check(len(bottoms) == 2 and max(bottoms) <= 720, f"first sight: in a hall both sides of the claim about tokens end at {bottoms}")
    page.evaluate("location.hash = '#twins'")
    page.wait_for_selector("svg.chart .end")
    page.wait_for_timeout(300)
    bottom = page.evaluate("document.querySelector('svg.chart').getBoundingClientRect().bottom")
    check(bottom <= 720, f"first sight: in a hall the distance of two trainings ends at {bottom}")
    page.keyboard.press("Alt+p")
    # Answers come where one looks.
    visit(page, "yours")
    page.get_by_role("button", name="ViT", exact=True).click()
    page.get_by_role("button", name="Check it").wait_for(timeout=60_000)
    page.wait_for_timeout(1500)
    top = page.evaluate("document.querySelector('#result h2').getBoundingClientRect().top")
    check(60 < top < 200, f"first sight: a model that was opened is shown at {top}")
    check("rows" in (page.get_by_label("Theorem").locator("option").first.text_content() or ""), "yours: theorems are ids without words")
    page.get_by_role("button", name="Permute all groups").click()
    check(wait_for(page, "permuted", False), "yours: all groups leave the function alone")
    check(page.locator('.break [data-verdict="permuted"]').count() == 1, "yours: what breaks is shown elsewhere than its button")
    named = "[...document.querySelectorAll('figure')].filter(e => /attend|attention/.test(e.textContent)).map(e => e.querySelectorAll('svg text[transform*=rotate]').length)"
    check(max(page.evaluate(named)) >= 6, f"yours: columns of attention have {page.evaluate(named)} names")
    visit(page, "tokens")
    check(max(page.evaluate(named)) == 6, f"tokens: columns of attention have {page.evaluate(named)} names")
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
            hidden = page.evaluate("[...document.querySelectorAll('.stage :is(button, textarea, select, input)')].filter(e => !e.checkVisibility() && !e.closest('details:not([open])') && !e.closest('[hidden]')).map(e => e.id || e.textContent)")
            check(not hidden, f"hall: {name} hides {hidden}")
            first = page.evaluate("document.querySelector('.stage').getBoundingClientRect().top")
            check(first < 0.45 * height, f"hall: at {width} pixels the picture of {name} begins at {first}")
        page.keyboard.press("Alt+p")
        page.wait_for_timeout(100)
        check("view=hall" not in page.url and page.evaluate("document.documentElement.dataset.view") is None, "hall: its key does not end it")
        page.context.close()
