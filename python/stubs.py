"""Writes the type stubs: of the extension module by nanobind's generator, of equigrad.ops from the registry's rows.

    python stubs.py PACKAGE            writes them into the folder that holds the built extension
    python stubs.py PACKAGE --check    says which of those there are out of date, and ends with 1
"""

import argparse
import ast
import importlib
import inspect
import json
import re
import sys
import tempfile
import textwrap
import types
from pathlib import Path

HEADER = '''"""Operations, one for every row of the registry. Written by stubs.py."""

from collections.abc import Sequence
from typing import NamedTuple

from ._core import Tensor, TensorLike
'''

# What an operation takes in the place of a tensor, and what names an element type.
ALIASES = '''
class SupportsDLPack(typing.Protocol):
    """An array of another library."""

    def __dlpack__(self, *args: typing.Any, **kwargs: typing.Any) -> typing.Any: ...

class HasItemsize(typing.Protocol):
    """An element type of NumPy or PyTorch."""

    @property
    def itemsize(self) -> int: ...

TensorLike: typing.TypeAlias = "Tensor | SupportsDLPack"
DTypeLike: typing.TypeAlias = str | type[typing.Any] | HasItemsize

'''

# Other libraries' names of attributes, as ops.cpp takes them.
ALIKE = [("axes", "axis", "dim", "dims"), ("keepdim", "keepdims"), ("correction", "ddof"), ("eps", "epsilon")]
# Inputs that hold positions: lists of them are taken too.
POSITIONS = ("ids", "index", "indices", "labels")


def import_parts(package):
    """equigrad._core and equigrad._rows without the rest of the package, which a build need not be able to import."""
    bare = types.ModuleType("equigrad")
    bare.__path__ = [str(package)]
    sys.modules["equigrad"] = bare
    return importlib.import_module("equigrad._core"), importlib.import_module("equigrad._rows")


def method_stubs(core, rows, package):
    """Of the methods that the package adds to Tensor: operations, and other libraries' names."""
    source = ast.parse((package / "_methods.py").read_text(encoding="utf-8"))
    extra = next(node for node in source.body if isinstance(node, ast.ClassDef) and node.name == "OtherNames")
    others = {method.name for method in extra.body if isinstance(method, ast.FunctionDef)}
    lines = []
    for name, operation in rows.methods():
        op = core.find_op(operation)
        if hasattr(core.Tensor, name) or name in others:
            continue
        first, *arguments = signature_of(rows, op).split(", ")
        result = rows.result_of(op)
        words = f"equigrad.ops.{result.__name__}" if hasattr(result, "_fields") else text_of(result)
        lines.append(f"def {name}({', '.join(['self', *arguments])}) -> {words}:")
        lines.append('    """' + op.math.replace("\\", "\\\\") + '"""')
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


def input_text(name, annotation):
    """What an input takes: arrays of other libraries, for operands numbers, for positions lists."""
    words = text_of(annotation).replace("Tensor", "TensorLike")
    if words.startswith("Sequence"):
        return words
    if name in POSITIONS:
        return "Sequence[int] | " + words
    return words.replace("TensorLike", "TensorLike | float") if name in ("a", "b") else words


def attribute_text(annotation):
    """A list of integers may be one."""
    words = text_of(annotation)
    return {"Sequence[int]": "Sequence[int] | int", "Sequence[float]": "Sequence[float] | float"}.get(words, words)


def other_names(rows, op):
    """Keyword arguments by the names that NumPy and PyTorch have for attributes."""
    taken = [name for name, *_ in rows.parameters_of(op)]
    words = []
    for name, default, annotation, _ in rows.parameters_of(op)[len(op.inputs) :]:
        for alike in ALIKE:
            if name in alike:
                end = " | None = ..." if name in ("axes", "axis") and default is not inspect.Parameter.empty else " = ..."
                words += [f"{other}: {attribute_text(annotation)}{end}" for other in alike if other not in taken]
    return words


def parameter_of(name, default, annotation, is_input):
    end = "" if default is inspect.Parameter.empty else f" = {default!r}"
    if end == " = inf" or end == " = -inf" or end == " = nan":
        end = " = ..."
    words = input_text(name, annotation) if is_input else attribute_text(annotation)
    return f"{name}: {words}{end}"


def signature_of(rows, op):
    words, starred = [], False
    for i, (name, default, annotation, keyword_only) in enumerate(rows.parameters_of(op)):
        if keyword_only and not starred:
            words.append("*")
            starred = True
        words.append(parameter_of(name, default, annotation, i < len(op.inputs)))
    others = other_names(rows, op)
    return ", ".join([*words, *([] if starred or not others else ["*"]), *others])


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
    # The class comes after the names that stand for it and for types. Its methods have the names of built-in types.
    body, end, rest = re.split(r"(\n(?=\S))", after, maxsplit=1)
    body = "\n".join(with_builtins(line) for line in (method_stubs(core, rows, package) + body).split("\n"))
    return before + ALIASES.lstrip("\n") + cls + body + end + rest


