"""Writes the manual page equigrad(1) from what the program says of its commands.

    python make_man.py PROGRAM > equigrad.1

`PROGRAM help --json` is the only source of commands and options.
"""

import json
import os
import subprocess
import sys
import time


def escaped(text):
    """Text as roff shows it: no escapes, no requests, hyphens that can be copied."""
    lines = text.replace("\\", "\\e").replace("-", "\\-").replace("'", "\\(aq").split("\n")
    return "\n".join(("\\&" if line.startswith(".") else "") + line for line in lines)


def term_of(option):
    name = option["name"]
    if option["kind"] == "flag":
        return f"\\fB{escaped(name)}\\fR"
    if option["kind"] == "word":
        return f"\\fI{escaped(name)}\\fR"
    return f"\\fB{escaped(name)}\\fR \\fI{escaped(option.get('type', 'VALUE'))}\\fR"


def about_of(option):
    words = escaped(option["about"])
    if "default" in option:
        words += escaped(f" (default: {option['default']})")
    return words + (" Required." if option["required"] else "")


def command_lines(command, common):
    yield f".SS equigrad {escaped(command['command'])}"
    yield escaped(command["about"]) + "."
    for option in command["options"]:
        if option["name"] not in common:
            yield from (".TP", term_of(option), about_of(option))


def common_options(commands):
    """Options that every command has, in the same words."""
    first, *others = ({option["name"]: option for option in command["options"]} for command in commands)
    return {name: option for name, option in first.items() if all(other.get(name) == option for other in others)}


def page(definition, day):
    commands = definition["commands"]
    common = common_options(commands)
    yield f'.TH EQUIGRAD 1 "{day}" "equigrad {escaped(definition["version"])}" "User Commands"'
    yield from (".SH NAME", "equigrad \\- trains transformers and checks how they commute with permutations")
    yield from (".SH SYNOPSIS", ".B equigrad", "\\fICOMMAND\\fR [\\fIOPTION\\fR ...]", ".br", ".B equigrad", "\\fICOMMAND\\fR \\fB\\-\\-help\\fR")
    yield from (".SH COMMON OPTIONS", "Every command takes these, and \\fB\\-h\\fR, \\fB\\-\\-help\\fR.")
    for option in common.values():
        yield from (".TP", term_of(option), about_of(option))
    yield ".SH COMMANDS"
    for command in commands:
        yield from command_lines(command, common)
    yield ".SH EXIT STATUS"
    for code, words in (("0", "done"), ("1", "a check failed"), ("2", "wrong usage or bad input"), ("130", "interrupted")):
        yield from (".TP", code, words)
    yield ".SH ENVIRONMENT"
    yield from (".TP", ".B EQUIGRAD_DATA", "Folder of the data sets, where \\fB\\-\\-data\\-dir\\fR names none.")
    yield from (".TP", ".B EQUIGRAD_THREADS", "Threads, where \\fB\\-\\-threads\\fR names none.")


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    said = subprocess.run([sys.argv[1], "help", "--json"], check=True, capture_output=True, text=True).stdout
    day = time.strftime("%Y-%m-%d", time.gmtime(int(os.environ.get("SOURCE_DATE_EPOCH", time.time()))))
    print("\n".join(page(json.loads(said), day)))


if __name__ == "__main__":
    main()
