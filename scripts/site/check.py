#!/usr/bin/env python3
"""check.py SITE [PACKAGE]: what must hold of the built site.

- A reader's browser fetches nothing from elsewhere: no script, style, font, picture or frame with an address of its own.
- Every link within the site leads to a file, and its #anchor to an element.
- Where PACKAGE, the built Python package, is given: every public class and function of the C++ headers and of the Python
  stubs has its entry in the reference. Both are read here by other means than those that made the reference.
- Every formula is one that KaTeX renders (by node, where the site has KaTeX).
- A page weighs at most 350 kB, the start page with what it needs 400 kB.

Prints what does not hold, and exits with 1 if there is any.
"""

import ast
import gzip
import html.parser
import json
import pathlib
import re
import subprocess
import sys
import urllib.parse

# Elements that fetch, and the attribute that says what. A link by rel=canonical and the like fetches nothing.
FETCHES = {
    "script": "src",
    "img": "src",
    "iframe": "src",
    "source": "src",
    "video": "src",
    "audio": "src",
    "embed": "src",
    "object": "data",
    "use": "href",
}
FETCHING_LINKS = {
    "stylesheet",
    "icon",
    "preload",
    "prefetch",
    "preconnect",
    "dns-prefetch",
    "modulepreload",
    "manifest",
    "apple-touch-icon",
}
LARGEST_PAGE, START_PAGE = 350_000, 400_000  # bytes; the second with everything it loads, gzipped


class Page(html.parser.HTMLParser):
    def __init__(self, text: str):
        super().__init__()
        self.ids: set[str] = set()
        self.links: list[str] = []
        self.fetched: list[str] = []
        self.classes: set[str] = set()
        self.formulas: list[str] = []
        self._formula: int | None = None
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        given = {name: value or "" for name, value in attributes}
        self.ids.update(given[name] for name in ("id", "name") if name in given)
        classes = given.get("class", "").split()
        self.classes.update(classes)
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        if tag in FETCHES and FETCHES[tag] in given:
            self.fetched.append(given[FETCHES[tag]])
        if tag == "link" and FETCHING_LINKS & set(given.get("rel", "").split()):
            self.fetched.append(given.get("href", ""))
        if "srcset" in given:
            self.fetched += [part.split()[0] for part in given["srcset"].split(",")]
        self.fetched += re.findall(r"url\(['\"]?([^'\")]+)", given.get("style", ""))
        if "arithmatex" in classes:
            self.formulas.append("")
            self._formula = len(self.formulas) - 1

    def handle_endtag(self, tag):
        self._formula = None

    def handle_data(self, data):
        if self._formula is not None:
            self.formulas[self._formula] += data


def is_elsewhere(address: str) -> bool:
    return bool(re.match(r"([a-z][a-z0-9+.-]*:)?//", address)) or address.startswith(("http:", "https:"))


def check_pages(site: pathlib.Path, pages: dict[pathlib.Path, Page]):
    for path, page in pages.items():
        name = path.relative_to(site)
        explorer = name.parts[0] == "explore"  # whose anchors are states, made when it runs
        for address in page.fetched:
            if is_elsewhere(address):
                yield f"{name}: fetches {address}"
            elif address and not address.startswith("data:") and not target(path, address).is_file():
                yield f"{name}: needs {address}, and there is no such file"
        if "mermaid" in page.classes:  # the theme fetches a library for diagrams
            yield f"{name}: a diagram that the theme draws by a library from elsewhere"
        for link in page.links:
            if (
                link.startswith("#")
                and len(link) > 1
                and not explorer
                and urllib.parse.unquote(link[1:]) not in page.ids
            ):
                yield f"{name}: {link} is nowhere on the page"
            if is_elsewhere(link) or re.match(r"[a-z]+:", link) or link.startswith("#"):
                continue
            there = target(path, link)
            anchor = urllib.parse.unquote(urllib.parse.urlsplit(link).fragment)
            if not there.is_file():
                yield f"{name}: {link} leads to no file"
            elif anchor and there in pages and site / "explore" not in there.parents and anchor not in pages[there].ids:
                yield f"{name}: {link}: {there.name} has no such place"
        if len(path.read_bytes()) > LARGEST_PAGE and not explorer:
            yield f"{name}: {len(path.read_bytes())} bytes"


def target(page: pathlib.Path, link: str) -> pathlib.Path:
    path = urllib.parse.unquote(urllib.parse.urlsplit(link).path)
    there = (page.parent / path).resolve() if path else page
    return there / "index.html" if there.is_dir() else there


