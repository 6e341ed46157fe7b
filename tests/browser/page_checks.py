#!/usr/bin/env python3
"""Checks a page in a browser: layout, contrast, names, focus, requests, motion.

    page_checks.py FILE-OR-ADDRESS... [--screenshots FOLDER]

prints what it finds, a line each, and exits with 1 when there is something. Exit code 77: there is no browser.

In a test:

    from page_checks import Browser, check_page
    with Browser() as browser:
        findings = check_page(browser, "out/report.html")

Each check is also a function of its own, overflow(), contrast(), names(), focus(), requests() and motion(), which takes a
View and returns findings, a sentence each. A page that needs time, or others' files, says so:

    View(browser, address, ready=lambda page: page.wait_for_selector("#ready"), allowed=lambda url: url.startswith(address),
         states={"second tab": lambda page: page.click("#second")})

`states` are further looks of the page, reached from a fresh one. Layout, contrast and names are checked in each.
"""

import argparse
import contextlib
import dataclasses
import os
import pathlib
import shutil
import sys
from collections.abc import Callable, Iterator

try:
    from playwright.sync_api import Browser as Chromium
    from playwright.sync_api import Error, Page, sync_playwright
except ImportError:
    _environment = pathlib.Path(__file__).resolve().parents[2] / "build/browser-environment"
    if (_environment / "bin/python").exists() and pathlib.Path(sys.prefix) != _environment:
        os.execv(_environment / "bin/python", [str(_environment / "bin/python"), *sys.argv])
    print("Skipped: Playwright is not installed; ./test.sh browser gets it from PyPI")
    sys.exit(77)

WIDTHS = (320, 390, 768, 1280, 1920)
SCHEMES = ("light", "dark")
HEIGHT = 900


class Browser:
    """Debian's Chromium without a window."""

    def __init__(self) -> None:
        self._stack = contextlib.ExitStack()
        program = shutil.which("chromium")
        if program is None:
            print("Skipped: there is no chromium; it is a Debian package of that name")
            sys.exit(77)
        playwright = self._stack.enter_context(sync_playwright())
        self.chromium: Chromium = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        self._stack.callback(self.chromium.close)

    def __enter__(self) -> "Browser":
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()


def address_of(place: str | pathlib.Path) -> str:
    """The address of a file; an address stays as it is."""
    text = str(place)
    return text if "://" in text else pathlib.Path(text).resolve().as_uri()


def nothing(_: object) -> None:
    """A state that needs no step."""


@dataclasses.dataclass
class View:
    """A page, and how to look at it."""

    browser: Browser
    address: str
    ready: Callable[[Page], object] = nothing
    allowed: Callable[[str], bool] = lambda _: False
    states: dict[str, Callable[[Page], object]] = dataclasses.field(default_factory=dict)
    requested: list[str] = dataclasses.field(default_factory=list)
    complaints: list[str] = dataclasses.field(default_factory=list)

    @contextlib.contextmanager
    def open(self, width: int = 1280, scheme: str = "light", motion: str = "no-preference") -> Iterator[Page]:
        """A fresh page, ready."""
        context = self.browser.chromium.new_context(
            viewport={"width": width, "height": HEIGHT}, color_scheme=scheme, reduced_motion=motion)  # type: ignore[arg-type]
        try:
            page = context.new_page()
            page.on("request", lambda request: self.requested.append(request.url))
            page.on("pageerror", lambda error: self.complaints.append(f"an error in a script: {error}"))
            page.on("console", lambda message: self.complaints.append(f"the console says: {message.text}")
                    if message.type in ("error", "warning") else None)
            page.goto(self.address)
            self.ready(page)
            yield page
        finally:
            context.close()

    def looks(self, width: int = 1280, scheme: str = "light") -> Iterator[tuple[str, Page]]:
        """The page with everything unfolded, then each further state; with a name for findings."""
        for name, step in {"": nothing, **self.states}.items():
            with self.open(width, scheme) as page:
                step(page)
                page.evaluate("for (const d of document.querySelectorAll('details')) d.open = true")
                yield (f", {name}" if name else ""), page


