#!/usr/bin/env python3
"""Writes data/text/tokenizer/unicode_*.inc: what Hugging Face's `tokenizers` package does with every code point.

    python3 -m pip install tokenizers==0.22.2
    python3 scripts/make_unicode_tables.py            # writes the tables
    python3 scripts/make_unicode_tables.py --check    # compares them with the installed package, writes nothing

The package is asked, not a Unicode database, because its parts follow different Unicode versions (docs/tokenizers.md)
and identical output is what counts. Combining classes cannot be asked for: Python's unicodedata proposes them and the
order that NFD gives to pairs of marks confirms or rejects each.
"""
import argparse
import pathlib
import sys
import unicodedata

import tokenizers
from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers

FOLDER = pathlib.Path(__file__).resolve().parent.parent / "data" / "text" / "tokenizer"
CODE_POINTS = [c for c in range(0x110000) if not 0xD800 <= c <= 0xDFFF]
HANGUL = range(0xAC00, 0xD7A4)  # decomposed by arithmetic


def bert(**wanted):
    options = dict(clean_text=False, handle_chinese_chars=False, strip_accents=False, lowercase=False)
    return normalizers.BertNormalizer(**{**options, **wanted})


def matches(pattern):
    """Code points that Oniguruma, the package's engine for pre-tokenizers, puts into a class."""
    split = pre_tokenizers.Split(Regex(pattern), "isolated")
    return {c for c in CODE_POINTS if len(split.pre_tokenize_str("\0" + chr(c) + "\0")) == 3}


def word_and_space():
    """\\w and \\s of the package's other engine, which looks at what stands around added tokens."""
    probe = Tokenizer(models.WordLevel({"[UNK]": 0}, unk_token="[UNK]"))
    probe.add_tokens([AddedToken("<s>", single_word=True, normalized=False),
                      AddedToken("<l>", lstrip=True, rstrip=True, normalized=False)])
    word = {c for c in CODE_POINTS if probe.encode(chr(c) + "<s>").ids == [0]}
    space = {c for c in CODE_POINTS if probe.encode("a" + chr(c) + "<l>" + chr(c) + "b").offsets[1] == (1, 6)}
    return word, space


def combining_classes(nfd):
    """Classes that explain the order of marks. A class k is right when a mark of a class below k overtakes the character,
    none of class k does, and the character overtakes the marks above k."""
    proposed = {c: unicodedata.combining(chr(c)) for c in CODE_POINTS}
    decompose = normalizers.NFD().normalize_str
    by_class = {230: "\u0300"}
    for c in CODE_POINTS:
        k = proposed[c]
        if not k or k in by_class or chr(c) in nfd or c == 0x1DFA:  # its class changed in Unicode 14
            continue
        pair = "\u0300" + chr(c) if k < 230 else chr(c) + "\u0300"
        if decompose(pair) == pair[::-1]:  # else the package takes it for a starter
            by_class[k] = chr(c)
    order = sorted(by_class)

    def fits(c, k):
        here = chr(c)
        below = [x for x in order if x < k]
        above = [x for x in order if x > k]
        checks = [decompose(here + by_class[k]) == here + by_class[k], decompose(by_class[k] + here) == by_class[k] + here]
        if below:
            checks.append(decompose(here + by_class[below[-1]]) == by_class[below[-1]] + here)
        if above:
            checks.append(decompose(by_class[above[0]] + here) == here + by_class[above[0]])
        return all(checks)

    def starter(c):
        return all(decompose(x + chr(c)) == x + chr(c) and decompose(chr(c) + x) == chr(c) + x
                   for x in (by_class[order[0]], by_class[order[-1]]))

    classes = {}
    for c in CODE_POINTS:
        if chr(c) in nfd or c in HANGUL:
            continue  # never seen after decomposition
        k = proposed[c]
        if k and k in by_class and fits(c, k):
            classes[c] = k
        elif not starter(c):
            found = [x for x in order if fits(c, x)]
            if len(found) != 1:
                sys.exit(f"U+{c:04X}: no combining class explains how it is ordered")
            classes[c] = found[0]
    return classes


