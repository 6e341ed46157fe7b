#!/usr/bin/env python3
"""Writes the measured tables of docs/performance.md (between its markers) and docs/performance.svg from runs on this
machine. The text around the tables is written by hand. Takes some 20 minutes with two peers.

    tests/bench/compare.py build/release/bin/equigrad --python venv/bin/python --compile --core SKYLAKEX --json compare.json
    tests/bench/performance_page.py build/release/bin/equigrad --compare compare.json
"""

import argparse
import json
import pathlib
import re
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE, CHART = ROOT / "docs" / "performance.md", ROOT / "docs" / "performance.svg"


def lines_of(program, *arguments):
    done = subprocess.run([program, "bench", *arguments, "--json", "-", "--quiet"], capture_output=True, text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def table(head, rows):
    text = "| " + " | ".join(head) + " |\n|" + "---|" * len(head) + "\n"
    return text + "".join("| " + " | ".join(map(str, row)) + " |\n" for row in rows)


def peers_by_case(compared):
    cases = {}
    for line in compared:
        cases.setdefault(line["case"], []).append(line)
    return {case: lines for case, lines in cases.items() if len(lines) > 1 and lines[0]["engine"].startswith("equigrad")}


def step_table(compared):
    rows = []
    for case, lines in peers_by_case(compared).items():
        mine, peers = lines[0], sorted(lines[1:], key=lambda line: line["ms"])
        best = peers[0]
        others = "; ".join(f"{p['engine'].split(',')[0]} {p['ms']:.4g}" for p in peers)
        floor = f"{mine['ms'] / mine['floor_ms']:.2f}" if mine["floor_ms"] else ""
        rows.append([case, f"{mine['ms']:.4g}", others, f"{mine['ms'] / best['ms']:.2f}", floor,
                     f"{mine['rss_mb']:.0f}", f"{mine['rss_mb'] / min(p['rss_mb'] for p in peers):.2f}"])  # fmt: skip
    return table(["case", "ms", "peers, ms", "of the fastest peer", "of the floor", "MB", "of the leanest peer's memory"], rows)


def gemm_table(program, seconds):
    found = lines_of(program, "gemm", "--seconds", seconds)
    return table(
        ["product", "our kernel, GFLOP/s", "OpenBLAS's own threads", "ratio of medians"],
        [[a["case"], f"{a['gflops']:.0f}", f"{b['gflops']:.0f}", f"{b['ms'] / a['ms']:.2f}"]
         for a, b in zip(found[::2], found[1::2])],
    )  # fmt: skip


def scaling_table(program, seconds):
    found = lines_of(program, "scaling", "--seconds", seconds)
    return table(
        ["point", "ms", "of the first", "exponent", "GFLOP/s"],
        [[f["case"], f"{f['ms']:.4g}", f"{f['of_first']:.2f}", "" if f["exponent"] is None else f"{f['exponent']:.2f}",
          f"{f['gflops']:.0f}"] for f in found],
    )  # fmt: skip


def ops_table(program, seconds):
    found = sorted(lines_of(program, "ops", "--seconds", seconds), key=lambda f: -f["of_roofline"])
    return table(
        ["operation", "ms", "GFLOP/s", "GB/s", "bound by", "of the roofline"],
        [[f["case"], f"{f['ms']:.3g}", f"{f['gflops'] or 0:.0f}", f"{f['gb_per_s']:.1f}", f["bound"],
          f"{f['of_roofline']:.0%}"] for f in found if f["gb_per_s"] > 0],
    )  # fmt: skip


def chart(compared):
    """Bars: our time over each peer's, a line at 1."""
    bars = [(case, peer["engine"].split(",")[0], lines[0]["ms"] / peer["ms"])
            for case, lines in peers_by_case(compared).items() for peer in lines[1:]]  # fmt: skip
    colours = dict(zip(dict.fromkeys(name for _, name, _ in bars), ["#2b6cb0", "#c05621", "#2f855a", "#6b46c1"] * 3))
    step, left, scale = 22, 150, 380
    height = step * (len(bars) + len(peers_by_case(compared))) + 70
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="700" height="{height}" font-family="sans-serif" font-size="12">',
           f'<rect width="700" height="{height}" fill="white"/>',
           '<text x="10" y="18" font-size="14">Time of equigrad over the peer\'s (below 1: equigrad is faster)</text>']  # fmt: skip
    for i, (name, colour) in enumerate(colours.items()):
        out.append(f'<rect x="{10 + 230 * i}" y="28" width="10" height="10" fill="{colour}"/>')
        out.append(f'<text x="{24 + 230 * i}" y="37">{name}</text>')
    y, last = 52, None
    for case, name, ratio in bars:
        if case != last:
            y += step // 2 if last else 0
            out.append(f'<text x="{left - 8}" y="{y + 13}" text-anchor="end">{case}</text>')
        out.append(f'<rect x="{left}" y="{y}" width="{scale * min(ratio, 1.35):.1f}" height="{step - 6}" fill="{colours[name]}"/>')
        out.append(f'<text x="{left + scale * min(ratio, 1.35) + 5:.1f}" y="{y + 13}">{ratio:.2f}</text>')
        y, last = y + step, case
    out.append(f'<line x1="{left + scale}" y1="46" x2="{left + scale}" y2="{y}" stroke="black" stroke-dasharray="4 3"/>')
    return "\n".join([*out, "</svg>", ""])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("equigrad")
    parser.add_argument("--compare", required=True, help="what compare.py --json wrote")
    parser.add_argument("--seconds", default="1", help="for each measurement")
    args = parser.parse_args()
    compared = json.loads(pathlib.Path(args.compare).read_text(encoding="utf-8"))
    parts = {
        "steps": step_table(compared),
        "gemm": gemm_table(args.equigrad, args.seconds),
        "scaling": scaling_table(args.equigrad, args.seconds),
        "ops": ops_table(args.equigrad, "0.2"),
    }
    page = PAGE.read_text(encoding="utf-8")
    for name, text in parts.items():
        mark = rf"(<!-- {name} -->\n).*?(<!-- end {name} -->)"
        page, count = re.subn(mark, lambda m, text=text: m[1] + text + m[2], page, flags=re.S)
        if count != 1:
            raise SystemExit(f"{PAGE}: {count} places for '{name}'")
    PAGE.write_text(page, encoding="utf-8")
    CHART.write_text(chart(compared), encoding="utf-8")


if __name__ == "__main__":
    main()
