"""site_test.py ROOT: scripts/site/check.py passes a good site and names what is wrong with a bad one; text.py rewrites Markdown."""

import pathlib
import subprocess
import sys
import tempfile

root = pathlib.Path(sys.argv[1])
script = root / "scripts/site/check.py"
sys.dont_write_bytecode = True
sys.path.insert(0, str(script.parent))
import check
from text import normalised, relative

GOOD = {
    "index.html": '<link rel="stylesheet" href="s.css"><a href="b.html#here">b</a> <a href="https://example.org/">elsewhere</a> <img src="p.svg">',
    "b.html": '<p id="here"><a href="index.html">back</a> <a href="#here">up</a> <a href="folder/">a folder</a></p>',
    "folder/index.html": '<script src="../s.js"></script><link rel="canonical" href="https://example.org/b">',
    "s.css": "a { background: url(p.svg), url(data:image/png;base64,x) } /* url(https://example.org/no.png) */",
    "s.js": "",
    "p.svg": "<svg/>",
}
# What is added to index.html or s.css, and what the check must say.
BAD = {
    '<script src="https://example.org/a.js"></script>': "index.html: fetches https://example.org/a.js",
    '<script src="//example.org/a.js"></script>': "index.html: fetches //example.org/a.js",
    '<link rel="preconnect" href="https://example.org">': "index.html: fetches https://example.org",
    '<img srcset="p.svg 1x, https://example.org/p.png 2x">': "index.html: fetches https://example.org/p.png",
    '<p style="background: url(http://example.org/p.png)">': "index.html: fetches http://example.org/p.png",
    '<iframe src="https://example.org/"></iframe>': "index.html: fetches https://example.org/",
    '<div class="mermaid"></div>': "index.html: a diagram",
    '<img src="gone.png">': "index.html: needs gone.png",
    '<a href="gone.html">x</a>': "index.html: gone.html leads to no file",
    '<a href="b.html#gone">x</a>': "index.html: b.html#gone: b.html has no such place",
    '<a href="#gone">x</a>': "index.html: #gone is nowhere on the page",
    "<p>" + "x" * 500_000 + "</p>": "index.html: 500",
    "css: @import 'https://example.org/f.css';": "s.css: fetches https://example.org/f.css",
    "css: b { src: url('fonts/gone.woff2') }": "s.css: needs fonts/gone.woff2",
}
HEADER = """
#define TWICE(x) int x(); \\
  int x##2();
namespace eg::nn {
/// int commented();
class Linear : public Module {
  int hidden();
public:
  explicit Linear(int in, int out = f(1)) : in_{in}, out_(out) {}
  ~Linear() override;
  template <class T, int N = (2 > 1)> static std::vector<T> rows(const T& x) const { return {x}; }
  Linear& operator=(const Linear&) = delete;
  bool operator()(int x) const;
  std::function<void(int)> field = [](int) { call(); };
  int (*pointer)(int) = nullptr;
  struct Inner { int size() const; };
private:
  void secret();
  struct Private { void no(); };
};
enum class Kind : int { a, b };
struct Forward;
using Name = std::vector<int>;
inline constexpr int value = g(3);
decltype(auto) chosen(Kind kind);
template <class F> requires std::invocable<F> auto run(F&& f) noexcept(noexcept(f())) -> decltype(f()) { return f(); }
} // namespace eg::nn
namespace eg { [[nodiscard]] double last(const char* text = "x; y(", char c = '{'); }
"""
NAMES = [
    "eg.nn.Linear", "eg.nn.Linear.Linear", "eg.nn.Linear.~Linear", "eg.nn.Linear.rows", "eg.nn.Linear.Inner",
    "eg.nn.Linear.Inner.size", "eg.nn.Kind", "eg.nn.chosen", "eg.nn.run", "eg.last",
]  # fmt: skip


def run(files: dict[str, str]) -> tuple[int, str]:
    with tempfile.TemporaryDirectory() as folder:
        for name, text in files.items():
            path = pathlib.Path(folder, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        result = subprocess.run([sys.executable, script, folder], capture_output=True, text=True)
        return result.returncode, result.stdout + result.stderr


code, said = run(GOOD)
assert code == 0 and "3 pages" in said, said
code, said = run(
    {
        **GOOD,
        "explore/index.html": '<a href="#tokens?order=1.0">x</a>',
        "b.html": GOOD["b.html"] + '<a href="explore/index.html#thm4.5">x</a>',
    }
)
assert code == 0, said
for more, expected in BAD.items():
    where = "s.css" if more.startswith("css: ") else "index.html"
    code, said = run({**GOOD, where: GOOD[where] + more.removeprefix("css: ")})
    assert code == 1 and expected in said and len(said.splitlines()) == 1, (more[:80], said)
found = list(dict.fromkeys(check.declared(HEADER)))
assert found == NAMES, (sorted(set(NAMES) - set(found)), sorted(set(found) - set(NAMES)), found)

# What GitHub reads, and what Python-Markdown needs for the same.
MARKDOWN = [
    ("words\n- a\n- b\nmore", "words\n\n- a\n- b\nmore"),
    ("- a\n  - b\n    c\n- d", "- a\n    - b\n        c\n- d"),
    ("1. a\n   ```sh\n   x\n     y\n   ```\n2. b", "1. a\n    ```sh\n    x\n      y\n    ```\n2. b"),
    ("10. a\n    b\n\n    c", "10. a\n    b\n\n    c"),
    ("words\n| a |\n|---|\n| b |", "words\n\n| a |\n|---|\n| b |"),
    ("```\nwords\n- a\n| b |\n  - c\n```", "```\nwords\n- a\n| b |\n  - c\n```"),
    ("<details><summary>A</summary>", "<details markdown><summary>A</summary>"),
    ("| `a\\|b` \\| c |", "| `a|b` \\| c |"),
    ("words - no list\n2 - 1", "words - no list\n2 - 1"),
]
for given, expected in MARKDOWN:
    assert normalised(given) == expected, (given, normalised(given))
assert relative("a/b/c.md", "a/d/e.md") == "../d/e.md" and relative("a.md", "b/c.md") == "b/c.md"
assert relative("a/b.md", "a/b.md") == "b.md" and relative("a/b/c.md", "a/b.md") == "../b.md"
print(f"{len(MARKDOWN)} texts are rewritten, {len(BAD)} faults of a site are named; {len(NAMES)} declarations are found")
