"""Writes the type stubs: of the extension module by nanobind's generator, of equigrad.ops from the registry's rows.

    python stubs.py PACKAGE            writes them into the folder that holds the built extension
    python stubs.py PACKAGE --check    says which of those there are out of date, and ends with 1
"""

import argparse
import ast
import importlib
import inspect
import re
import sys
import tempfile
import textwrap
import types
from pathlib import Path

HEADER = '''"""Operations, one for every row of the registry. Written by stubs.py."""

from collections.abc import Sequence
from typing import NamedTuple

from ._core import Tensor
'''


def import_parts(package):
    """equigrad._core and equigrad._rows without the rest of the package, which a build need not be able to import."""
    bare = types.ModuleType("equigrad")
    bare.__path__ = [str(package)]
    sys.modules["equigrad"] = bare
    return importlib.import_module("equigrad._core"), importlib.import_module("equigrad._rows")


def method_stubs(core, rows, package):
    """Of the methods that the package adds to Tensor: operations, and other libraries' names."""
    lines = []
    for name, operation in rows.methods():
        op = core.find_op(operation)
        if hasattr(core.Tensor, name):
            continue
        first, *others = signature_of(rows, op).split(", ")
        result = rows.result_of(op)
        words = f"equigrad.ops.{result.__name__}" if hasattr(result, "_fields") else text_of(result)
        lines.append(f"def {name}({', '.join(['self', *others])}) -> {words}:")
        lines.append('    """' + op.math.replace("\\", "\\\\") + '"""')
    source = ast.parse((package / "_methods.py").read_text(encoding="utf-8"))
    extra = next(node for node in source.body if isinstance(node, ast.ClassDef) and node.name == "OtherNames")
    for method in extra.body:
        if isinstance(method, ast.FunctionDef):
            method.args.args[0].annotation = None
            words = ast.unparse(method).replace("'builtins.int'", "builtins.int")
            lines += words.split("\n")[:2]
    lines += ["@property", "def mT(self) -> Tensor: ...", "def __getattr__(self, name: str) -> typing.NoReturn: ..."]
    return "\n".join("    " + line for line in lines) + "\n\n"


def text_of(annotation):
    """An annotation as the stub writes it."""
    if isinstance(annotation, type) and not hasattr(annotation, "__args__"):
        return annotation.__name__
    words = str(annotation).replace("equigrad._core.Tensor", "Tensor").replace("collections.abc.", "")
    return words.replace("typing.Optional[Tensor]", "Tensor | None")


def parameter_of(name, default, annotation):
    end = "" if default is inspect.Parameter.empty else f" = {default!r}"
    if end == " = inf" or end == " = -inf" or end == " = nan":
        end = " = ..."
    return f"{name}: {text_of(annotation)}{end}"


def signature_of(rows, op):
    words, starred = [], False
    for name, default, annotation, keyword_only in rows.parameters_of(op):
        if keyword_only and not starred:
            words.append("*")
            starred = True
        words.append(parameter_of(name, default, annotation))
    return ", ".join(words)


def function_stub(rows, op):
    result = rows.result_of(op)
    fields = getattr(result, "_fields", None)
    lines = []
    if fields:
        lines += [f"class {result.__name__}(NamedTuple):", *(f"    {field}: Tensor" for field in fields), ""]
    lines.append(f"def {op.name}({signature_of(rows, op)}) -> {text_of(result)}:")
    lines.append(textwrap.indent('"""' + op.math.replace("\\", "\\\\") + '"""', "    "))
    return "\n".join(lines)


def ops_stub(core, rows):
    functions = "\n\n".join(function_stub(rows, core.find_op(name)) for name in core.op_names())
    other = "\n".join(f"{name} = {operation}" for name, operation in rows._names.OPERATIONS.items())
    return f"{HEADER}\n{functions}\n\n# Other libraries' names.\n{other}\n"


def errors_stub(core):
    """The exceptions, which the generator takes for the package's own."""
    classes = [value for value in vars(core).values() if isinstance(value, type) and issubclass(value, core.Error)]
    return "".join(
        f"class {error.__name__}({', '.join(spelled(base, core) for base in error.__bases__)}):\n"
        f'    """{error.__doc__}"""\n\n'
        for error in classes
    )


def with_methods(text, core, rows, package):
    """The generated text with the methods that the package adds to Tensor."""
    before, cls, after = re.split(r"(class Tensor:\n    \"{3}\n.*?\n    \"{3}\n\n)", text, maxsplit=1, flags=re.DOTALL)
    before = before.replace("import builtins\n", "import builtins\nimport typing\n\nimport equigrad.ops\n", 1)
    return before + cls + method_stubs(core, rows, package) + after


def spelled(base, core):
    return base.__name__ if hasattr(core, base.__name__) and getattr(core, base.__name__) is base else f"builtins.{base.__name__}"


def with_errors(text, core):
    """The generated text with the exceptions defined where it imports them from the package."""
    parts = re.split(r"from equigrad import \([^)]*\)\n", text, maxsplit=1)
    if len(parts) == 1:
        return text
    before, after = parts
    imports, body = after.split("\n\n\n", maxsplit=1)
    return f"{before}import builtins\n{imports}\n\n__version__: str\n\n\n{errors_stub(core)}\n{body}"


# What the generator cannot know: an integer stands for a key, and these differ from what they override on purpose.
CORRECTIONS = [
    (r"\b(key|dropout_key): ([\w.]*Key)(?=[,) ])(?! \|)", r"\1: \2 | int"),
    (r"(def __(?:eq|ne)__\(.*-> Tensor: \.\.\.)$", r"\1  # type: ignore[override]"),
    (r"__hash__: None = None$", "__hash__: None  # type: ignore[assignment]"),
    (r"(class PatchEmbedding\(.*?def __call__\(.*?-> [\w.]+:)", r"\1  # type: ignore[override]"),
]


def corrected(text):
    for pattern, replacement in CORRECTIONS:
        text = re.sub(pattern, replacement, text, flags=re.MULTILINE | re.DOTALL if "class" in pattern else re.MULTILINE)
    return text


def write_stubs(core, rows, package, folder):
    from nanobind import stubgen

    stubgen.main(["-q", "-r", "-P", "-m", "equigrad._core", "-O", str(folder)])
    main = folder / "_core" / "__init__.pyi"
    text = with_errors(main.read_text(encoding="utf-8"), core)
    main.write_text(with_methods(text, core, rows, package), encoding="utf-8")
    for path in (folder / "_core").glob("*.pyi"):
        path.write_text(corrected(path.read_text(encoding="utf-8")), encoding="utf-8")
    (folder / "ops.pyi").write_text(ops_stub(core, rows), encoding="utf-8")


def stubs_in(folder):
    return {path.relative_to(folder): path.read_text(encoding="utf-8") for path in sorted(folder.rglob("*.pyi"))}


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("package", type=Path)
    arguments.add_argument("--check", action="store_true")
    options = arguments.parse_args()
    package = options.package.resolve()
    core, rows = import_parts(package)
    if not options.check:
        write_stubs(core, rows, package, package)
        return 0
    with tempfile.TemporaryDirectory() as folder:
        write_stubs(core, rows, package, Path(folder))
        wanted, found = stubs_in(Path(folder)), stubs_in(package)
    stale = [str(name) for name in sorted({*wanted, *found}) if wanted.get(name) != found.get(name)]
    for name in stale:
        print(f"{name} is out of date; run stubs.py", file=sys.stderr)
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
