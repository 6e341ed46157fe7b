"""man_test.py ROOT [PROGRAM]: the manual page holds every command and option, and groff takes it without a warning."""

import shutil
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(sys.argv[1]) / "scripts" / "release"))
sys.dont_write_bytecode = True
import make_man  # noqa: E402


def shown(page):
    """The page as text, by groff; its warnings."""
    words = ["groff", "-man", "-Tutf8", "-ww", "-P-cbou", "-rLL=10000n"]
    result = subprocess.run(words, input=page, capture_output=True, text=True)
    return " ".join(result.stdout.replace("\u2010", "-").split()), result.stderr


# What roff would take for its own must come out as it went in.
ODD = r".TH is no request, 'quoted' \fBand\fR --dashed \n[x] a-b"
definition = {
    "version": "1.2",
    "commands": [
        {
            "command": name,
            "about": f"About {name}",
            "options": [
                {"name": "--seed", "kind": "value", "required": False, "about": "Seed", "type": "N", "default": "0"},
                {"name": f"--{name}", "kind": "flag", "required": False, "about": ODD},
            ],
        }
        for name in ("one", "two")
    ],
}
page = "\n".join(make_man.page(definition, "2000-01-01")) + "\n"
assert page.count("\\-\\-seed") == 1, "an option of all commands stands once"
if shutil.which("groff"):
    text, warnings = shown(page)
    assert not warnings, warnings
    assert ODD in text and "--seed N Seed (default: 0)" in text, text
    assert shown(page.replace("\\&.TH", ".QQ"))[1], "control: groff warns of an unknown request"
else:
    print("groff is not installed: what the page looks like was not looked at")

if len(sys.argv) > 2:
    import json

    said = json.loads(subprocess.run([sys.argv[2], "help", "--json"], check=True, capture_output=True, text=True).stdout)
    page = "\n".join(make_man.page(said, "2000-01-01")) + "\n"
    for command in said["commands"]:
        assert f".SS equigrad {make_man.escaped(command['command'])}\n" in page
        for option in command["options"]:
            assert make_man.term_of(option) in page, option["name"]
    if shutil.which("groff"):
        text, warnings = shown(page)
        assert not warnings, warnings
        assert all(f"equigrad {command['command']}" in text for command in said["commands"])
    print(f"{len(said['commands'])} commands")
