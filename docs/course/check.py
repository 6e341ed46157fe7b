#!/usr/bin/env python3
"""check.py [NUMBER] [FILE]: checks the exercises of the course, and prints a verdict for each.

    python docs/course/check.py                    # all six stubs in exercises/
    python docs/course/check.py 3                  # exercises/3_block.py
    python docs/course/check.py 3 my_block.py      # another file
    python docs/course/check.py all FOLDER         # a folder with the six files

Instances are random. --seed N repeats those of a verdict. The exit status is 0 when all that was checked is right.
The files are run as they are, so grade work of others in a container.
"""

import argparse
import importlib
import importlib.util
import pathlib
import secrets
import sys
import traceback

HERE = pathlib.Path(__file__).resolve().parent
EXERCISES = {1: "softmax", 2: "heads", 3: "block", 4: "twins", 5: "masks", 6: "thief"}


def loaded(path: pathlib.Path):
    spec = importlib.util.spec_from_file_location(f"work_{path.stem}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def place_of(error: BaseException, path: pathlib.Path) -> str:
    """The last line of the solution's own file in a traceback."""
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)]
    return f" (line {lines[-1]} of {path.name})" if lines else ""


def verdict(number: int, path: pathlib.Path, seed: int) -> tuple[str, str]:
    """'right', 'wrong' or 'open', and a sentence."""
    import grader
    import numpy as np

    checker = importlib.import_module(f"grader.{EXERCISES[number]}")
    try:
        return "right", checker.check(loaded(path), np.random.default_rng(seed))
    except grader.Wrong as wrong:
        return "wrong", str(wrong)
    except NotImplementedError as error:
        return "open", f"there is something left to write{place_of(error, path)}"
    except (Exception, SystemExit) as error:
        place = place_of(error, path)
        what = "it stops with" if place else "what it gives cannot be checked:"
        return "wrong", f"{what} {type(error).__name__}: {error}{place}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("number", nargs="?", default="all", choices=["all", *map(str, EXERCISES)], metavar="NUMBER")
    parser.add_argument("file", nargs="?", type=pathlib.Path, default=HERE / "exercises", metavar="FILE")
    parser.add_argument("--seed", type=int, default=None)
    args = parser.parse_args()
    seed = secrets.randbelow(2**32) if args.seed is None else args.seed
    numbers = list(EXERCISES) if args.number == "all" else [int(args.number)]
    if len(numbers) > 1 and not args.file.is_dir():
        parser.error("one file is one exercise: say which")
    try:
        import equigrad  # noqa: F401
    except ImportError as error:
        parser.error(f"the module equigrad is needed ({error}); see docs/python.md")
    all_right = True
    for number in numbers:
        path = args.file / f"{number}_{EXERCISES[number]}.py" if args.file.is_dir() else args.file
        if not path.is_file():
            parser.error(f"there is no file {path}")
        word, sentence = verdict(number, path.resolve(), seed)
        print(f"{number} {EXERCISES[number]:8} {word:6} {sentence}")
        all_right &= word == "right"
    if not all_right:
        print(f"The same instances again: --seed {seed}")
    return 0 if all_right else 1


if __name__ == "__main__":
    sys.exit(main())
