"""The slides of the course as a page that shows one at a time."""

import html
import pathlib
import re

import markdown

PAGE = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<link rel="icon" href="data:,">
<style>
  :root {{ color-scheme: light dark; }}
  body {{ margin: 0; font: clamp(16px, 2.6vmin, 30px)/1.45 system-ui, sans-serif; background: Canvas; color: CanvasText; }}
  section {{ box-sizing: border-box; min-height: 100vh; padding: 6vmin 8vmin; display: none; flex-direction: column; justify-content: center; overflow: auto; }}
  section.shown {{ display: flex; }}
  h1, h2 {{ font-weight: 600; line-height: 1.2; margin: 0 0 0.7em; }}
  section > * {{ max-width: 100%; }}
  table {{ border-collapse: collapse; align-self: flex-start; display: block; overflow-x: auto; }}
  th, td {{ padding: 0.25em 0.8em; border-bottom: 1px solid GrayText; text-align: left; }}
  img {{ max-height: 60vh; align-self: flex-start; max-width: 100%; }}
  div.arithmatex {{ overflow-x: auto; overflow-y: hidden; }}
  .katex {{ position: relative; }}
  nav {{ position: fixed; right: 1rem; bottom: 0.6rem; font-size: 14px; }}
  nav button {{ font: inherit; padding: 0.3em 0.8em; }}
  @media print {{ section {{ display: flex; break-after: page; }} nav {{ display: none; }} }}
</style>
{sections}
<nav><button id="back" aria-label="previous slide">&larr;</button> <span id="at"></span> <button id="on" aria-label="next slide">&rarr;</button></nav>
<script src="{assets}/formulas.js"></script>
<script>
  const slides = [...document.querySelectorAll("section")];
  const number = () => Math.min(Math.max(parseInt(location.hash.slice(1)) || 1, 1), slides.length);
  const show = () => {{
    slides.forEach((slide, i) => slide.classList.toggle("shown", i + 1 === number()));
    document.getElementById("at").textContent = number() + " / " + slides.length;
  }};
  const go = by => {{ location.hash = Math.min(Math.max(number() + by, 1), slides.length); }};
  addEventListener("hashchange", show);
  addEventListener("keydown", event => {{
    if (["ArrowRight", "PageDown", " "].includes(event.key)) go(1);
    if (["ArrowLeft", "PageUp"].includes(event.key)) go(-1);
  }});
  document.getElementById("on").onclick = () => go(1);
  document.getElementById("back").onclick = () => go(-1);
  show();
</script>
"""


def show(text: str, assets: str) -> str:
    """The page: `text` holds Markdown slides separated by lines ---; `assets` leads to the site's assets."""
    sections = []
    for slide in re.split(r"^---$", text, flags=re.MULTILINE):
        extensions = ["tables", "pymdownx.arithmatex", "pymdownx.superfences"]
        body = markdown.markdown(
            slide.strip(), extensions=extensions, extension_configs={"pymdownx.arithmatex": {"generic": True}}
        )
        sections.append(f"<section>\n{body}\n</section>")
    title = re.search(r"^# (.*)$", text, flags=re.MULTILINE)[1]
    return PAGE.format(title=html.escape(title), sections="\n".join(sections), assets=assets)
