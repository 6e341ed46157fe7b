"""Says what is wrong with a wheel: its tag, its size, the libraries and the symbol versions that it needs.

    python check_wheel.py WHEEL...

Prints a line for each wheel, and what is wrong. Ends with 1 where something is. Needs pyelftools (auditwheel brings it).
"""

import argparse
import io
import re
import sys
import zipfile
from pathlib import Path

from elftools.elf.elffile import ELFFile
from elftools.elf.gnuversions import GNUVerNeedSection

MOST_BYTES = 25_000_000  # installed
# glibc 2.34 and the libstdc++ of GCC 11, which AlmaLinux 9 has; Ubuntu 22.04 has newer ones.
NEWEST = {"GLIBC": (2, 34), "GLIBCXX": (3, 4, 29), "CXXABI": (1, 3, 13), "GCC": (11,)}
# Every Linux with that glibc has these.
SYSTEM = re.compile(r"^(lib(c|m|dl|pthread|rt|stdc\+\+|gcc_s)|ld-linux-(x86-64|aarch64))\.so\.\d+$")
MACHINES = {"EM_X86_64": "x86_64", "EM_AARCH64": "aarch64"}
PAGE = {"x86_64": 4096, "aarch64": 65536}  # the largest that a kernel may have


def version_of(name):
    """("GLIBC", (2, 34)) of GLIBC_2.34; None for names that are no version."""
    kind, _, number = name.rpartition("_")
    return (kind, tuple(int(part) for part in number.split("."))) if re.fullmatch(r"[\d.]+", number) else None


class Library:
    """What an ELF file says of itself."""

    def __init__(self, data):
        elf = ELFFile(io.BytesIO(data))
        self.machine = MACHINES.get(elf["e_machine"], elf["e_machine"])
        self.alignment = min(s["p_align"] for s in elf.iter_segments() if s["p_type"] == "PT_LOAD")
        dynamic = elf.get_section_by_name(".dynamic")
        self.needed = [tag.needed for tag in dynamic.iter_tags("DT_NEEDED")]
        self.versions = set()  # of the system's libraries
        for section in elf.iter_sections():
            if isinstance(section, GNUVerNeedSection):
                for library, names in section.iter_versions():
                    if SYSTEM.match(library.name):
                        self.versions |= {name.name for name in names}


def newest_versions(libraries):
    newest = {}
    for name in set().union(*(library.versions for library in libraries)):
        version = version_of(name)
        if version and version[1] > newest.get(version[0], ()):
            newest[version[0]] = version[1]
    return newest


def libraries_of(archive):
    return {name: Library(archive.read(name)) for name in archive.namelist() if re.search(r"\.so(\.[\d.]+)?$", name)}


def tag_faults(wheel, archive):
    """The name, the file WHEEL and the module must say the same."""
    python, abi, platforms = wheel.stem.split("-")[-3:]
    (info,) = [name for name in archive.namelist() if name.endswith(".dist-info/WHEEL")]
    tags = re.findall(r"^Tag: (.*)$", archive.read(info).decode(), re.MULTILINE)
    if sorted(tags) != sorted(f"{python}-{abi}-{platform}" for platform in platforms.split(".")):
        yield f"the file WHEEL says {', '.join(tags)}"
    newest = NEWEST["GLIBC"][1]
    tag = [re.fullmatch(r"manylinux_2_(\d+)_(x86_64|aarch64)", platform) for platform in platforms.split(".")]
    if not all(tag):
        yield f"the tag {platforms} is not of the form manylinux_2_N_PROCESSOR"
    elif min(int(match[1]) for match in tag) > newest:
        yield f"the tag {platforms} is for a glibc after 2.{newest}"
    suffix = "abi3" if abi == "abi3" else f"cpython-{python[2:]}-{tag[0][2] if tag[0] else '?'}-linux-gnu"
    modules = [name for name in archive.namelist() if re.fullmatch(r"equigrad/_core\..*so", name)]
    if modules != [f"equigrad/_core.{suffix}.so"]:
        yield f"the modules are {modules}, where the tag wants _core.{suffix}.so"


def library_faults(wheel, libraries):
    own = {name.rsplit("/", 1)[-1] for name in libraries}
    for name, library in libraries.items():
        short = name.rsplit("/", 1)[-1]
        if not wheel.stem.endswith(library.machine):
            yield f"{short} is for {library.machine}"
        elif library.alignment < PAGE[library.machine]:
            yield f"{short} is aligned to {library.alignment} bytes: pages may have {PAGE[library.machine]}"
        for needed in library.needed:
            if needed not in own and not SYSTEM.match(needed):
                yield f"{short} needs {needed}, which is neither in the wheel nor on every Linux"
        for version in sorted(library.versions):
            kind = version_of(version)
            if kind and kind[0] not in NEWEST:
                yield f"{short} needs {version}, of which this check knows nothing"
            elif kind and kind[1] > NEWEST[kind[0]]:
                yield f"{short} needs {version}, which Ubuntu 22.04 does not have"
    for word in ("archive", "curl", "ssl", "crypto", "icu", "xml2", "openblas"):
        for short in own:
            if short.startswith("lib" + word):
                yield f"it holds {short}"


def faults_of(wheel):
    """What is wrong with the wheel, a sentence each, and a line that describes it."""
    wheel = Path(wheel)
    with zipfile.ZipFile(wheel) as archive:
        size = sum(entry.file_size for entry in archive.infolist())
        libraries = libraries_of(archive)
        faults = [*tag_faults(wheel, archive), *library_faults(wheel, libraries)]
    if size > MOST_BYTES:
        faults.append(f"it is {size / 1e6:.1f} MB installed; at most {MOST_BYTES / 1e6:.0f} MB are allowed")
    versions = ", ".join(f"{kind}_{'.'.join(map(str, v))}" for kind, v in sorted(newest_versions(libraries.values()).items()))
    inside = ", ".join(sorted(name.rsplit("/", 1)[-1] for name in libraries if ".libs/" in name))
    line = f"{wheel.stat().st_size / 1e6:.1f} MB, installed {size / 1e6:.1f} MB; needs {versions}; with {inside or 'no library'}"
    return faults, line


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("wheels", nargs="+", type=Path)
    wrong = False
    for wheel in arguments.parse_args().wheels:
        faults, line = faults_of(wheel)
        print(f"{wheel.name}: {line}")
        for fault in faults:
            print(f"{wheel.name}: {fault}", file=sys.stderr)
        wrong = wrong or bool(faults)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
