#!/usr/bin/env python3
"""Shows page_checks.py pages with one fault each: the check that is meant must find it. A good page has no findings."""

import pathlib
import sys
import tempfile

from page_checks import CHECKS, Browser, View, address_of, check_page, contrast, requests

GOOD_STYLE = """
:root { color-scheme: light dark; --ink: #111; --paper: #fff; --soft: #555; }
@media (prefers-color-scheme: dark) { :root { --ink: #eee; --paper: #111; --soft: #aaa; } }
body { color: var(--ink); background: var(--paper); font: 16px sans-serif; overflow-wrap: anywhere; }
a { color: inherit; } svg { max-width: 100%; } svg text { fill: var(--ink); } figcaption { color: var(--soft); }
.moving { transition: opacity 1s; }
@media (prefers-reduced-motion: reduce) { .moving { transition: none; } }
"""
GOOD_BODY = """
<h1>A page</h1><p>Text with <a href="#end">a link</a> and <button class="moving">a button</button>.</p>
<figure><svg viewBox="0 0 100 20" width="400" role="img" aria-label="a bar"><rect width="50" height="20" fill="#000"/>
<text x="5" y="14" style="fill: #fff">5</text></svg><figcaption>A caption.</figcaption></figure>
<fieldset><legend>Choose</legend><label><input type="radio" name="r" checked> one</label>
<label><input type="radio" name="r"> two</label></fieldset>
<details><summary>More</summary><p>Folded <a href="#end">link</a>.</p></details>
<img alt="nothing" src="data:image/gif;base64,R0lGODlhAQABAAAAACH5BAEKAAEALAAAAAABAAEAAAICTAEAOw==">
<div style="overflow-x: auto" tabindex="0" role="region" aria-label="wide"><div style="width: 3000px">wide</div></div>
<p id="end">The end.</p>
"""

