"""Markdown as GitHub reads it, rewritten for Python-Markdown; paths between pages."""

import pathlib
import re


def relative(source: str, target: str) -> str:
    here = pathlib.PurePath(source).parent.parts
    there = pathlib.PurePath(target).parts
    common = 0
    while common < len(here) and common < len(there) - 1 and here[common] == there[common]:
        common += 1
    return "/".join([".."] * (len(here) - common) + list(there[common:]))


def with_code(text: str):
    """The lines of a page, and whether they are code."""
    fence = ""
    for line in text.split("\n"):
        mark = re.match(r"\s*(`{3,}|~{3,})", line)
        yield line, bool(fence or mark)
        if mark and not fence:
            fence = mark[1]
        elif mark and mark[1].startswith(fence) and line.strip() == mark[1]:
            fence = ""


def normalised(text: str) -> str:
    """List items indented by four, blank lines before lists and tables, Markdown inside details, no \\\\| in code."""
    lines: list[str] = []
    widths: list[int] = []  # of the markers of the items that a line is inside of
    for line, code in with_code(text):
        indent = len(line) - len(line.lstrip())
        item = None if code else re.match(r"(\s*)([-*+] |\d+\. )", line)
        before = lines[-1].strip() if lines else ""
        inside = bool(widths)
        if line.strip():
            while widths and indent < sum(widths):
                widths.pop()
        if line.strip() and not code:
            starts_list = item and not inside
            starts_table = line.lstrip().startswith("|") and not before.startswith("|")
            if before and (starts_list or starts_table):
                lines.append("")
        if not code and line.lstrip().startswith("|"):
            line = re.sub(r"`[^`]*`", lambda m: m[0].replace("\\|", "|"), line)
        lines.append(" " * (4 * len(widths) + max(0, indent - sum(widths))) + line.lstrip() if line.strip() else "")
        if item:
            widths.append(len(item[2]))
        if not code and lines[-1].startswith("<details>"):  # what is inside is Markdown too
            lines[-1] = lines[-1].replace("<details>", "<details markdown>", 1)
    return "\n".join(lines)
