"""Texts for tokenizer_compare.py: drawn at random over all of Unicode, and real ones."""
import lzma
import pathlib
import random

# Blocks that behave differently somewhere: scripts with and without case, marks of many classes, what is composed and
# decomposed, what is white space, control, format, private, unassigned.
BLOCKS = {
    "ascii": [(0x20, 0x7E)],
    "letters": [(0x61, 0x7A), (0x41, 0x5A)],
    "digits": [(0x30, 0x39), (0x660, 0x669), (0xB2, 0xB3), (0x2160, 0x2188), (0x1D7CE, 0x1D7FF)],
    "latin": [(0xA0, 0x24F), (0x1E00, 0x1EFF)],
    "greek": [(0x370, 0x3FF), (0x1F00, 0x1FFF)],
    "cyrillic": [(0x400, 0x52F), (0x1C80, 0x1C8F), (0xA640, 0xA69F)],
    "semitic": [(0x590, 0x6FF), (0x700, 0x77F), (0x8A0, 0x8FF)],
    "indic": [(0x900, 0xDFF)],
    "south-east": [(0xE00, 0xFFF), (0x1000, 0x109F), (0x1780, 0x17FF), (0x1A00, 0x1AFF)],
    "jamo": [(0x1100, 0x11FF), (0xA960, 0xA97F), (0xD7B0, 0xD7FB)],
    "hangul": [(0xAC00, 0xD7A3)],
    "kana": [(0x3040, 0x30FF), (0xFF00, 0xFFEF)],
    "ideographs": [(0x3400, 0x3410), (0x4E00, 0x9FFF), (0xF900, 0xFAFF), (0x20000, 0x20100), (0x2B730, 0x2B930),
                   (0x2CE90, 0x2CEC0), (0x2F800, 0x2FA1F)],
    "marks": [(0x300, 0x36F), (0x483, 0x489), (0x591, 0x5C7), (0x64B, 0x65F), (0x1AB0, 0x1AFF), (0x1DC0, 0x1DFF),
              (0x20D0, 0x20F0), (0x302A, 0x302F), (0x3099, 0x309A), (0xFE20, 0xFE2F), (0x1D165, 0x1D172),
              (0x1E8D0, 0x1E8D6), (0x11131, 0x11134)],
    "spaces": [(0x09, 0x0D), (0x20, 0x20), (0x85, 0x85), (0xA0, 0xA0), (0x1680, 0x1680), (0x2000, 0x200A),
               (0x2028, 0x2029), (0x202F, 0x202F), (0x205F, 0x205F), (0x3000, 0x3000), (0x180E, 0x180E)],
    "controls": [(0x00, 0x1F), (0x7F, 0x9F), (0xAD, 0xAD), (0x200B, 0x200F), (0x2060, 0x206F), (0xFEFF, 0xFEFF),
                 (0xFFF9, 0xFFFD), (0xE0001, 0xE007F)],
    "punctuation": [(0x21, 0x2F), (0x3A, 0x40), (0x5B, 0x60), (0x7B, 0x7E), (0x2010, 0x205E), (0x3001, 0x3030),
                    (0x2E00, 0x2E5D), (0x1F00, 0x1F01), (0x37E, 0x37E), (0x1FEF, 0x1FEF)],
    "emoji": [(0x1F300, 0x1FAFF), (0x2600, 0x27BF), (0x200D, 0x200D), (0xFE0F, 0xFE0F), (0x1F1E6, 0x1F1FF)],
    "beside surrogates": [(0xD7F0, 0xD7FF), (0xE000, 0xE010)],
    "private and last": [(0xE000, 0xF8FF), (0xFFFE, 0xFFFF), (0x10FFF0, 0x10FFFF)],
    "recent": [(0x10D40, 0x10D8F), (0x11380, 0x113FF), (0x105C0, 0x105FF), (0x16D40, 0x16D7F), (0xA7C0, 0xA7DF),
               (0x1C80, 0x1C8A), (0x11900, 0x1195F), (0x1E030, 0x1E08F)],
    "anything": [(0x00, 0xD7FF), (0xE000, 0x10FFFF)],
}
# Pieces that a draw of characters would hardly make.
PIECES = ["[SEP]", "[CLS]", "[MASK]", "[UNK]", "[PAD]", "[sep]", "<|endoftext|>", "<|endof", "text|>", "##ing", "'s", "'S",
          "'re", "'LL", "'ve", " 'd", "\u2019s", "'\u017f", "  ", "\n\n", " \n ", "\r\n", "don't", "it's", "u.s.a.", "...",
          "I\u0307", "\u0130", "A\u030A", "\u212B", "\u1E9B\u0323", "e\u0323\u0302", "\u1EC7", "ﬁ", "ß", "ς", "Σ", "\u0344",
          "\u0F73", "\u0958", "\u2126", "\u1100\u1161\u11A8", "한", "日本", "👩‍👩‍👧", "é" * 3, "x" * 101, "<mask>", " <mask> ",
          "yesterday", "Yesterday", "<tool>", "<TOOL>", "  <tool>  ", "1234567", "٣٤", "½", "x²", "\t", " "]


def draw(random_source):
    """One string: a few runs, each from one block or one of the pieces."""
    names = list(BLOCKS)
    out = []
    favourites = random_source.sample(names, 3)
    for _ in range(random_source.randint(1, 8)):
        kind = random_source.random()
        if kind < 0.15:
            out.append(random_source.choice(PIECES))
            continue
        ranges = BLOCKS[random_source.choice(favourites if kind < 0.7 else names)]
        for _ in range(random_source.randint(1, 6)):
            first, last = random_source.choice(ranges)
            out.append(chr(random_source.randint(first, last)))
        if random_source.random() < 0.3:
            out.append(" ")
    return "".join(c for c in "".join(out) if not 0xD800 <= ord(c) <= 0xDFFF)


def drawn(count, seed):
    source = random.Random(seed)
    return [draw(source) for _ in range(count)]


def code_points():
    """Every code point alone and between letters."""
    for c in range(0x110000):
        if not 0xD800 <= c <= 0xDFFF:
            yield chr(c)
            yield "a" + chr(c) + "b"


def real(data):
    """(name, texts) of the real texts under `data` that are there."""
    data = pathlib.Path(data)
    fixture = data / "tokenizers/gpt2/fixture.inp"
    if fixture.exists():
        yield "llama.cpp's fixture", fixture.read_text(encoding="utf-8").split("\n__ggml_vocab_test__\n")
    shakespeare = data / "tinyshakespeare/input.txt"
    if shakespeare.exists():
        text = shakespeare.read_text(encoding="utf-8")
        yield "Shakespeare, whole", [text]
        yield "Shakespeare, paragraphs", text.split("\n\n")
    for path in sorted((data / "imdb").glob("*.tsv.xz")):
        with lzma.open(path, "rt", encoding="utf-8") as lines:
            yield path.name, [line.rstrip("\n") for line in lines]
