#!/usr/bin/env python3
"""Looks at the pages that the program writes, in a browser: reports_test.py PROGRAM.

The main job's page (of a short training), that of `verify --report`, and that of `report`.
"""

import pathlib
import subprocess
import sys
import tempfile

from page_checks import Browser, check_page


def main() -> int:
    """Prints the findings and gives 1 when there are some."""
    program = sys.argv[1]
    count = 0
    with Browser() as browser, tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "nothing").mkdir()

        def run(*words: str) -> None:
            subprocess.run([program, *words, "--quiet"], check=True, stdout=subprocess.DEVNULL)

        data = ("--data-dir", str(folder / "nothing"))  # generated images
        run("run", "--steps", "4", "--out", str(folder / "job"), *data)
        run("verify", "--filter", "thm4.*", "--report", str(folder / "theorems.html"), *data)
        run("report", str(folder / "job/run"), "--out", str(folder / "runs.html"), *data)
        for page in ("job/report.html", "theorems.html", "runs.html"):
            for finding in check_page(browser, folder / page):
                print(f"{page}: {finding}")
                count += 1
    print(f"{count} findings")
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main())
