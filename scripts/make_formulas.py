#!/usr/bin/env python3
"""Brings apps/report/formulas.inc, the catalogue's formulas as MathML, up to the tables of docs/catalogue.md and errata.md.

    python3 -m pip install latex2mathml==3.81.1
    python3 scripts/make_formulas.py

Formulas that have an entry keep it, new ones are rendered by latex2mathml, and entries that no table uses are removed.
"""
import pathlib
import re
import xml.etree.ElementTree as ElementTree

from latex2mathml.converter import convert

ROOT = pathlib.Path(__file__).resolve().parent.parent
TABLE = ROOT / "apps" / "report" / "formulas.inc"
HEAD = "// Made by scripts/make_formulas.py; not to be edited.\n"
ENTRY = re.compile(r'\{R"~\((.*?)\)~", R"~\((.*?)\)~"\},\n')
NAMESPACE = "{http://www.w3.org/1998/Math/MathML}"


def formulas(page):
    """The column "formula" of a page's tables."""
    column = None
    for line in page.read_text(encoding="utf-8").splitlines():
        cells = line.removeprefix("| ").removesuffix(" |").split(" | ") if line.startswith("| ") else []
        if "formula" in cells:
            column = cells.index("formula")
        elif not line.startswith("|"):
            column = None
        elif column is not None and line.startswith("| `"):
            yield cells[column].removeprefix("$").removesuffix("$")


def parts(tex):
    """Cuts after commas and at wide spaces outside all brackets, so that the formula breaks into lines."""
    if "\\begin" in tex:
        return [tex]
    found, depth, at = [""], 0, 0
    while at < len(tex):
        depth += (tex[at] in "{(") - (tex[at] in "})")
        arrow = tex.startswith(("\\Rightarrow", "\\iff"), at) and not found[-1].endswith("\\not")
        space = re.compile(r"\\quad" if not found[-1].endswith(",") else r"\\quad|\\ ").match(tex, at)
        if depth == 0 and (arrow or space):
            found.append("")
            at = space.end() if space else at
        if at < len(tex):
            found[-1] += tex[at]
        at += 1
    return [part for part in found if part.strip()]


def rendered(part):
    math = ElementTree.fromstring(convert(part, display="block"))
    for element in math.iter():
        element.tag = element.tag.removeprefix(NAMESPACE)
    math.set("alttext", part)
    return ElementTree.tostring(math, encoding="unicode", short_empty_elements=False)


def main():
    known = dict(ENTRY.findall(TABLE.read_text(encoding="utf-8")))
    used = {tex: None for name in ("catalogue.md", "errata.md") for tex in formulas(ROOT / "docs" / name)}
    entries = {tex: known.get(tex) or "".join(map(rendered, parts(tex))) for tex in used}
    lines = (f'{{R"~({tex})~", R"~({mathml})~"}},\n' for tex, mathml in entries.items())
    TABLE.write_text(HEAD + "".join(lines), encoding="utf-8")
    print(f"{len(entries)} formulas, {len(entries.keys() - known.keys())} of them new")


if __name__ == "__main__":
    main()
