#!/usr/bin/env python3
"""Packs the explorer: scripts/explorer.sh calls it with what emscripten and esbuild made.

    pack_explorer.py formulas OUT.json                          the catalogue's formulas, MathML by TeX
    pack_explorer.py chapters OUT.json                          the catalogue's chapters, with the ids of their rows
    pack_explorer.py font OUT.woff2                             the glyphs of a mathematics font that the formulas use
    pack_explorer.py worker ENGINE.js WORKER.js OUT.txt         the source of the worker
    pack_explorer.py pages ENGINE.wasm EXPLORER.js FONT.woff2 OUT_FOLDER
                                                                the folder, and OUT_FOLDER/explorer.html, all in one file

Every page carries a Content-Security-Policy that forbids every connection.
"""
import base64
import gzip
import hashlib
import html
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree

ROOT = pathlib.Path(__file__).resolve().parent.parent
WEB = ROOT / "apps" / "explore" / "web"
ENTRY = re.compile(r'\{R"~\((.*?)\)~", R"~\((.*?)\)~"\},\n', re.S)


# Debian's fonts-lmodern. Browsers lay MathML out by the table MATH of such a font, and few systems have one.
FONT = pathlib.Path("/usr/share/texmf/fonts/opentype/public/lm-math/latinmodern-math.otf")


def table_of_formulas():
    table = dict(ENTRY.findall((ROOT / "apps/report/formulas.inc").read_text(encoding="utf-8")))
    if len(table) < 100:
        sys.exit(f"pack_explorer.py: {len(table)} formulas are too few; has formulas.inc another form now?")
    return table


def set_primes(element):
    """Sets primes beside their letter instead of above it: the font's own stand high already."""
    for child in element:
        set_primes(child)
    if element.tag not in ("msup", "msubsup"):
        return
    above = element[-1]
    parts = list(above) if above.tag == "mrow" else [above]
    if not parts or parts[0].text != "′":
        return
    base = ElementTree.Element("mrow")
    prime = ElementTree.SubElement(base, "mo", lspace="0", rspace="0")
    prime.text = "′"
    base.insert(0, element[0])
    rest = ElementTree.Element("mrow")
    rest.extend(parts[1:])
    children = [base, *element[1:-1], *([rest] if len(rest) else [])]
    element.tag = {1: "mrow", 2: "msub" if element.tag == "msubsup" else "msup", 3: "msubsup"}[len(children)]
    element[:] = children


def tidied(markup):
    """The formula as a font for mathematics wants it: with its own primes, and the sign of a transpose without space."""
    root = ElementTree.fromstring(f"<span>{markup}</span>")
    for element in root.iter("mo"):
        if element.text == "⊤":
            element.tag = "mi"
            element.set("mathvariant", "normal")
    for element in root.iter():
        if element.text == "⟺":  # a letter would stand without space; at a formula's start an operator needs none before it
            element.tag = "mo"
            element.attrib.update(form="infix", lspace="0", rspace="0.2778em")
    set_primes(root)
    return "".join(ElementTree.tostring(math, encoding="unicode", short_empty_elements=False) for math in root)


def formulas(out):
    table = {tex: tidied(markup) for tex, markup in table_of_formulas().items()}
    pathlib.Path(out).write_text(json.dumps(table, ensure_ascii=False), encoding="utf-8")


def chapters(out):
    """A chapter of docs/catalogue.md is a heading with a table of rows below it."""
    found = []
    for line in (ROOT / "docs/catalogue.md").read_text(encoding="utf-8").splitlines():
        if line.startswith("## "):
            name = re.sub(r" \(section .*\)", "", line.removeprefix("## "))
            slug = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
            found.append({"name": name, "slug": slug, "ids": []})
        elif found and (row := re.match(r"\| `([^`]+)` \|", line)):
            found[-1]["ids"].append(row[1])
    found = [chapter for chapter in found if chapter["ids"]]
    if sum(len(chapter["ids"]) for chapter in found) < 100:
        sys.exit("pack_explorer.py: docs/catalogue.md has too few rows; have its tables another form now?")
    pathlib.Path(out).write_text(json.dumps(found, ensure_ascii=False), encoding="utf-8")


