#!/usr/bin/env python3
"""stage.py PACKAGE OUT: writes the pages of the site into OUT/pages, and OUT/mkdocs.yml.

The pages are the tree's own Markdown, at the same places, with links that lead somewhere on the site: those to sources lead
to pages that show them, those to folders to lists of their files. The reference is made from the public headers and from
the built Python package PACKAGE. What GitHub reads and Python-Markdown does not (lists without a blank line before them,
list items indented by two, Markdown inside <details>) is rewritten.
"""

import pathlib
import re
import shutil
import subprocess
import sys

import cpp_reference
import python_reference
import slides
import yaml
from text import normalised, relative, with_code

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(ROOT / "docs/course"))
import make_notebooks

KATEX = pathlib.Path("/usr/share/javascript/katex")
LINK = re.compile(r"(\]\()([^()\s]+)(\))")
# To the explorer, which is a part of the site and not of the tree.
EXPLORER = re.compile(r"( \u00b7 )?\[([^\[\]]*)\]\((?:\.\./)*explore/index\.html(#[^()\s]*)?\)")
START = "scripts/site/start.md"
# Pages that do not lie where the tree has them.
PLACES = {
    START: "index.md",
    "README.md": "overview.md",
    "include/equigrad/equigrad.h": "reference/cpp/README.md",
    "python/equigrad/__init__.py": "reference/python/README.md",
}
SLIDES = "docs/course/slides.md"
LANGUAGES = {".h": "cpp", ".cpp": "cpp", ".cu": "cpp", ".py": "python", ".sh": "sh", ".json": "json", ".cmake": "cmake"}
PICTURES = {".svg", ".png", ".jpg"}


