#!/usr/bin/env python3
"""check_links.py [FOLDER]: every relative link of the tree's Markdown files leads to a file, and its #anchor to a heading.

Prints what leads nowhere, as FILE:LINE: LINK, and exits with 1 if there is any.
"""

import functools
import pathlib
import re
import sys

SKIPPED = {"build", "out", ".git"}
MADE = {"docs/explore/index.html"}  # pages that are built, and not in the tree
LINK = re.compile(r"\]\(([^()\s]+)\)")


def prose(path: pathlib.Path) -> list[str]:
    """The lines of a page; those of code blocks, and code in a line, are blank."""
    lines, code = [], False
    for line in path.read_text().split("\n"):
        fence = line.lstrip().startswith("```")
        lines.append("" if fence or code else re.sub(r"`[^`]*`", lambda m: m[0] if "](" not in m[0] else "", line))
        code ^= fence
    return lines


@functools.cache
def anchors(path: pathlib.Path) -> set[str]:
    """The anchors that GitHub gives the headings of a page."""
    found: dict[str, int] = {}
    names = set()
    for line in prose(path):
        heading = re.match(r"#{1,6}\s+(.*)", line)
        if not heading:
            continue
        text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading[1]).strip().lower()
        slug = re.sub(r"[^\w\- ]", "", text).replace(" ", "-")
        count = found.get(slug, 0)
        found[slug] = count + 1
        names.add(f"{slug}-{count}" if count else slug)
    return names


def is_broken(page: pathlib.Path, link: str) -> bool:
    if re.match(r"[a-z]+:", link):
        return False
    path, _, anchor = link.partition("#")
    target = (page.parent / path).resolve() if path else page
    if not target.exists():
        return not any(target.match(made) for made in MADE)
    return bool(anchor) and target.suffix == ".md" and anchor not in anchors(target)


def main(root: pathlib.Path) -> int:
    pages = [p for p in sorted(root.rglob("*.md")) if not SKIPPED & set(p.relative_to(root).parts)]
    broken = [
        f"{page.relative_to(root)}:{number}: {link}"
        for page in pages
        for number, line in enumerate(prose(page), 1)
        for link in LINK.findall(line)
        if is_broken(page, link)
    ]
    print("\n".join(broken or [f"{len(pages)} pages: every link leads somewhere"]))
    return 1 if broken or not pages else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent.parent).resolve()))
