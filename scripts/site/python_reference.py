"""The Python reference: a page for each public module, from the package's sources and the stubs beside its extension."""

import ast
import html
import pathlib
import re
import textwrap

import griffe

# Public module, and the stub of the extension that it takes names from.
MODULES = {
    "equigrad": ["_core", "_core.catalogue"],
    "equigrad.ops": [],
    "equigrad.autograd": [],
    "equigrad.nn": ["_core.nn"],
    "equigrad.optim": ["_core.optim"],
    "equigrad.permute": ["_core.permute"],
    "equigrad.data": ["_core.data"],
    "equigrad.hub": ["_core.hub"],
    "equigrad.random": ["_core.random"],
    "equigrad.cuda": ["_core.cuda"],
    "equigrad.testing": ["_core.testing"],
}


def meaning(text: str, box: str = "meant") -> str:
    """A docstring as HTML; indented lines are code."""
    if not text.strip():
        return ""
    parts = []
    for block in re.split(r"\n\s*\n(?=\s*\S)", text.strip()):
        if all(line.startswith("    ") for line in block.split("\n")):
            parts.append(f"<pre><code>{html.escape(textwrap.dedent(block), quote=False)}</code></pre>")
        else:
            words = html.escape(" ".join(block.split()), quote=False)
            parts.append("<p>" + re.sub(r"`([^`]+)`", r"<code>\1</code>", words) + "</p>")
    return f'<div class="{box}">{"".join(parts)}</div>\n\n'


def module_docstring(module: griffe.Module) -> str:
    """With the indentation of its code, which griffe takes off where every line but the first has it."""
    return ast.get_docstring(ast.parse(pathlib.Path(module.filepath).read_text(encoding="utf-8")), clean=False) or ""


def meant(member: griffe.Object) -> str:
    return meaning(member.docstring.value) if member.docstring is not None else ""


def short(annotation: object) -> str:
    """Names as users write them."""
    text = re.sub(
        r"\bequigrad\._core\.catalogue\.|\bequigrad\._core\.(?=[A-Z])|\bcollections\.abc\.|\btyping\.",
        "",
        str(annotation),
    )
    return re.sub(r"\bequigrad\._core\.", "eg.", text)


def signature(function: griffe.Function, name: str) -> str:
    parts, star, slash = [], False, False
    for parameter in function.parameters:
        kind = parameter.kind
        if slash and kind is not griffe.ParameterKind.positional_only:
            parts.append("/")
            slash = False
        slash |= kind is griffe.ParameterKind.positional_only
        if kind is griffe.ParameterKind.keyword_only and not star:
            parts.append("*")
        star |= kind in (griffe.ParameterKind.keyword_only, griffe.ParameterKind.var_positional)
        prefix = {griffe.ParameterKind.var_positional: "*", griffe.ParameterKind.var_keyword: "**"}.get(kind, "")
        text = (
            prefix + parameter.name + (f": {short(parameter.annotation)}" if parameter.annotation is not None else "")
        )
        if parameter.default is not None and not prefix:
            text += f" = {parameter.default}" if parameter.annotation is not None else f"={parameter.default}"
        parts.append(text)
    if slash:
        parts.append("/")
    result = f" -> {short(function.returns)}" if function.returns is not None else ""
    line = f"{name}({', '.join(parts)}){result}"
    return line if len(line) <= 100 else f"{name}(\n    " + ",\n    ".join(parts) + f",\n){result}"


def fenced(text: str) -> str:
    return f"```python\n{text}\n```\n\n"


def function_text(function: griffe.Function, path: str, level: int, name: str) -> str:
    return f"{'#' * level} `{name}` {{#{path}}}\n\n" + fenced(signature(function, name)) + meant(function)


def attribute_text(attribute: griffe.Attribute, name: str, path: str, level: int) -> str:
    kind = f": {short(attribute.annotation)}" if attribute.annotation is not None else ""
    return f"{'#' * level} `{name}` {{#{path}}}\n\n" + fenced(f"{name}{kind}") + meant(attribute)


SPOKEN = {"__init__", "__call__", "__getitem__", "__setitem__", "__len__", "__iter__", "__next__", "__enter__"}


def class_text(cls: griffe.Class, path: str, level: int) -> str:
    bases = [short(base) for base in cls.bases if str(base) != "object"]
    text = (
        f"{'#' * level} `{cls.name}` {{#{path}}}\n\n"
        + fenced(f"class {cls.name}" + (f"({', '.join(bases)})" if bases else ""))
        + meant(cls)
    )
    for name, member in cls.members.items():
        if (name.startswith("_") and name not in SPOKEN) or member.is_alias:
            continue
        below = f"{path}.{name}"
        if member.is_function:
            text += function_text(member, below, level + 1, cls.name if name == "__init__" else name)
        elif member.is_class:
            text += class_text(member, below, level + 1)
        else:
            text += attribute_text(member, name, below, level + 1)
    return text


def public_members(package: griffe.Module, module: str) -> dict[str, griffe.Object]:
    """Names of a public module with their definitions: its own, and those of its stubs."""
    homes = [module, *(f"equigrad.{stub}" for stub in MODULES[module])]
    inner = package if module == "equigrad" else package[module.removeprefix("equigrad.")]
    places = [inner, *(package[stub] for stub in MODULES[module])]
    found = {}
    for place in places:
        for name, member in place.members.items():
            # The extension's own names count where the package exports them.
            if name.startswith("_") or (place.path == "equigrad._core" and name not in package.members):
                continue
            try:
                target = member.final_target if member.is_alias else member
            except griffe.AliasResolutionError:  # NumPy and the like
                continue
            home = target.path.rpartition(".")[0]
            others = module == "equigrad" and home in ("equigrad.autograd",)
            if (target.is_function or target.is_class) and (home in homes or others):
                found.setdefault(name, target)
    return found


def write(site, package: pathlib.Path) -> list:
    loaded = griffe.load("equigrad", search_paths=[str(package.parent)], allow_inspection=False, resolve_aliases=True)
    listed, navigation = [], []
    for module in MODULES:
        inner = loaded if module == "equigrad" else loaded[module.removeprefix("equigrad.")]
        members = public_members(loaded, module)
        short_name = module.replace("equigrad", "eg", 1)
        text = (
            f"# `{module}`\n\n"
            + meaning(module_docstring(inner), "opening")
            + "`import equigrad as eg`"
            + (f"; here `{short_name}.NAME`" if module != "equigrad" else "")
            + "\n\n"
        )
        classes = {n: m for n, m in members.items() if m.is_class}
        functions = {n: m for n, m in members.items() if m.is_function}
        if functions:
            text += "## Functions\n\n" + "".join(function_text(m, f"{module}.{n}", 3, n) for n, m in functions.items())
        if classes:
            text += "## Classes\n\n" + "".join(class_text(m, f"{module}.{n}", 3) for n, m in classes.items())
        place = f"reference/python/{module}.md"
        site.write(place, text)
        navigation.append({module: place})
        first = inner.docstring.value.split("\n")[0] if inner.docstring else ""
        listed.append(f"| [`{module}`]({module}.md) | {first} | {len(classes)} | {len(functions)} |")
    table = "\n".join(["| module | what | classes | functions |", "|---|---|--:|--:|", *listed])
    site.write(
        "reference/python/README.md",
        f"# Python reference\n\n[A tour](../../docs/python.md) comes first; here is every name.\n\n{table}\n",
    )
    return navigation