# Text for a finding that says which element is meant.
_NAMING = """
const which = element => {
  let name = element.tagName.toLowerCase();
  if (element.id) name += '#' + element.id;
  else if (element.getAttribute && element.getAttribute('class')) name += '.' + element.getAttribute('class').trim().split(/\\s+/).join('.');
  const text = (element.textContent || '').trim().replace(/\\s+/g, ' ').slice(0, 40);
  return text ? `${name} "${text}"` : name;
};
"""

_OVERFLOW = "() => {" + _NAMING + """
  const width = document.documentElement.clientWidth;
  const page = Math.max(document.documentElement.scrollWidth, document.body ? document.body.scrollWidth : 0);
  if (page <= width) return null;
  const inside = element => { // of a part that scrolls or is cut by itself
    for (let e = element.parentElement; e && e !== document.body; e = e.parentElement)
      if (getComputedStyle(e).overflowX !== 'visible') return true;
    return false;
  };
  const wide = [...document.body.querySelectorAll('*')]
    .filter(e => e.getBoundingClientRect().right + scrollX > width + 0.5 && !inside(e)).slice(0, 3).map(which);
  return `the page is ${page} pixels wide` + (wide.length ? ': ' + wide.join('; ') : '');
}"""


def overflow(view: View) -> list[str]:
    """No width of window makes the page scroll sideways, in no colour scheme."""
    findings = []
    for scheme in SCHEMES:
        for name, page in view.looks(WIDTHS[0], scheme):
            for width in WIDTHS:
                page.set_viewport_size({"width": width, "height": HEIGHT})
                page.evaluate("() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
                if found := page.evaluate(_OVERFLOW):
                    findings.append(f"overflow: at {width} pixels, {scheme}{name}: {found}")
    return findings


# WCAG 2.2, 1.4.3: relative luminance of sRGB, and text of 24 pixels (18.66 if bold) counts as large.
_CONTRAST = "() => {" + _NAMING + """
  const pen = document.createElement('canvas').getContext('2d', {willReadFrequently: true});
  pen.canvas.width = pen.canvas.height = 1;
  const known = new Map();
  const rgba = colour => {
    if (!known.has(colour)) {
      pen.clearRect(0, 0, 1, 1);
      pen.fillStyle = colour;
      pen.fillRect(0, 0, 1, 1);
      const [r, g, b, a] = pen.getImageData(0, 0, 1, 1).data;
      known.set(colour, [r, g, b, a / 255]);
    }
    return known.get(colour);
  };
  const over = (top, below) => {
    const a = top[3] + below[3] * (1 - top[3]);
    if (a === 0) return [0, 0, 0, 0];
    return [0, 1, 2].map(i => (top[i] * top[3] + below[i] * below[3] * (1 - top[3])) / a).concat(a);
  };
  const faded = (colour, opacity) => [colour[0], colour[1], colour[2], colour[3] * opacity];
  const luminance = colour => {
    const [r, g, b] = colour.map(v => { v /= 255; return v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const opacity = element => {
    let all = 1;
    for (let e = element; e; e = e.parentElement) all *= parseFloat(getComputedStyle(e).opacity);
    return all;
  };
  // What an SVG drew below a point before it came to `text`.
  const drawn = (svg, text, x, y) => {
    const layers = [];
    for (const shape of svg.querySelectorAll('rect, circle, ellipse, path, polygon')) {
      if (!(shape.compareDocumentPosition(text) & Node.DOCUMENT_POSITION_FOLLOWING)) break;
      const style = getComputedStyle(shape), matrix = shape.getScreenCTM();
      if (style.fill === 'none' || style.visibility !== 'visible' || !matrix || shape.closest('defs, clipPath, mask, symbol')) continue;
      if (style.fill.startsWith('url(')) return null;
      if (!shape.isPointInFill(new DOMPoint(x, y).matrixTransform(matrix.inverse()))) continue;
      let all = parseFloat(style.fillOpacity);
      for (let e = shape; e !== svg; e = e.parentElement) all *= parseFloat(getComputedStyle(e).opacity);
      layers.push(faded(rgba(style.fill), all));
    }
    return layers;
  };
  const background = (element, box) => {
    let colour = [0, 0, 0, 0];
    for (let e = element; e; e = e.parentElement) {
      const style = getComputedStyle(e);
      if (style.backgroundImage !== 'none') return null;
      if (e instanceof SVGSVGElement && e !== element) {
        const layers = drawn(e, element, box.x + box.width / 2, box.y + box.height / 2);
        if (!layers) return null;
        for (const layer of layers.reverse()) colour = over(colour, layer);
      }
      colour = over(colour, rgba(style.backgroundColor));
    }
    const canvas = document.createElement('div');
    canvas.style.cssText = 'background: Canvas; color-scheme: inherit';
    document.body.append(canvas);
    const paper = rgba(getComputedStyle(canvas).backgroundColor);
    canvas.remove();
    return over(colour, paper);
  };
  const findings = new Set();
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const element = node.parentElement;
    if (!node.data.trim() || element.closest('script, style, title, desc, noscript, template, annotation')) continue;
    if (!element.checkVisibility({visibilityProperty: true, contentVisibilityAuto: true})) continue;
    if (element.closest('[disabled], [aria-disabled=true]')) continue;
    const range = document.createRange();
    range.selectNodeContents(node);
    const box = range.getBoundingClientRect();
    if (box.width < 2 || box.height < 2) continue;
    const style = getComputedStyle(element);
    const clipped = style.clipPath !== 'none' || style.clip !== 'auto';
    if (clipped && element.getBoundingClientRect().width <= 1) continue; // for screen readers alone
    const svg = element instanceof SVGElement;
    const paper = background(element, box);
    if (!paper) { findings.add(`${which(element)}: stands on a picture, where contrast cannot be computed`); continue; }
    let ink = rgba(svg ? style.fill : style.color);
    ink = over(faded(ink, opacity(element) * (svg ? parseFloat(style.fillOpacity) : 1)), paper);
    const [low, high] = [luminance(ink), luminance(paper)].sort((a, b) => a - b);
    const ratio = (high + 0.05) / (low + 0.05);
    let size = parseFloat(style.fontSize);
    if (svg) { const matrix = element.getScreenCTM(); if (matrix) size *= Math.hypot(matrix.a, matrix.b); }
    const large = size >= 24 || (size >= 18.66 && parseInt(style.fontWeight) >= 700);
    const least = large ? 3 : 4.5;
    if (ratio < least) findings.add(`${which(element)}: contrast ${ratio.toFixed(2)}, must be ${least}`);
  }
  return [...findings].slice(0, 12);
}"""


def contrast(view: View) -> list[str]:
    """All text is readable in both colour schemes: contrast 4.5, large text 3."""
    findings = []
    for scheme in SCHEMES:
        for name, page in view.looks(1280, scheme):
            findings += [f"contrast: {scheme}{name}: {found}" for found in page.evaluate(_CONTRAST)]
    return findings


_ROLES = {"button", "link", "checkbox", "radio", "textbox", "searchbox", "combobox", "listbox", "option", "slider", "spinbutton",
          "switch", "tab", "menuitem", "menuitemcheckbox", "menuitemradio", "treeitem", "image", "img", "graphics-document",
          "graphics-object", "graphics-symbol", "DisclosureTriangle", "PopUpButton", "ColorWell", "Date", "InputTime", "Canvas",
          "Video", "Audio", "dialog", "meter", "progressbar"}

# A picture is named, hidden from screen readers, or a part of a picture or control that is.
_PICTURES = "() => {" + _NAMING + """
  const named = e => e.hasAttribute('aria-label') || e.hasAttribute('aria-labelledby') || e.querySelector(':scope > title');
  const findings = [];
  for (const picture of document.querySelectorAll('svg, canvas, img, video, object, embed, iframe')) {
    if (!picture.checkVisibility() || picture.closest('[aria-hidden=true]')) continue;
    if (picture.parentElement.closest('[role=img], button, a, label, summary, svg')) continue;
    if (picture.tagName === 'IMG' ? picture.hasAttribute('alt') : picture.tagName === 'IFRAME' ? picture.title : named(picture)) continue;
    findings.push(`${which(picture)}: a picture without a name`);
  }
  return findings.slice(0, 12);
}"""


def _markup_of(session, node: dict) -> str:
    """The beginning of a node's markup."""
    try:
        html = session.send("DOM.getOuterHTML", {"backendNodeId": node["backendDOMNodeId"]})["outerHTML"]
    except (Error, KeyError):
        return "?"
    return " ".join(html.split())[:100]


def names(view: View) -> list[str]:
    """Every control and every picture has a name for screen readers; the page has a title and a language."""
    findings = []
    for name, page in view.looks():
        if not page.title().strip():
            findings.append(f"names: the page has no title{name}")
        if not page.evaluate("document.documentElement.lang"):
            findings.append(f"names: the page does not say its language{name}")
        findings += [f"names: {found}{name}" for found in page.evaluate(_PICTURES)]
        session = page.context.new_cdp_session(page)
        session.send("DOM.enable")
        session.send("Accessibility.enable")
        for node in session.send("Accessibility.getFullAXTree")["nodes"]:
            role = node.get("role", {}).get("value", "")
            if node.get("ignored") or role not in _ROLES or node.get("name", {}).get("value", "").strip():
                continue
            findings.append(f"names: {role} without a name{name}: {_markup_of(session, node)}")
    return findings


# What Tab must reach: of radio buttons of a group one.
_STOPS = "() => {" + _NAMING + """
  const seen = new Set(), stops = [];
  const closed = e => { const d = e.closest('details:not([open])'); return d && !(e.tagName === 'SUMMARY' && e.parentElement === d); };
  for (const e of document.querySelectorAll('a[href], button, input, select, textarea, summary, [tabindex], [contenteditable=true]')) {
    if (e.tabIndex < 0 || e.disabled || e.type === 'hidden' || closed(e)) continue;
    if (!e.checkVisibility({visibilityProperty: true})) continue;
    if (e.closest('[inert]')) continue;
    if (e.type === 'radio') {
      const group = (e.form ? e.form.id : '') + '/' + e.name;
      if (e.name && seen.has(group)) continue;
      seen.add(group);
    }
    stops.push(which(e));
  }
  return stops;
}"""

_FOCUSED = "() => {" + _NAMING + """
  const e = document.activeElement;
  if (!e || e === document.body || e === document.documentElement) return null;
  const before = window.lastStop;
  window.lastStop = e;
  const order = before ? before.compareDocumentPosition(e) : Node.DOCUMENT_POSITION_FOLLOWING;
  const box = e.getBoundingClientRect();
  const kind = e.tagName + '.' + (e.getAttribute('class') || '') + (e.type || '') + (e.parentElement.getAttribute('class') || '');
  return {name: which(e), kind, forward: !!(order & Node.DOCUMENT_POSITION_FOLLOWING), same: order === 0,
          scroller: e.tabIndex < 0 || (!e.hasAttribute('tabindex') && !e.matches('a, button, input, select, textarea, summary, [contenteditable]')),
          box: [box.x, box.y, box.width, box.height]};
}"""


def _focus_shows(page: Page) -> bool:
    """Whether the picture of the focused element, with what is around it, changes when the focus is taken away."""
    page.evaluate("() => { const e = document.activeElement; e.scrollIntoView({block: 'center', behavior: 'instant'}); }")
    box = page.evaluate("""() => {
      const boxes = [document.activeElement, ...(document.activeElement.labels || [])].map(e => e.getBoundingClientRect());
      const x = Math.max(0, Math.min(...boxes.map(b => b.left)) - 8), y = Math.max(0, Math.min(...boxes.map(b => b.top)) - 8);
      const right = Math.min(innerWidth, Math.max(...boxes.map(b => b.right)) + 8);
      const bottom = Math.min(innerHeight, Math.max(...boxes.map(b => b.bottom)) + 8);
      return {x, y, width: right - x, height: bottom - y};
    }""")
    if box["width"] < 1 or box["height"] < 1:
        return False
    still = {"clip": box, "animations": "disabled", "caret": "hide"}
    focused = page.screenshot(**still)
    page.evaluate("""() => { window.keptStop = document.activeElement; window.keptScroll = [scrollX, scrollY]; keptStop.blur();
                     scrollTo({left: keptScroll[0], top: keptScroll[1], behavior: 'instant'}); }""")
    blurred = page.screenshot(**still)
    page.evaluate("() => keptStop.focus({preventScroll: true, focusVisible: true})")
    return focused != blurred


def focus(view: View, most: int = 3000) -> list[str]:
    """Tab reaches every control, in the order of the document, and the focus is seen."""
    findings = []
    with view.open(motion="reduce") as page:
        expected = page.evaluate(_STOPS)
        session = page.context.new_cdp_session(page)
        session.send("DOM.enable")
        session.send("Accessibility.enable")
        reached, kinds = 0, {}
        while reached < most:
            page.keyboard.press("Tab")
            stop = page.evaluate(_FOCUSED)
            if stop is None or (stop["same"] and reached > 0):
                break
            if not stop["forward"]:
                findings.append(f"focus: {stop['name']} comes before what was focused before it")
                if len(findings) > 20:
                    break
            reached += 0 if stop["scroller"] else 1 # browsers give parts that scroll a stop of their own
            kinds[stop["kind"]] = kinds.get(stop["kind"], 0) + 1
            if kinds[stop["kind"]] > 2:
                continue # the same styles
            if not _focus_shows(page):
                findings.append(f"focus: {stop['name']} does not show that it has the focus")
            handle = session.send("Runtime.evaluate", {"expression": "document.activeElement"})["result"]["objectId"]
            node = session.send("Accessibility.getPartialAXTree", {"objectId": handle, "fetchRelatives": False})["nodes"][0]
            if not node.get("name", {}).get("value", "").strip():
                findings.append(f"focus: {stop['name']} takes the focus and has no name")
        if reached != len(expected):
            findings.append(f"focus: Tab reaches {reached} of {len(expected)} controls")
    return findings


def requests(view: View) -> list[str]:
    """The page asks for nothing beside itself and what the view allows, and its scripts and console are silent."""
    own = View(view.browser, view.address, view.ready, view.allowed, view.states)
    for _ in own.looks():
        pass
    others = sorted({url for url in own.requested
                     if url.split("#")[0] != own.address.split("#")[0] and not url.startswith(("data:", "blob:"))
                     and not own.allowed(url)})
    return [f"requests: asks for {url[:200]}" for url in others] + [f"requests: {text}" for text in sorted(set(own.complaints))]


_MOVING = "() => {" + _NAMING + """
  const findings = [];
  for (const animation of document.getAnimations())
    if (animation.playState === 'running' && animation.effect.getComputedTiming().duration > 10)
      findings.push(`${which(animation.effect.target)} is animated`);
  for (const e of document.querySelectorAll('*')) {
    const style = getComputedStyle(e);
    if (style.scrollBehavior === 'smooth') findings.push(`${which(e)} scrolls smoothly`);
    if (style.transitionDuration.split(',').some(d => parseFloat(d) > 0.01)) findings.push(`${which(e)} has a transition`);
  }
  return [...new Set(findings)].slice(0, 12);
}"""


def motion(view: View) -> list[str]:
    """Nothing moves for who asked for less motion."""
    with view.open(motion="reduce") as page:
        findings = [f"motion: {found}" for found in page.evaluate(_MOVING)]
        first = page.screenshot(caret="hide")
        page.wait_for_timeout(500)
        if page.screenshot(caret="hide") != first:
            findings.append("motion: the picture changes by itself though less motion is asked for")
    return findings


CHECKS = (overflow, contrast, names, focus, requests, motion)


def check_page(browser: Browser, place: str | pathlib.Path, **view: object) -> list[str]:
    """Findings of all checks. `view`: the other members of View."""
    looked_at = View(browser, address_of(place), **view)  # type: ignore[arg-type]
    return [finding for check in CHECKS for finding in check(looked_at)]


def screenshots(browser: Browser, place: str | pathlib.Path, folder: str | pathlib.Path, **view: object) -> list[pathlib.Path]:
    """Pictures of the whole page, for each colour scheme at 390 and 1280 pixels."""
    looked_at = View(browser, address_of(place), **view)  # type: ignore[arg-type]
    pathlib.Path(folder).mkdir(parents=True, exist_ok=True)
    written = []
    for scheme in SCHEMES:
        for width in (390, 1280):
            with looked_at.open(width, scheme) as page:
                path = pathlib.Path(folder) / f"{pathlib.Path(looked_at.address).stem}-{scheme}-{width}.png"
                page.screenshot(path=path, full_page=True)
                written.append(path)
    return written


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description="Checks pages in a browser.")
    parser.add_argument("pages", nargs="+", help="files or addresses")
    parser.add_argument("--screenshots", help="also write pictures of the pages into this folder")
    arguments = parser.parse_args()
    count = 0
    with Browser() as browser:
        for place in arguments.pages:
            for finding in check_page(browser, place):
                print(f"{place}: {finding}")
                count += 1
            if arguments.screenshots:
                screenshots(browser, place, arguments.screenshots)
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main())
