#!/usr/bin/env python3
"""check_cuda.py BUILD: checks what can be known of the GPU module of a build without a GPU. `./test.sh cuda` runs it.

- No kernel spills registers. None has local memory but those of LOCAL_MEMORY.
- No f32 or f64 addition, subtraction or product of the PTX may be fused with another: each says how it rounds.
- The module needs no library of CUDA, exports one symbol, and says in words when there is no device.
- docs/cuda-kernels.md is what this nvcc gives. EQUIGRAD_WRITE_DOCS=1 writes it; another nvcc's is not compared.
- The checks find what is wrong with tests/cuda/controls.cu.

It reads what core/cuda/nvcc/compile.sh kept beside the objects.
"""

import ctypes
import dataclasses
import functools
import json
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/cuda-kernels.md"
SYMBOL = "equigrad_device_table"
MACHINES = ("sm_80", "sm_90")
MANY = 128  # registers

# Kernels that may have local memory: a pattern of their names, and why.
LOCAL_MEMORY = {
    r"angles_kernel<f(32|64)>|unary_kernel<Scalar_(sin|cos|tan), f(32|64)>": "CUDA's `sin`, `cos` and `tan` of huge "
    "numbers keep five words of a product in an array; numbers below 2^31 never come there",
}


@dataclasses.dataclass
class Kernel:
    """One kernel on one machine, in bytes but the registers."""

    source: str
    name: str
    machine: str
    stack: int = 0
    stores: int = 0
    loads: int = 0
    registers: int = 0
    shared: int = 0
    constant: int = 0


def run(*command: str) -> str:
    return subprocess.run(command, check=True, text=True, capture_output=True).stdout


@functools.cache
def readable(symbol: str) -> str:
    """`product_kernel<Cut<64, 64, 8, 4>, f32, f32, bf16>`"""
    name = run("c++filt", "-p", symbol).strip()
    name = re.sub(r"\beg::(cuda::|device::)?|\(anonymous namespace\)::", "", name)
    name = re.sub(r"\((\w+)\)(\d+)", r"\1(\2)", name)
    for c_type, short in [("unsigned char", "u8"), ("unsigned short", "u16"), ("unsigned int", "u32"), ("unsigned long", "u64"),
                          ("double", "f64"), ("float", "f32"), ("BFloat16", "bf16"), ("long", "i64")]:
        name = re.sub(rf"\b{c_type}\b", short, name)
    return name


def constants(cubin: pathlib.Path) -> dict[str, int]:
    """Bytes of a kernel's constant banks, parameters and what the driver puts there included."""
    sections = subprocess.run(["readelf", "-SW", cubin], check=True, text=True, capture_output=True).stdout
    found: dict[str, int] = {}
    for kernel, size in re.findall(r"\.nv\.constant\d+\.(\S+)\s+PROGBITS\s+\S+\s+\S+\s+([0-9a-f]+)", sections):
        found[kernel] = found.get(kernel, 0) + int(size, 16)
    return found