def with_builtins(line):
    """A method's line in which int, float, bool and type are Python's own."""
    if not line.lstrip().startswith("def "):
        return line
    name, arguments = line.split("(", 1)
    types = re.sub(r"(?<![\w.'(])(?<!, )(int|float|bool|type)(?=[\s\],|):=[]|$)", r"builtins.\1", arguments)
    # Within brackets a type comes after a comma too; the name of an argument is followed by a colon.
    return name + "(" + re.sub(r"(?<=, )(int|float|bool|type)(?=[\],|)])", r"builtins.\1", types)


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
    (r"\bPathLike\b(?!\[)", r"PathLike[str]"),
    (r"\bdtype: str\b", r"dtype: DTypeLike"),
    (r"def dtype\(self\) -> str:", r"def dtype(self) -> equigrad._dtypes.DType:"),
    (r"def device\(self\) -> str:", r"def device(self) -> equigrad._devices.Device:"),
    (r"def size\(self\) -> builtins\.int:", r"def size(self) -> equigrad._sizes.Size:"),
    (r"(class PatchEmbedding\(.*?def __call__\(.*?-> [\w.]+:)", r"\1  # type: ignore[override]"),
]


# Types that the generator leaves without their arguments.
BARE = [
    (r"(?<![\w.])(list|set|Sequence|Iterable)(?=[\s\],):=]|$)", r"\1[typing.Any]"),
    (r"(?<![\w.])dict(?=[\s\],):=]|$)", "dict[typing.Any, typing.Any]"),
    (r"(?<![\w.])tuple(?=[\s\],):=]|$)", "tuple[typing.Any, ...]"),
    (r"\bnumpy\.ndarray\b(?!\[)", "numpy.ndarray[typing.Any, typing.Any]"),
]
GRADIENT = re.compile(
    r"^    def gradient\(self, y: (.*), xs: Tensor \| Sequence\[Tensor\], (.*)\) -> Any:$", flags=re.MULTILINE
)


def with_type_arguments(line):
    """A function's line in which lists, dicts and tuples say of what."""
    if not line.lstrip().startswith("def "):
        return line
    name, arguments = line.split("(", 1)
    for pattern, replacement in BARE:
        arguments = re.sub(pattern, replacement, arguments)
    return name + "(" + arguments


def with_overloads(text):
    """One gradient for one tensor, a list for several."""
    return GRADIENT.sub(
        r"    @overload\n    def gradient(self, y: \1, xs: Tensor, \2) -> Tensor: ...\n"
        r"    @overload\n    def gradient(self, y: \1, xs: Sequence[Tensor], \2) -> list[Tensor]:",
        text,
    )


def with_imports(text):
    """The text with the modules that it names, as a stub may import them anywhere."""
    missing = [name for name in ("typing", "numpy", "equigrad._core", "equigrad._devices", "equigrad._dtypes", "equigrad._sizes") if f"{name}." in text and f"import {name}\n" not in text]
    return text.rstrip("\n") + "\n" + "".join(f"\nimport {name}" for name in missing) + "\n"


def corrected(text):
    text = with_overloads("\n".join(with_type_arguments(line) for line in text.split("\n")))
    text = re.sub(r"^from collections\.abc import (.*)\bBuffer, (.*)$", r"from collections.abc import \1\2\nfrom typing_extensions import Buffer", text, flags=re.MULTILINE)
    text = re.sub(r"^from collections\.abc import Buffer$", "from typing_extensions import Buffer", text, flags=re.MULTILINE)
    for pattern, replacement in CORRECTIONS:
        text = re.sub(pattern, replacement, text, flags=re.MULTILINE | re.DOTALL if "class" in pattern else re.MULTILINE)
    return text


def options_stub(core):
    """The options of trainings by name, which type checkers then know."""
    types = {bool: "bool", int: "int", float: "float", str: "str", list: "collections.abc.Sequence[str]"}
    fields = {}
    for rows in json.loads(core.training.options()).values():
        for row in rows:
            kind = "str | os.PathLike[str]" if row["path"] else types[type(row["default"])]
            fields.setdefault("from_" if row["name"] == "from" else row["name"], (kind, row["help"]))
    for name in ("data", "model", "resume"):
        fields.pop(name, None)
    fields["out"] = (fields["out"][0] + " | None", fields["out"][1])
    lines = ["import collections.abc", "import os", "import typing", "", "", "class TrainOptions(typing.TypedDict, total=False):", '    """Options of eg.train by name."""', ""]
    for name, (kind, help_text) in fields.items():
        lines += [f"    {name}: {kind}", f"    {json.dumps(help_text)}", ""]
    return "\n".join(lines)


def with_arrays(line):
    """A method's line whose tensors may be arrays of other libraries."""
    if not line.startswith("    def ") or "self, value:" in line:
        return line
    arguments, arrow, result = line.partition(") -> ")
    return re.sub(r": equigrad\._core\.Tensor\b", ": equigrad._core.TensorLike", arguments) + arrow + result


def write_stubs(core, rows, package, folder):
    from nanobind import stubgen

    stubgen.main(["-q", "-r", "-P", "-m", "equigrad._core", "-O", str(folder)])
    main = folder / "_core" / "__init__.pyi"
    text = with_errors(main.read_text(encoding="utf-8"), core)
    main.write_text(with_methods(text, core, rows, package), encoding="utf-8")
    for path in (folder / "_core").glob("*.pyi"):
        words = corrected(path.read_text(encoding="utf-8"))
        if path.name == "nn.pyi":
            words = "\n".join(with_arrays(line) for line in words.split("\n"))
        if path.name != "__init__.pyi":
            words = words.replace("dtype: DTypeLike", "dtype: equigrad._core.DTypeLike")
        path.write_text(with_imports(words), encoding="utf-8")
    training = folder / "_core" / "training.pyi"
    training.write_text(training.read_text(encoding="utf-8") + "\n\n" + options_stub(core), encoding="utf-8")
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
