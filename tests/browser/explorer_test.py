#!/usr/bin/env python3
"""The explorer in a browser: its numbers against the native program, its gestures, "break it", files, budgets, looks.

    explorer_test.py EXPLORER_FOLDER DOOR [--part numbers|breaks|catalogue|files|looks|budgets|firefox]

EXPLORER_FOLDER: what scripts/explorer.sh builds. DOOR: the program explore_door, which answers a page's questions natively.
Each part is a module of the folder explorer.
"""

import argparse
import os
import pathlib
import sys
import time

from page_checks import Browser  # before the parts: it finds Playwright

from explorer import breaks, budgets, catalogue, files, looks, numbers, other_browser
from explorer.tools import findings, skipped


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=lambda path: pathlib.Path(path).resolve())
    parser.add_argument("door")
    parser.add_argument("--program", default="", type=lambda path: os.path.abspath(path) if path else "", help="equigrad, for models in pages")
    parser.add_argument("--part", action="append")
    arguments = parser.parse_args()
    if not (arguments.folder / "index.html").exists():
        print(f"Skipped: there is no {arguments.folder}/index.html (scripts/explorer.sh builds build/explorer, with the argument wasm build/explorer-wasm)")
        return 77
    parts = {"numbers": lambda b: numbers.part(b, arguments.folder, arguments.door),
             "breaks": lambda b: breaks.part(b, arguments.folder),
             "catalogue": lambda b: catalogue.part(b, arguments.folder),
             "files": lambda b: files.part(b, arguments.folder, arguments.program),
             "looks": lambda b: looks.part(b, arguments.folder),
             "firefox": lambda _: other_browser.part(arguments.folder, arguments.door),
             "budgets": lambda b: budgets.part(b, arguments.folder)}
    with Browser() as browser:
        chosen = arguments.part or [name for name in parts if name != "budgets"]
        for name in chosen:
            began = time.monotonic()
            print(name)
            parts[name](browser)
            print(f"  {time.monotonic() - began:.0f} s")
    print(f"{len(findings)} findings")
    if skipped == chosen:
        return 77
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