def kernels_of(kept: pathlib.Path, source: str) -> list[Kernel]:
    """What ptxas said of the kernels of one source. What they call counts as theirs."""
    banks = {}
    for machine in MACHINES:
        (cubin,) = kept.glob(f"*compute_{machine[3:]}*.cubin")
        banks[machine] = constants(cubin)
    found: list[Kernel] = []
    for line in (kept / "ptxas.txt").read_text().splitlines():
        if entry := re.search(r"Compiling entry function '(\S+)' for '(\S+)'", line):
            found.append(Kernel(source, readable(entry[1]), entry[2], constant=banks[entry[2]].get(entry[1], 0)))
        elif bytes_of := re.search(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads", line):
            stack, stores, loads = map(int, bytes_of.groups())
            found[-1].stack += stack
            found[-1].stores += stores
            found[-1].loads += loads
        elif used := re.search(r"Used (\d+) registers", line):
            found[-1].registers = int(used[1])
            shared = re.search(r"(\d+) bytes smem", line)
            found[-1].shared = int(shared[1]) if shared else 0
    return found


def memory_findings(kernels: list[Kernel], allowed: dict[str, str]) -> list[str]:
    """Kernels that spill or have local memory and may not."""
    findings, used = [], set()
    for k in kernels:
        if k.stores or k.loads:
            findings.append(f"{k.source}: {k.name} spills on {k.machine}: {k.stores} bytes stored, {k.loads} loaded")
        elif k.stack:
            reasons = [pattern for pattern in allowed if re.fullmatch(pattern, k.name)]
            used.update(reasons)
            if not reasons:
                findings.append(f"{k.source}: {k.name} has {k.stack} bytes of local memory on {k.machine}: is an array "
                                "indexed by what is known at run time alone?")
    findings += [f"LOCAL_MEMORY: no kernel needs {pattern}" for pattern in allowed if pattern not in used]
    return findings


ARITHMETIC = re.compile(r"^\s*(?:@!?%\w+\s+)?((add|sub|mul|mad|fma|div|sqrt)((?:\.\w+)*)\.(?:f32|f64|f32x2))\s", re.M)


def rounding_findings(kept: pathlib.Path, command: str) -> tuple[int, list[str]]:
    """How many operations of the PTX were looked at, and those that do not say how they round (ptxas may fuse them) or
    do so in another way than the CPU. A product and a sum that nvcc fused itself look like a named fma: that is why the
    command must forbid it."""
    count, findings = 0, []
    if "-fmad=false" not in command or "fast_math" in command:
        findings.append(f"{kept.stem}: compiled without -fmad=false")
    for machine in MACHINES:
        (ptx,) = kept.glob(f"*compute_{machine[3:]}.ptx")
        wrong: dict[str, int] = {}
        for operation, _, modifiers in ARITHMETIC.findall(ptx.read_text()):
            count += 1
            words = modifiers.split(".")
            if not {"rn", "rz", "rm", "rp"} & set(words) or {"ftz", "approx", "full"} & set(words):
                wrong[operation] = wrong.get(operation, 0) + 1
        findings += [f"{ptx.name}: {n} times {operation}, which is not the CPU's" for operation, n in wrong.items()]
    return count, findings


class Table(ctypes.Structure):
    """The beginning of device::Table (core/device/table.h)."""

    _fields_ = [("layout", ctypes.c_uint64), ("name", ctypes.c_char_p), ("build", ctypes.c_char_p),
                ("reuses_blocks", ctypes.c_bool), ("count", ctypes.CFUNCTYPE(ctypes.c_char_p, ctypes.POINTER(ctypes.c_int)))]


def module_findings(module: pathlib.Path) -> list[str]:
    findings = []
    needed = re.findall(r"\(NEEDED\).*\[(.*)\]", run("readelf", "-dW", str(module)))
    findings += [f"{module.name} needs {library}" for library in needed if re.match(r"lib(cu|nv)", library)]
    exported = [line.split()[-1] for line in run("nm", "-D", "--defined-only", str(module)).splitlines()]
    if exported != [SYMBOL]:
        findings.append(f"{module.name} exports {', '.join(exported)}; it should export {SYMBOL} alone")
        return findings
    function = ctypes.CDLL(str(module))[SYMBOL]
    function.restype = ctypes.POINTER(Table)
    table = function().contents
    devices = ctypes.c_int(0)
    words = table.count(ctypes.byref(devices)) if table.name == b"cuda" else b"the module's table has another layout"
    text = (words or b"").decode()
    if words is not None and not re.fullmatch(r"no device: [^\n]+", text):
        findings.append(f"{module.name} does not say that there is no device, but: {text}")
    print(f"{module.name}: {table.build.decode()}; {text or f'{devices.value} devices'}")
    return findings


def control_findings(build: pathlib.Path) -> list[str]:
    """Checks of the controls that find nothing."""
    folder = build / "controls"
    folder.mkdir(exist_ok=True)
    kept = folder / "controls.o.kept"
    command = ["nvcc", "-std=c++20", "--generate-code=arch=compute_80,code=[sm_80]", "--generate-code=arch=compute_90,code=[sm_90]",
               "-fmad=true", "-maxrregcount=32", "-c", str(ROOT / "tests/cuda/controls.cu"), "-o", str(folder / "controls.o")]
    run("sh", str(ROOT / "core/cuda/nvcc/compile.sh"), str(folder / "controls.o"), *command)
    memory = memory_findings(kernels_of(kept, "controls.cu"), {"never": ""})
    _, rounding = rounding_findings(kept, " ".join(command))
    wanted = [(memory, rf"spilling spills on {m}") for m in MACHINES]
    wanted += [(memory, rf"indexed has \d+ bytes of local memory on {m}") for m in MACHINES]
    wanted += [(memory, "no kernel needs never"), (rounding, "compiled without -fmad=false")]
    wanted += [(rounding, rf"compute_{m[3:]}\.ptx: \d+ times {o}") for m in MACHINES for o in (r"add\.f32", r"mul\.f64")]
    quiet = [words for list_, words in wanted if not any(re.search(words, line) for line in list_)]
    library = folder / "controls.so"
    run("c++", "-shared", "-fPIC", str(ROOT / "tests/cuda/exports.cpp"), "-o", str(library))
    if not module_findings(library):
        quiet.append("a library that exports more than the table")
    return [f"no check found this in tests/cuda: {words}" for words in quiet]


def span(values: list[int]) -> str:
    low, high = min(values), max(values)
    return str(low) if low == high else f"{low} to {high}"


def page(kernels: list[Kernel], version: str) -> str:
    groups: dict[tuple[str, str], list[Kernel]] = {}
    for k in kernels:
        groups.setdefault((k.source, k.name.split("<")[0]), []).append(k)
    lines = [
        "# Kernels on a GPU",
        "",
        "What nvcc makes of each kernel, written by `EQUIGRAD_WRITE_DOCS=1 ./test.sh cuda`. It says what a kernel occupies, not how fast it is: none has run on",
        "a GPU yet ([devices.md](devices.md)).",
        "",
        f"nvcc {version}, for compute capability 8.0 and 9.0: {len({(k.source, k.name) for k in kernels})} kernels, versions of {len(groups)} templates. No kernel spills registers.",
        "Products and sums of floats are fused only where the code says so. `./test.sh cuda` checks both.",
        "",
        "- A template has a version for each element type, and for whatever else it takes. Ranges are over its versions.",
        "- Local memory is memory of a thread, beyond its registers. Shared memory is what a kernel asks for by itself; launches may ask for more.",
        "- Constant memory holds a kernel's parameters and literals, and 352 (sm_80) or 528 (sm_90) bytes of the driver's.",
        "",
        "| kernel | versions | registers, sm_80 | registers, sm_90 | spilled, stores / loads | local | shared | constant, sm_80 | constant, sm_90 |",
        "|---|--:|--:|--:|--:|--:|--:|--:|--:|",
    ]
    source = ""
    for (where, name), group in sorted(groups.items()):
        if where != source:
            lines.append(f"| **{where}** | | | | | | | | |")
            source = where
        on = [[k for k in group if k.machine == machine] for machine in MACHINES]
        lines.append(f"| `{name}` | {len(on[0])} | {span([k.registers for k in on[0]])} | {span([k.registers for k in on[1]])} | "
                     f"{max(k.stores for k in group)} / {max(k.loads for k in group)} | {span([k.stack for k in group])} | "
                     f"{span([k.shared for k in group])} | {span([k.constant for k in on[0]])} | {span([k.constant for k in on[1]])} |")
    lines += ["", "## Local memory", ""]
    for pattern, why in LOCAL_MEMORY.items():
        named = sorted({k.name for k in kernels if k.stack and re.fullmatch(pattern, k.name)})
        lines.append(f"- {', '.join(f'`{name}`' for name in named)}: {why}.")
    lines += ["", f"## More than {MANY} registers", "",
              f"A multiprocessor has 65,536 registers. With {MANY} for each thread it runs 512 threads at once.", "",
              "| kernel | sm_80 | sm_90 |", "|---|--:|--:|"]
    by_name: dict[str, dict[str, int]] = {}
    for k in kernels:
        by_name.setdefault(k.name, {})[k.machine] = k.registers
    for name, registers in sorted(by_name.items(), key=lambda item: (-max(item[1].values()), item[0])):
        if max(registers.values()) > MANY:
            lines.append(f"| `{name}` | {registers['sm_80']} | {registers['sm_90']} |")
    return "\n".join(lines) + "\n"


def page_findings(text: str, version: str) -> list[str]:
    if os.environ.get("EQUIGRAD_WRITE_DOCS") == "1":
        PAGE.write_text(text)
        return []
    written = PAGE.read_text() if PAGE.exists() else ""
    of = re.search(r"^nvcc ([\d.]+),", written, re.M)
    if of and of[1] != version:
        print(f"docs/cuda-kernels.md is of nvcc {of[1]}; this is {version}, so it is not compared", file=sys.stderr)
        return []
    if written == text:
        return []
    return ["docs/cuda-kernels.md is not what nvcc gives now; EQUIGRAD_WRITE_DOCS=1 ./test.sh cuda writes it"]


def main(build: pathlib.Path) -> int:
    version = re.search(r"V([\d.]+)", run("nvcc", "--version"))[1]
    kernels, operations, findings = [], 0, []
    for entry in json.loads((build / "compile_commands.json").read_text()):
        output = re.search(r" -o (\S*equigrad_cuda\.dir\S+)", entry["command"])
        if not output:
            continue
        kept = build / (output[1] + ".kept")
        kernels += kernels_of(kept, os.path.relpath(os.path.realpath(entry["file"]), ROOT))
        count, wrong = rounding_findings(kept, entry["command"])
        operations += count
        findings += wrong
    if not kernels or not operations:
        findings.append("no kernel was found")
    findings += memory_findings(kernels, LOCAL_MEMORY)
    findings += module_findings(build / "lib/equigrad/libequigrad_cuda.so")
    findings += control_findings(build)
    findings += page_findings(page(kernels, version), version)
    print(f"{len(kernels)} kernels on {len(MACHINES)} machines, {operations} operations on floats: {len(findings)} findings")
    for finding in findings:
        print(finding, file=sys.stderr)
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1]).resolve()))
