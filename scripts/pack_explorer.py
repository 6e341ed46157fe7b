#!/usr/bin/env python3
"""Packs the explorer: scripts/explorer.sh calls it with what emscripten and esbuild made.

    pack_explorer.py formulas OUT.json                          the catalogue's formulas, MathML by TeX
    pack_explorer.py worker ENGINE.js WORKER.js OUT.txt         the source of the worker
    pack_explorer.py pages ENGINE.wasm EXPLORER.js OUT_FOLDER   the folder, and OUT_FOLDER/explorer.html, all in one file

Every page carries a Content-Security-Policy that forbids every connection.
"""
import base64
import gzip
import hashlib
import json
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
WEB = ROOT / "apps" / "explore" / "web"
ENTRY = re.compile(r'\{R"~\((.*?)\)~", R"~\((.*?)\)~"\},\n', re.S)


def formulas(out):
    table = dict(ENTRY.findall((ROOT / "apps/report/formulas.inc").read_text(encoding="utf-8")))
    if len(table) < 100:
        sys.exit(f"pack_explorer.py: {len(table)} formulas are too few; has formulas.inc another form now?")
    pathlib.Path(out).write_text(json.dumps(table, ensure_ascii=False), encoding="utf-8")


def worker(engine, program, out):
    pathlib.Path(out).write_text(
        pathlib.Path(engine).read_text(encoding="utf-8") + "\n" + pathlib.Path(program).read_text(encoding="utf-8"),
        encoding="utf-8")


def hashed(text):
    return "'sha256-" + base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode() + "'"


def with_policy(html, scripts, styles):
    policy = ("default-src 'none'; connect-src 'none'; form-action 'none'; base-uri 'none'; img-src data: blob:; "
              f"worker-src blob:; script-src {scripts} 'wasm-unsafe-eval'; style-src {styles}")
    return html.replace('<meta charset="utf-8">',
                        f'<meta charset="utf-8">\n<meta http-equiv="Content-Security-Policy" content="{policy}">')


def pages(wasm, program, out):
    out = pathlib.Path(out)
    out.mkdir(parents=True, exist_ok=True)
    packed = gzip.compress(pathlib.Path(wasm).read_bytes(), 9, mtime=0)
    engine = f'globalThis.explorerEngine="{base64.b64encode(packed).decode()}";\n'
    explorer = pathlib.Path(program).read_text(encoding="utf-8")
    style = (WEB / "style.css").read_text(encoding="utf-8")
    html = (WEB / "index.html").read_text(encoding="utf-8")
    (out / "index.html").write_text(with_policy(html, "'self' blob:", "'self'"), encoding="utf-8")
    (out / "engine.js").write_text(engine, encoding="utf-8")
    (out / "explorer.js").write_text(explorer, encoding="utf-8")
    (out / "explorer.css").write_text(style, encoding="utf-8")
    # A script must not end its own element.
    engine, explorer = (text.replace("</script", "<\\/script") for text in (engine, explorer))
    one = with_policy(html, f"{hashed(engine)} {hashed(explorer)} blob:", hashed(style))
    for element, inline in (('<link rel="stylesheet" href="explorer.css">', f"<style>{style}</style>"),
                            ('<script src="engine.js"></script>', f"<!-- model -->\n<script>{engine}</script>"),
                            ('<script src="explorer.js"></script>', f"<script>{explorer}</script>")):
        if html.count(element) != 1:
            sys.exit(f"pack_explorer.py: index.html has no {element}")
        one = one.replace(element, inline)
    (out / "explorer.html").write_text(one, encoding="utf-8")


if __name__ == "__main__":
    steps = {"formulas": (formulas, 1), "worker": (worker, 3), "pages": (pages, 3)}
    if len(sys.argv) < 2 or sys.argv[1] not in steps or len(sys.argv) - 2 != steps[sys.argv[1]][1]:
        sys.exit(__doc__)
    steps[sys.argv[1]][0](*sys.argv[2:])