def ask():
    """All tables, as Python values."""
    clean, accents, lower = bert(clean_text=True), bert(strip_accents=True), bert(lowercase=True)
    chinese, nfd, nfc = bert(handle_chinese_chars=True), normalizers.NFD(), normalizers.NFC()
    words = pre_tokenizers.BertPreTokenizer()
    sets = {name: set() for name in ("removed", "space", "cjk", "accent", "punctuation")}
    decompositions, lowered, excluded = {}, {}, set()
    for c in CODE_POINTS:
        ch = chr(c)
        cleaned = clean.normalize_str("a" + ch + "b")
        if cleaned == "ab":
            sets["removed"].add(c)
        elif cleaned not in ("a" + ch + "b", "a b"):
            sys.exit(f"U+{c:04X}: cleaning gives {cleaned!r}")
        if chinese.normalize_str(ch) == " " + ch + " ":
            sets["cjk"].add(c)
        full = nfd.normalize_str(ch)
        if full != ch:
            decompositions[ch] = full
            if len(full) > 1 and nfc.normalize_str(full) != ch:
                excluded.add(c)
        elif accents.normalize_str(ch) == "":
            sets["accent"].add(c)
        if lower.normalize_str(ch) != ch:
            lowered[c] = lower.normalize_str(ch)
        pieces = [piece for piece, _ in words.pre_tokenize_str("a" + ch + "b")]
        if pieces == ["a", ch, "b"]:
            sets["punctuation"].add(c)
        elif pieces == ["a", "b"]:
            sets["space"].add(c)
    for ch, full in decompositions.items():  # removing marks looks at what decomposition left
        if accents.normalize_str(ch) != "".join(x for x in full if ord(x) not in sets["accent"]):
            sys.exit(f"U+{ord(ch):04X}: accents are not removed one by one")
    sets["letter"], sets["number"] = matches(r"\p{L}"), matches(r"\p{N}")
    sets["word"], spaces = word_and_space()
    if not sets["space"] == spaces == matches(r"\s"):
        sys.exit("the package's parts do not agree on what white space is")
    sets["not_recomposed"] = excluded
    return sets, decompositions, lowered, combining_classes(decompositions)


def runs(points):
    """(first, last) of consecutive code points. Surrogates join their neighbours: they never occur."""
    out = []
    for c in sorted(points):
        if out and (c == out[-1][1] + 1 or (out[-1][1] == 0xD7FF and c == 0xE000)):
            out[-1][1] = c
        else:
            out.append([c, c])
    return [tuple(r) for r in out]


def class_runs(classes):
    out = []
    for c in sorted(classes):
        if out and c == out[-1][1] + 1 and classes[c] == out[-1][2]:
            out[-1][1] = c
        else:
            out.append([c, c, classes[c]])
    return out


def lower_runs(lowered):
    """(first, last, stride, difference): every stride-th code point from first to last moves by the difference."""
    single = {c: ord(t) - c for c, t in lowered.items() if len(t) == 1}
    out = []
    for c in sorted(single):
        last = out[-1] if out else None
        if last and last[3] == single[c] and (c - last[1] == last[2] or (last[0] == last[1] and c - last[1] <= 2)):
            last[2] = c - last[1]
            last[1] = c
        else:
            out.append([c, c, 1, single[c]])
    return out


def wrapped(numbers):
    lines, line = [], ""
    for n in numbers:
        cell = (hex(n) if n >= 0 else str(n)) + ","
        if len(line) + len(cell) > 118:
            lines.append(line)
            line = ""
        line += cell
    return "\n".join(lines + [line]) + "\n"


def array(kind, name, rows, what):
    flat = [n for row in rows for n in row]
    return f"// {what}\nconstexpr {kind} {name}[] = {{\n{wrapped(flat)}}};\n"


WHAT = {
    "letter": "\\p{L} of Oniguruma",
    "number": "\\p{N} of Oniguruma",
    "space": "white space",
    "word": "\\w around added tokens",
    "removed": "what BERT's cleaning removes: NUL, U+FFFD, control, format and private-use characters",
    "punctuation": "what BERT's words are split at",
    "accent": "nonspacing marks, of those that NFD leaves",
    "cjk": "ideographs that BERT puts spaces around",
    "not_recomposed": "characters of several parts that NFC does not put together again",
}


def render(sets, decompositions, lowered, classes):
    odd = {c: t for c, t in lowered.items() if len(t) != 1}
    if odd != {0x130: "i\u0307"}:
        sys.exit(f"lower case is longer than one character for {odd}")
    head = (f"// Made by scripts/make_unicode_tables.py from tokenizers {tokenizers.__version__}; not to be edited.\n"
            "// Ranges are pairs: first, last.\n")
    ranges = head + "".join(array("char32_t", f"{name}_ranges", runs(sets[name]), WHAT[name])
                            for name in WHAT)
    ranges += array("char32_t", "class_ranges", class_runs(classes), "first, last, canonical combining class")
    ranges += array("std::int32_t", "lower_runs", lower_runs(lowered),
                    "first, last, stride, difference; U+0130, which becomes two characters, is not among them")
    rows = [(ord(ch), len(full), *map(ord, full)) for ch, full in sorted(decompositions.items())
            if ord(ch) not in HANGUL]
    parts = head.split("\n")[0] + "\n" + array(
        "char32_t", "decompositions", rows, "character, number of parts, parts: full canonical decompositions but Hangul's")
    return {"unicode_ranges.inc": ranges, "unicode_decompositions.inc": parts}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--check", action="store_true", help="compare, write nothing")
    args = parser.parse_args()
    differ = False
    for name, text in render(*ask()).items():
        path = FOLDER / name
        if args.check:
            same = path.read_text().split("\n", 1)[1] == text.split("\n", 1)[1]
            print(f"{path.name}: {'the same' if same else 'DIFFERENT'}")
            differ |= not same
        else:
            path.write_text(text)
            print(f"{path.name}: {len(text)} bytes")
    sys.exit(1 if differ else 0)


if __name__ == "__main__":
    main()