class Site:
    def __init__(self, out: pathlib.Path):
        self.pages = out / "pages"
        listed = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            cwd=ROOT,
            check=True,
            capture_output=True,
        )
        self.tree = {name for name in listed.stdout.decode().split("\0") if name and (ROOT / name).is_file()}
        self.folders = {str(parent) for name in self.tree for parent in pathlib.PurePath(name).parents}
        self.markdown = sorted(name for name in self.tree if name.endswith(".md"))
        self.notebooks = sorted(name for name in self.tree if re.fullmatch(r"docs/course/notebooks/\d\d_\w+\.py", name))
        self.has_explorer = (ROOT / "build/explorer").is_dir()
        self.wanted: set[str] = set(self.notebooks)  # sources, folders and pictures that some page links to
        self.shown: list[str] = []  # the pages of the sources and folders among them

    def place(self, target: str) -> str | None:
        """Where the site has a file or folder of the tree; None where it is no part of it."""
        if target in PLACES:
            return PLACES[target]
        if target in self.folders and f"{target}/README.md" in self.tree:
            return f"{target}/README.md"
        if target.endswith(".md"):
            return target if target in self.tree else None
        if target in self.folders:
            self.wanted.add(target)
            return f"{target}/index.md"
        if target in self.tree:
            self.wanted.add(target)
            return target if pathlib.PurePath(target).suffix in PICTURES else f"{target}.md"
        return None

    def link(self, source: str, link: str) -> str:
        """A link of the page `source` as the site has it."""
        if re.match(r"[a-z]+:", link) or link.startswith("#"):
            return link
        if link.startswith("/"):  # made by explorer_link()
            return link[1:]
        path, mark, anchor = link.partition("#")
        target = str((ROOT / source).parent.joinpath(path).resolve().relative_to(ROOT))
        place = self.place(target)
        if place is None:
            raise SystemExit(f"{source}: {link} is no part of the tree")
        return relative(PLACES.get(source, source), place) + mark + anchor

    def write(self, place: str, text: str) -> None:
        path = self.pages / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def page(self, name: str) -> None:
        text = (ROOT / name).read_text(encoding="utf-8")
        lines = []
        for line, code in with_code(normalised(text)):
            if not code:
                line = LINK.sub(
                    lambda m: m[1] + self.link(name, m[2]) + m[3],
                    EXPLORER.sub(lambda m: self.explorer_link(name, m), line),
                )
            lines.append(line)
        text = "\n".join(lines).replace("<!-- explorer -->", self.explorer()) if name == START else "\n".join(lines)
        if name == SLIDES:
            self.write(name.replace("slides.md", "show.html"), slides.show(text, "../../assets"))
            text = text.replace("\n---\n", "\n[Show one at a time](show.html){ .md-button }\n\n---\n", 1)
        self.write(PLACES.get(name, name), text)

    def explorer_link(self, source: str, link: re.Match) -> str:
        """A link to the explorer. Where it was not built, an item of a list of links goes, and words stay without a link."""
        if not self.has_explorer:
            return "" if link[1] else link[2]
        there = relative(PLACES.get(source, source), "explore/index.html")
        return f"{link[1] or ''}[{link[2]}](/{there}{link[3] or ''})"

    def explorer(self) -> str:
        """The start page's way to the explorer."""
        if not self.has_explorer:
            return ""
        return "[Open the explorer](explore/index.html){ .md-button .md-button--primary } The library in this page: drag tokens, break it, heal it."

    def source(self, name: str) -> None:
        path = ROOT / name
        if path.suffix in PICTURES:
            (self.pages / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, self.pages / name)
        elif path.is_dir():
            inside = sorted(
                {pathlib.PurePath(f).relative_to(name).parts[0] for f in self.tree if f.startswith(f"{name}/")}
            )
            items = [f"- [{part}]({relative(f'{name}/index.md', self.place(f'{name}/{part}'))})" for part in inside]
            self.shown.append(f"{name}/index.md")
            self.write(f"{name}/index.md", f"# {name}\n\n" + "\n".join(items) + "\n")
        elif name in self.notebooks:
            self.write(f"{name}.md", notebook(path))
        else:
            text = path.read_text(encoding="utf-8")
            fence = "`" * max(3, 1 + max((len(run) for run in re.findall(r"`+", text)), default=0))
            language = LANGUAGES.get(path.suffix, "text")
            self.shown.append(f"{name}.md")
            self.write(
                f"{name}.md", f"---\nsearch:\n  exclude: true\n---\n\n# {name}\n\n{fence}{language}\n{text}\n{fence}\n"
            )

    def sources(self) -> None:
        done: set[str] = set()
        while rest := self.wanted - done:  # a folder's list wants more
            for name in sorted(rest):
                self.source(name)
            done |= rest


def notebook(path: pathlib.Path) -> str:
    """A notebook as a page: its text, its code, and what to run."""
    parts = []
    for cell in make_notebooks.cells(path.read_text(encoding="utf-8")):
        text = "".join(cell["source"])
        parts.append(normalised(text) if cell["cell_type"] == "markdown" else f"```python\n{text}\n```")
    parts.insert(
        1, f"Run it: `python docs/course/notebooks/{path.name}`, or as a notebook ([how](../README.md#set-up))."
    )
    return "\n\n".join(parts) + "\n"


def title(site: Site, name: str) -> str:
    """The first heading of a page of the site."""
    for line in (site.pages / name).read_text(encoding="utf-8").split("\n"):
        if line.startswith("# "):
            return re.sub(r"[`*]|\[([^\]]*)\]\([^)]*\)", r"\1", line[2:]).strip()
    raise SystemExit(f"{name} has no title")


def section(site: Site, names: list[str]) -> list[dict[str, str]]:
    return [{title(site, place): place} for place in (PLACES.get(name, name) for name in names)]


