"""The C++ reference: a page for each public header, from Doxygen's XML.

Public is what <equigrad/equigrad.h> includes, itself or through other headers. write() makes the pages; public_headers() is
also what check.py asks.
"""

import html
import os
import pathlib
import re
import subprocess
import textwrap
import xml.etree.ElementTree as ElementTree

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
UMBRELLA = "include/equigrad/equigrad.h"


def public_headers() -> list[str]:
    found: set[str] = set()
    rest = [UMBRELLA]
    while rest:
        name = rest.pop()
        found.add(name)
        included = re.findall(r'^#include "([^"]+)"', (ROOT / name).read_text(encoding="utf-8"), flags=re.MULTILINE)
        for each in included:
            if not (ROOT / each).is_file():
                raise SystemExit(f"{name} includes {each}, and the tree has no such file")
        rest += [each for each in included if each not in found]
    return sorted(found - {UMBRELLA})


def run_doxygen(headers: list[str], out: pathlib.Path) -> list[ElementTree.Element]:
    """The compounds (classes, namespaces, files) that Doxygen finds."""
    options = {
        "PROJECT_NAME": "equigrad",
        "OUTPUT_DIRECTORY": out,
        "GENERATE_HTML": "NO",
        "GENERATE_LATEX": "NO",
        "GENERATE_XML": "YES",
        "XML_PROGRAMLISTING": "NO",
        "EXTRACT_ALL": "YES",
        "JAVADOC_AUTOBRIEF": "NO",
        "AUTOLINK_SUPPORT": "NO",
        "HAVE_DOT": "NO",
        "QUIET": "YES",
        "WARNINGS": "NO",
        "WARN_LOGFILE": out / "warnings.txt",
        "STRIP_FROM_PATH": ROOT,
        "INPUT": " ".join(str(ROOT / name) for name in headers),
    }
    out.mkdir(parents=True, exist_ok=True)
    text = "".join(f"{name} = {value}\n" for name, value in options.items())
    subprocess.run(["doxygen", "-"], input=text.encode(), check=True, cwd=out, env={**os.environ, "LC_ALL": "C.UTF-8"})
    index = ElementTree.parse(out / "xml/index.xml").getroot()
    return [
        ElementTree.parse(out / "xml" / f"{compound.get('refid')}.xml").getroot().find("compounddef")
        for compound in index.iter("compound")
        if compound.get("kind") in ("class", "struct", "union", "namespace")
    ]


def text_of(element: ElementTree.Element | None) -> str:
    return "" if element is None else re.sub(r"\s+", " ", "".join(element.itertext())).strip()


def meaning(element: ElementTree.Element) -> str:
    """The doc comment as HTML: nothing in it is Markdown."""
    parts = []
    for side in ("briefdescription", "detaileddescription", "inbodydescription"):
        for paragraph in element.findall(f"{side}/para"):
            body = "".join(pieces(paragraph)).strip()
            if body:
                parts.append(f"<p>{body}</p>")
    text = re.sub(r"<p>\s*</p>", "", "".join(parts))
    return f'<div class="meant">{text}</div>\n\n' if text else ""


# What Doxygen read as a mark where comments mean the characters.
MARKS = {"emphasis": "*", "bold": "**", "ndash": "--", "mdash": "---", "sp": " ", "linebreak": " "}
PLAIN = {"itemizedlist", "orderedlist", "codeline", "highlight", "ref", "ulink"}


def pieces(element: ElementTree.Element):
    yield html.escape(element.text or "", quote=False)
    for child in element:
        inner = "".join(pieces(child))
        if child.tag == "computeroutput":
            inner = f"<code>{inner}</code>"
        elif child.tag == "listitem":
            inner = f"<br>\u2022 {inner}"
        elif child.tag in ("verbatim", "preformatted", "programlisting"):
            inner = f"</p><pre><code>{inner.strip()}</code></pre><p>"
        elif child.tag in MARKS:
            inner = MARKS[child.tag] + inner + (MARKS[child.tag] if inner else "")
        elif child.tag == "para":
            inner += " "
        elif child.tag not in PLAIN:
            raise SystemExit(f"cpp_reference.py: Doxygen gives <{child.tag}> for a comment: {text_of(element)[:100]}")
        yield inner
        yield html.escape(child.tail or "", quote=False)