def check_styles(site: pathlib.Path):
    for path in sorted(site.rglob("*.css")):
        text = re.sub(r"/\*.*?\*/", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
        for address in re.findall(r"url\(\s*['\"]?([^'\")]+)", text) + re.findall(r"@import\s+['\"]([^'\"]+)", text):
            if is_elsewhere(address):
                yield f"{path.relative_to(site)}: fetches {address}"
            elif not address.startswith(("data:", "#")) and not target(path, address).is_file():
                yield f"{path.relative_to(site)}: needs {address}, and there is no such file"


def check_start(site: pathlib.Path, pages: dict[pathlib.Path, Page]):
    start = site / "index.html"
    needed = {start} | {
        target(start, a) for a in pages[start].fetched if not is_elsewhere(a) and not a.startswith("data:")
    }
    weight = sum(len(gzip.compress(path.read_bytes())) for path in needed if path.is_file())
    if weight > START_PAGE:
        yield f"index.html with what it needs: {weight} bytes gzipped"


def check_formulas(site: pathlib.Path, pages: dict[pathlib.Path, Page]):
    katex = site / "assets/katex/katex.js"
    if not katex.is_file():
        return
    formulas = sorted({(f.strip(), str(path.relative_to(site))) for path, page in pages.items() for f in page.formulas})
    program = """
      const katex = require(process.argv[1]);
      const formulas = JSON.parse(require("fs").readFileSync(0, "utf8"));
      for (const [text, page] of formulas) {
        try { katex.renderToString(text.slice(2, -2), { displayMode: text.startsWith("\\\\["), throwOnError: true }); }
        catch (error) { console.log(page + ": " + error.message.split("\\n")[0]); }
      }"""
    result = subprocess.run(
        ["node", "-e", program, str(katex)], input=json.dumps(formulas), capture_output=True, text=True
    )
    if result.returncode != 0:
        yield f"node: {result.stderr.strip()}"
    yield from result.stdout.splitlines()
    if not formulas:
        yield "there is no formula on the site"


# --- what the reference must have ---

TOKEN = re.compile(r"[A-Za-z_]\w*|::|->|<=>|<<|[-+*/%&|^!=<>]=|&&|\|\||[^\s\w]|\d[\w.']*")
NOT_NAMES = {"alignas", "decltype", "noexcept", "requires", "explicit"}


def declared(text: str):
    """Qualified names of the public classes and functions of a header, by a parser of declarations alone."""
    text = re.sub(r"//[^\n]*|/\*.*?\*/", " ", text, flags=re.DOTALL)
    text = re.sub(r"^\s*#(?:[^\n\\]|\\.|\\\n)*", " ", text, flags=re.MULTILINE)
    text = re.sub(r'R"\((?:.|\n)*?\)"|"(?:[^"\\\n]|\\.)*"|(?<!\d)\'(?:[^\'\\]|\\.)\'', '""', text)
    text = re.sub(r"\[\[.*?\]\]", " ", text)
    tokens = TOKEN.findall(text)
    yield from scope(tokens, 0, [], True, "")[0]


def closing(tokens: list[str], at: int, pair: str) -> int:
    """The place after the bracket that closes the one at `at`."""
    depth = 0
    while at < len(tokens):
        depth += (tokens[at] == pair[0]) - (tokens[at] == pair[1])
        at += 1
        if depth == 0:
            return at
    return at


def after_template(statement: list[str]) -> list[str]:
    while statement[:1] == ["template"]:
        depth, at = 0, 1
        while at < len(statement):
            depth += (statement[at] == "<") - (statement[at] == ">")
            at += 1
            if depth == 0:
                break
        statement = statement[at:]
        if statement[:1] == ["requires"]:
            while statement and statement[0] not in ("class", "struct", "inline", "constexpr", "auto", "void", "bool"):
                statement = statement[1:]
    return statement


def function_name(statement: list[str]) -> str | None:
    """The name before the first parenthesis outside template arguments; None where the statement declares no function."""
    depth = i = 0
    while i < len(statement):
        token, name = statement[i], statement[i - 1]
        if (token == "=" and depth == 0) or token == "operator":
            return None
        depth += (token == "<") - (token == ">")
        if token == "(" and name in NOT_NAMES:
            i = closing(statement, i, "()")
            continue
        if token == "(" and depth <= 0:
            if i == 0 or not re.match(r"[A-Za-z_]", name) or statement[i + 1] == "*":  # Work (*work)(...): a pointer
                return None
            return "~" + name if i > 1 and statement[i - 2] == "~" else name
        i += 1
    return None


def scope(tokens: list[str], at: int, names: list[str], public: bool, own: str):
    """(names found, place after the scope): of a namespace, or of the class `own`."""
    found: list[str] = []
    statement: list[str] = []
    while at < len(tokens):
        token = tokens[at]
        if token == "}":
            return found, at + 1
        if token in ("public", "private", "protected") and tokens[at + 1] == ":" and not statement:
            public, at = token == "public", at + 2
        elif token == "(":
            end = closing(tokens, at, "()")
            statement += tokens[at:end]
            at = end
        elif token in (";", "{"):
            head = after_template(statement)
            first = next(
                (
                    t
                    for t in head
                    if t not in ("inline", "friend", "static", "constexpr", "constinit", "const", "virtual", "explicit")
                ),
                "",
            )
            if token == "{" and first == "namespace":
                inside = [t for t in head[1:] if t != "::" and t != "inline"]
                more, at = scope(tokens, at + 1, names + inside, True, "")
                found += more
            elif token == "{" and first in ("class", "struct", "union"):
                name = head[head.index(first) + 1]
                more, at = scope(tokens, at + 1, names + [name], first != "class", name)
                if public:
                    found += [".".join(names + [name]), *more]
                at = at + 1 if at < len(tokens) and tokens[at] == ";" else at
            elif token == "{" and first == "enum":
                name = next(t for t in head[head.index("enum") + 1 :] if t not in ("class", "struct"))
                if public:
                    found.append(".".join(names + [name]))
                at = closing(tokens, at, "{}") + 1
            else:
                name = (
                    None
                    if first in ("using", "typedef", "static_assert", "extern", "friend", "class", "struct")
                    else function_name(head)
                )
                if name is not None and public:
                    found.append(".".join(names + [name]))
                if token == "{":
                    at = closing(tokens, at, "{}")
                    if at < len(tokens) and tokens[at] in (",", "{") and ":" in statement:  # an initialiser a{1}
                        continue
                    if name is None and "operator" not in statement:  # a value in braces
                        at = tokens.index(";", at)
                    at = at + 1 if at < len(tokens) and tokens[at] == ";" else at
                else:
                    at += 1
            statement = []
        else:
            statement.append(token)
            at += 1
    return found, at


def stubbed(package: pathlib.Path):
    """Qualified names, as users write them, of the public classes, functions and methods of the stubs."""
    top = ast.parse((package / "__init__.py").read_text(encoding="utf-8")).body
    exported = {
        a.name for node in top if isinstance(node, ast.ImportFrom) and node.module == "_core" for a in node.names
    }
    for path in sorted([package / "ops.pyi", *(package / "_core").glob("*.pyi")]):
        if path.stem == "functional":  # equigrad.autograd has their public forms
            continue
        home = "equigrad" if path.stem in ("__init__", "catalogue") else f"equigrad.{path.stem}"
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, (ast.ClassDef, ast.FunctionDef)) and not node.name.startswith("_"):
                if path.stem == "__init__" and node.name not in exported:
                    continue
                yield f"{home}.{node.name}"
                for member in node.body if isinstance(node, ast.ClassDef) else []:
                    if isinstance(member, ast.FunctionDef) and not member.name.startswith("_"):
                        yield f"{home}.{node.name}.{member.name}"