def navigation(site: Site, cpp: list, python: list) -> list:
    """Tabs: the sections of docs/README.md in their order, then the course, the theorems, the operations, the reference, and the rest."""
    index = (ROOT / "docs/README.md").read_text(encoding="utf-8")
    used = {"docs/README.md", "README.md", START}

    def linked(text: str, folder: str, keep) -> list[str]:
        names = []
        for link in re.findall(r"\]\(([^()\s#]+\.md)(?:#[^()\s]*)?\)", text):
            name = str((ROOT / folder / link).resolve().relative_to(ROOT))
            if name not in used and keep(name):
                used.add(name)
                names.append(name)
        return names

    theorems = linked(
        (ROOT / "docs/theorems/README.md").read_text(encoding="utf-8"),
        "docs/theorems",
        lambda n: n.startswith("docs/theorems/"),
    )
    pages = (ROOT / "docs/ops/README.md").read_text(encoding="utf-8").split("\n## The pages\n")[1]
    operations = linked(pages, "docs/ops", lambda n: n.startswith("docs/ops/"))
    reference = linked(
        (ROOT / "docs/ops.md").read_text(encoding="utf-8"), "docs", lambda n: n.startswith("docs/ops/reference/")
    )
    used.update({"docs/theorems/README.md", "docs/ops/README.md", "docs/ops.md", "docs/course/README.md", SLIDES})
    tabs = []
    for heading, body in re.findall(r"^## ([^\n]*)\n(.*?)(?=^## |\Z)", index, flags=re.MULTILINE | re.DOTALL):
        tabs.append({heading: section(site, linked(body, "docs", lambda name: True))})
    rest = [name for name in site.markdown if name not in used]
    return [
        {"Start": ["index.md", {"Overview": "overview.md"}, {"Index by task": "docs/README.md"}]},
        {
            "Course": [
                "docs/course/README.md",
                {"Slides": SLIDES},
                *section(site, [f"{name}.md" for name in site.notebooks]),
            ]
        },
        {"Theorems": ["docs/theorems/README.md", *section(site, theorems)]},
        {
            "Operations": [
                "docs/ops/README.md",
                *section(site, operations),
                {"Reference": ["docs/ops.md", *section(site, reference)]},
            ]
        },
        *tabs,
        {"C++": ["reference/cpp/README.md", *cpp]},
        {"Python": ["reference/python/README.md", *python]},
        {"Folders": [{name.removesuffix("/README.md"): name} for name in rest]},
    ]


def copy_assets(pages: pathlib.Path) -> None:
    assets = pages / "assets"
    (assets / "katex/fonts").mkdir(parents=True)
    for name in ("style.css", "formulas.js", "iframe-worker.js"):
        shutil.copy(HERE / name, assets)
    shutil.copy(KATEX / "katex.min.js", assets / "katex/katex.js")
    # Every browser that shows the site reads woff2.
    style = re.sub(r",url\(fonts/[^)]*\.(?:woff|ttf)\) format\('\w+'\)", "", (KATEX / "katex.min.css").read_text())
    (assets / "katex/katex.css").write_text(style)
    for font in (KATEX / "fonts").glob("*.woff2"):
        shutil.copy(font, assets / "katex/fonts")


def main(package: pathlib.Path, out: pathlib.Path) -> None:
    site = Site(out)
    shutil.rmtree(site.pages, ignore_errors=True)
    site.pages.mkdir(parents=True)
    copy_assets(site.pages)
    if site.has_explorer:
        shutil.copytree(ROOT / "build/explorer", site.pages / "explore")
    for name in site.markdown:
        site.page(name)
    cpp = cpp_reference.write(site, out / "doxygen")
    python = python_reference.write(site, package)
    site.sources()
    config = {
        "INHERIT": str(HERE / "mkdocs.yml"),
        "docs_dir": str(site.pages),
        "site_dir": str(out.parent / "site"),
        "nav": navigation(site, cpp, python),
        "not_in_nav": "".join(f"/{name}\n" for name in site.shown),
    }
    (out / "mkdocs.yml").write_text(yaml.safe_dump(config, sort_keys=False, allow_unicode=True, width=1000))
    print(
        f"{len(site.markdown)} pages, {len(cpp)} folders of headers, {len(python)} modules, {len(site.wanted)} sources and pictures"
    )


if __name__ == "__main__":
    if len(sys.argv) != 3:
        raise SystemExit(__doc__)
    main(pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve())