def anchor(qualified: str) -> str:
    """`eg::nn::Linear` as the id eg.nn.Linear; template arguments have no place in it."""
    return re.sub(r"[^\w.~]", "_", qualified.split("<")[0].strip().replace("::", "."))


def template_of(element: ElementTree.Element) -> str:
    parameters = element.findall("templateparamlist/param")
    if not element.findall("templateparamlist"):
        return ""
    named = [f"{text_of(p.find('type'))} {text_of(p.find('declname'))}".strip() for p in parameters]
    return f"template <{', '.join(named)}>\n"


def declaration(member: ElementTree.Element) -> str:
    kind, name, type_ = member.get("kind"), text_of(member.find("name")), text_of(member.find("type"))
    head = template_of(member)
    if kind == "typedef":
        return spaced(f"{head}using {name} = {type_.removeprefix('typedef ')};")
    if member.get("static") == "yes" and "static" not in type_:
        head += "static "
    if member.get("explicit") == "yes":
        head += "explicit "
    if member.get("virt") in ("virtual", "pure-virtual") and "virtual" not in type_:
        head += "virtual "
    rest = re.sub(r"\s*=\s*0$", " = 0", text_of(member.find("argsstring")))
    value = text_of(member.find("initializer")) if kind == "variable" else ""
    value = "" if len(value) > 60 else (value if value.startswith("{") or not value else f" {value}")
    return spaced(f"{head}{type_} {name}{rest}{value};".replace("  ", " ").strip())


def spaced(text: str) -> str:
    """A declaration with the spaces of the sources."""
    text = re.sub(r"(?<=\w)< | (?=>)", lambda m: "<" if m[0] == "< " else "", text)
    text = re.sub(r" (&&?|\*+) ?(?=[\w.])", r"\1 ", text)
    return re.sub(r" (&&?|\*+)(?=[,)>])", r"\1", text).replace("operator& ", "operator&")


def fields(members: list[ElementTree.Element]) -> str:
    """Data members and type names in one block, each below its comment."""
    lines = []
    for member in members:
        comment = " ".join(text_of(member.find(side)) for side in ("briefdescription", "detaileddescription")).strip()
        lines += [f"// {line}" for line in textwrap.wrap(comment, 80)] + [declaration(member)]
    return fenced(lines) if lines else ""


def fenced(lines: list[str]) -> str:
    return "```cpp\n" + "\n".join(lines) + "\n```\n\n"


def enumeration(member: ElementTree.Element, scope: str, level: int) -> str:
    name = text_of(member.find("name")) or "values"
    rows = "".join(
        f"<dt><code>{html.escape(text_of(value.find('name')))}</code></dt><dd>{meaning(value).strip() or '&nbsp;'}</dd>"
        for value in member.findall("enumvalue")
    )
    head = f"{'#' * level} enum `{name}` {{#{anchor(f'{scope}::{name}')}}}\n\n"
    return head + meaning(member) + f'<dl markdown="0">{rows}</dl>\n\n'


def functions(members: list[ElementTree.Element], scope: str, level: int) -> str:
    """Overloads stand under one heading."""
    named: dict[str, list[ElementTree.Element]] = {}
    for member in members:
        named.setdefault(text_of(member.find("name")), []).append(member)
    text = ""
    for name, overloads in named.items():
        text += f"{'#' * level} `{name}` {{#{anchor(f'{scope}::{name}')}}}\n\n"
        for member in overloads:
            text += fenced([declaration(member)]) + meaning(member)
    return text