# What is wrong, the check that must say so, words of what it says, and the change to the good page.
FAULTS = [
    ("a wide box", "overflow", "at 320 pixels", GOOD_BODY + "<div style='width: 330px'>x</div>", ""),
    ("a wide box in the dark", "overflow", "dark", GOOD_BODY + "<div class='d'>x</div>",
     "@media (prefers-color-scheme: dark) { .d { width: 2000px } }"),
    ("a wide box that is folded", "overflow", "", GOOD_BODY + "<details><summary>s</summary><p style='width:2500px'>x</p></details>", ""),
    ("faint text", "contrast", "light: p \"faint\"", GOOD_BODY + "<p style='color: #888; background: #fff'>faint</p>", ""),
    ("text faint in the dark alone", "contrast", "dark", GOOD_BODY + "<p class='d'>x y</p>",
     "@media (prefers-color-scheme: dark) { .d { color: #444 } }"),
    ("see-through text", "contrast", "see-through", GOOD_BODY + "<p style='opacity: .4'>see-through</p>", ""),
    ("see-through paper", "contrast", "", GOOD_BODY + "<p style='background: rgba(0,0,0,.5); color: #444'>dim</p>", ""),
    ("faint text on a bar", "contrast", "text", GOOD_BODY.replace("fill: #fff", "fill: #333"), ""),
    ("text on a picture", "contrast", "picture", GOOD_BODY + "<p style='background: linear-gradient(red, blue)'>x y</p>", ""),
    ("large text fainter than 3", "contrast", "must be 3", GOOD_BODY + "<p style='font-size: 30px; color: #aaa; background: #fff'>L</p>", ""),
    ("faint folded text", "contrast", "hid", GOOD_BODY + "<details><summary>s</summary><p style='color:#888;background:#fff'>hid</p></details>", ""),
    ("a button without a name", "names", "button", GOOD_BODY + "<button style='width: 20px; height: 20px'></button>", ""),
    ("a link without a name", "names", "link", GOOD_BODY + "<a href='#x' style='display:inline-block;width:20px;height:20px;border:1px solid'></a>", ""),
    ("a field without a name", "names", "textbox", GOOD_BODY + "<input>", ""),
    ("an image without a name", "names", "img", GOOD_BODY + "<img width=9 height=9 src='data:image/gif;base64,R0lGODlhAQABAAAAACH5BAEKAAEALAAAAAABAAEAAAICTAEAOw=='>", ""),
    ("a drawing without a name", "names", "svg", GOOD_BODY + "<svg width='20' height='20'><circle r='9'/></svg>", ""),
    ("a canvas without a name", "names", "canvas", GOOD_BODY + "<canvas width='20' height='20'></canvas>", ""),
    ("an order of its own", "focus", "comes before", GOOD_BODY + "<button tabindex='2'>b</button>", ""),
    ("a focus that is not seen", "focus", "does not show", GOOD_BODY, "button:focus { outline: none }"),
    ("a control that Tab cannot reach", "focus", "Tab reaches", GOOD_BODY + "<button onfocus='this.blur()'>no</button>", ""),
    ("a picture from elsewhere", "requests", "example.invalid", GOOD_BODY + "<img alt='x' src='http://example.invalid/x.png'>", ""),
    ("a file beside it", "requests", "beside.css", GOOD_BODY + "<link rel='stylesheet' href='beside.css'>", ""),
    ("an error in a script", "requests", "error in a script", GOOD_BODY + "<script>throw new Error('oh')</script>", ""),
    ("a transition", "motion", "transition", GOOD_BODY, ".moving { transition: opacity 1s !important; }"),
    ("an animation", "motion", "animated", GOOD_BODY + "<p class='m'>x</p>",
     "@keyframes k { to { margin-left: 9px } } .m { animation: k 1s infinite }"),
    ("a script that moves", "motion", "by itself", GOOD_BODY + "<p id='m' aria-hidden='true'>0</p><script>setInterval(() => "
     "{ document.getElementById('m').style.marginLeft = (performance.now() / 10) % 90 + 'px' }, 20)</script>", ""),
    ("smooth scrolling", "motion", "smoothly", GOOD_BODY, "html { scroll-behavior: smooth }"),
]
def html(body: str, style: str) -> str:
    """A page."""
    return (f"<!doctype html><html lang='en'><head><meta charset='utf-8'><meta name='viewport' content='width=device-width'>"
            f"<title>t</title><style>{GOOD_STYLE}{style}</style></head><body>{body}</body></html>")


def main() -> int:
    """Prints what is wrong and gives the number of it."""
    wrong = 0

    def complain(text: str) -> None:
        nonlocal wrong
        wrong += 1
        print(text)

    with tempfile.TemporaryDirectory() as folder, Browser() as browser:
        path = pathlib.Path(folder) / "page.html"
        path.write_text(html(GOOD_BODY, ""), encoding="utf-8")
        if found := check_page(browser, path):
            complain(f"the good page: {found}")
        checks = {check.__name__: check for check in CHECKS}
        for what, meant, words, body, style in FAULTS:
            path.write_text(html(body, style), encoding="utf-8")
            found = checks[meant](View(browser, address_of(path)))
            if not any(words in finding for finding in found):
                complain(f"{what}: {meant} finds {found or 'nothing'}")
        # A fault that is seen in a further state alone, and a request that is allowed.
        hidden = "<p id='late' hidden style='color: #888; background: #fff'>late</p><img alt='x' src='beside.png'>"
        path.write_text(html(GOOD_BODY + hidden, ""), encoding="utf-8")
        state = {"later": lambda page: page.evaluate("document.getElementById('late').hidden = false")}
        if contrast(View(browser, address_of(path))):
            complain("hidden text is looked at")
        if not any(", later" in finding for finding in contrast(View(browser, address_of(path), states=state))):
            complain("faint text of a further state is not found")
        if any("asks for" in finding for finding in requests(View(browser, address_of(path), allowed=lambda url: "beside" in url))):
            complain("an allowed request is complained about")
    print(f"{len(FAULTS)} faults, {wrong} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