def drawn(character):
    """What a browser draws for a letter that stands alone in <mi>: the letter of mathematics in italics."""
    code = ord(character)
    if character == "h":
        return "\u210e"
    for first, last, italic in (("a", "z", 0x1D44E), ("A", "Z", 0x1D434), ("α", "ω", 0x1D6FC)):
        if ord(first) <= code <= ord(last):
            return chr(italic + code - ord(first))
    return {"ϵ": "\U0001d716", "∂": "\U0001d715"}.get(character, character)


def font(out):
    markup = "".join(table_of_formulas().values())
    texts = re.findall(r"<m(?:i|o|n|s|text)\b[^>]*>([^<]*)<", markup)
    used = set("".join(map(html.unescape, texts)))
    if "<msqrt" in markup or "<mroot" in markup:
        used.add("√")  # no text of the formula: a browser draws it, with the sizes that the table MATH lists
    with tempfile.TemporaryDirectory() as folder:
        wanted = pathlib.Path(folder, "used.txt")
        wanted.write_text("".join(sorted(used | set(map(drawn, used)))), encoding="utf-8")
        subprocess.run(["/usr/bin/pyftsubset", FONT, f"--text-file={wanted}", "--flavor=woff2", f"--output-file={out}",
                        "--layout-features=", "--no-ignore-missing-unicodes", "--no-hinting", "--desubroutinize", "--drop-tables+=FFTM"], check=True)


def worker(engine, program, out):
    pathlib.Path(out).write_text(
        pathlib.Path(engine).read_text(encoding="utf-8") + "\n" + pathlib.Path(program).read_text(encoding="utf-8"),
        encoding="utf-8")


def hashed(text):
    return "'sha256-" + base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode() + "'"


def with_policy(page, scripts, styles):
    policy = ("default-src 'none'; connect-src 'none'; form-action 'none'; base-uri 'none'; img-src data: blob:; font-src data:; "
              f"worker-src blob:; script-src {scripts} 'wasm-unsafe-eval'; style-src {styles}")
    return page.replace('<meta charset="utf-8">',
                        f'<meta charset="utf-8">\n<meta http-equiv="Content-Security-Policy" content="{policy}">')


def pages(wasm, program, glyphs, out):
    out = pathlib.Path(out)
    out.mkdir(parents=True, exist_ok=True)
    packed = gzip.compress(pathlib.Path(wasm).read_bytes(), 9, mtime=0)
    engine = f'globalThis.explorerEngine="{base64.b64encode(packed).decode()}";\n'
    explorer = pathlib.Path(program).read_text(encoding="utf-8")
    face = base64.b64encode(pathlib.Path(glyphs).read_bytes()).decode()
    style = (WEB / "style.css").read_text(encoding="utf-8") + (
        '/* Glyphs of Latin Modern Math, by the GUST e-foundry; GUST Font License. */\n'
        f'@font-face {{ font-family: "explorer math"; src: url(data:font/woff2;base64,{face}) format("woff2"); }}\n')
    page = (WEB / "index.html").read_text(encoding="utf-8")
    (out / "index.html").write_text(with_policy(page, "'self' blob:", "'self'"), encoding="utf-8")
    (out / "engine.js").write_text(engine, encoding="utf-8")
    (out / "explorer.js").write_text(explorer, encoding="utf-8")
    (out / "explorer.css").write_text(style, encoding="utf-8")
    # A script must not end its own element.
    engine, explorer = (text.replace("</script", "<\\/script") for text in (engine, explorer))
    one = with_policy(page, f"{hashed(engine)} {hashed(explorer)} blob:", hashed(style))
    for element, inline in (('<link rel="stylesheet" href="explorer.css">', f"<style>{style}</style>"),
                            ('<script src="engine.js"></script>', f"<!-- model -->\n<script>{engine}</script>"),
                            ('<script src="explorer.js"></script>', f"<script>{explorer}</script>")):
        if page.count(element) != 1:
            sys.exit(f"pack_explorer.py: index.html has no {element}")
        one = one.replace(element, inline)
    (out / "explorer.html").write_text(one, encoding="utf-8")


if __name__ == "__main__":
    steps = {"formulas": (formulas, 1), "chapters": (chapters, 1), "font": (font, 1), "worker": (worker, 3),
             "pages": (pages, 4)}
    if len(sys.argv) < 2 or sys.argv[1] not in steps or len(sys.argv) - 2 != steps[sys.argv[1]][1]:
        sys.exit(__doc__)
    steps[sys.argv[1]][0](*sys.argv[2:])