def members_of(compound: ElementTree.Element) -> list[ElementTree.Element]:
    return [
        m for s in compound.findall("sectiondef") for m in s.findall("memberdef") if m.get("prot") in ("public", None)
    ]


def class_text(compound: ElementTree.Element, inner: dict[str, ElementTree.Element], level: int) -> str:
    full = text_of(compound.find("compoundname"))
    bases = [f"{b.get('prot')} {text_of(b)}" for b in compound.findall("basecompoundref")]
    head = (
        f"{template_of(compound)}{compound.get('kind')} {full.split('::')[-1]}"
        + (f" : {', '.join(bases)}" if bases else "")
        + ";"
    )
    text = f"{'#' * level} `{full}` {{#{anchor(full)}}}\n\n" + fenced([spaced(head)]) + meaning(compound)
    members = members_of(compound)
    of = lambda *kinds: [m for m in members if m.get("kind") in kinds]
    for member in of("enum"):
        text += enumeration(member, full, level + 1)
    text += fields(of("typedef", "variable"))
    text += functions(of("function", "friend"), full, level + 1)
    for ref in compound.findall("innerclass"):
        if ref.get("prot") in ("public", None) and ref.get("refid") in inner:
            text += class_text(inner[ref.get("refid")], inner, min(level + 1, 5))
    return text


def introduction(header: str) -> str:
    """The comment at the top of a header."""
    lines = []
    for line in (ROOT / header).read_text(encoding="utf-8").split("\n")[1:]:
        if not line.startswith("//"):
            break
        lines.append(line.removeprefix("//").strip())
    return f"<p>{html.escape(' '.join(lines), quote=False)}</p>\n\n" if lines else ""


def page_of(header: str) -> str:
    return f"reference/cpp/{header.replace('/', '_').removesuffix('.h')}.md"


def write(site, out: pathlib.Path) -> list:
    """The pages, and the navigation by folder."""
    headers = public_headers()
    compounds = run_doxygen(headers, out)
    by_id = {c.get("id"): c for c in compounds}
    nested = {ref.get("refid") for c in compounds if c.get("kind") != "namespace" for ref in c.findall("innerclass")}
    navigation: dict[str, list] = {}
    listed = []
    for header in headers:
        text = f"# `{header}`\n\n{introduction(header)}`#include <equigrad/equigrad.h>`, or `\"{header}\"`. [Source]({site.link('include/equigrad/equigrad.h', '../../' + header)})\n\n"
        for compound in compounds:
            place = compound.find("location")
            if (
                compound.get("kind") != "namespace"
                and compound.get("id") not in nested
                and place is not None
                and place.get("file") == header
            ):
                text += class_text(compound, by_id, 2)
        for compound in compounds:
            if compound.get("kind") != "namespace":
                continue
            scope = text_of(compound.find("compoundname"))
            here = [
                m
                for m in members_of(compound)
                if m.find("location") is not None and m.find("location").get("file") == header
            ]
            if not here:
                continue
            of = lambda *kinds: [m for m in here if m.get("kind") in kinds]
            text += f"## Namespace `{scope}`\n\n"
            for member in of("enum"):
                text += enumeration(member, scope, 3)
            text += fields(of("typedef", "variable"))
            text += functions(of("function"), scope, 3)
        site.write(page_of(header), text)
        room = header.rpartition("/")[0]
        navigation.setdefault(room, []).append({header: page_of(header)})
        listed.append(
            f"| [`{header}`]({pathlib.PurePath(page_of(header)).name}) | {introduction(header).strip().removeprefix('<p>').removesuffix('</p>').split('. ')[0]} |"
        )
    table = "\n".join(["| header | what it declares |", "|---|---|", *listed])
    site.write(
        "reference/cpp/README.md",
        f"# C++ reference\n\n`#include <equigrad/equigrad.h>` gives all of it; [building](../../docs/building.md) says how to link.\n\n{table}\n",
    )
    return [{room: pages} for room, pages in navigation.items()]