def check_reference(site: pathlib.Path, pages: dict[pathlib.Path, Page], package: pathlib.Path):
    sys.dont_write_bytecode = True
    import cpp_reference

    written = {
        where: set().union(*(p.ids for path, p in pages.items() if where in path.parts)) for where in ("cpp", "python")
    }
    counts = {"cpp": 0, "python": 0}
    for header in cpp_reference.public_headers():
        for name in dict.fromkeys(declared((cpp_reference.ROOT / header).read_text(encoding="utf-8"))):
            counts["cpp"] += 1
            if name not in written["cpp"]:
                yield f"{header}: {name} is missing in the reference"
    for name in stubbed(package):
        counts["python"] += 1
        if name not in written["python"]:
            yield f"stubs: {name} is missing in the reference"
    if counts["cpp"] < 500 or counts["python"] < 300:
        yield f"only {counts['cpp']} names were found in the headers and {counts['python']} in the stubs"
    else:
        print(f"reference: {counts['cpp']} names of the headers, {counts['python']} of the stubs")


def main(site: pathlib.Path, package: pathlib.Path | None) -> int:
    pages = {path: Page(path.read_text(encoding="utf-8")) for path in sorted(site.rglob("*.html"))}
    if site / "index.html" not in pages:
        raise SystemExit(f"{site} has no index.html")
    wrong = [*check_pages(site, pages), *check_styles(site), *check_start(site, pages), *check_formulas(site, pages)]
    if package is not None:
        wrong += check_reference(site, pages, package)
    print("\n".join(wrong or [f"{len(pages)} pages: nothing is fetched, every link leads somewhere"]))
    return 1 if wrong else 0


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3):
        raise SystemExit(__doc__)
    sys.exit(
        main(pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve() if len(sys.argv) == 3 else None)
    )
