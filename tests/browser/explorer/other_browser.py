"""The same numbers, verdicts and rows in Firefox."""

import json
import pathlib

from firefox import Firefox

from .numbers import links_to_compare, replay
from .tools import check

# Links, a verdict on the page, and whether it holds.
EXPECTED = (("tokens", "forward", True), ("tokens", "weights", True), ("tokens?positions=1", "forward", False), ("tokens?causal=1", "backward", False),
            ("tokens?rotary=1", "forward", False), ("tokens?scaled=1", "forward", False), ("features", "forward", True),
            ("features?weights=plain", "forward", False), ("features?weights=tied&order=4.1.2.3.0.5.6.7", "forward", False), ("gradients?turn=0.5", "weight", True),
            ("gradients?stretch=1", "weight", False), ("gradients?stretch=1", "covector", True), ("twins", "twins", True),
            ("twins?group=rotation&optimizer=adam", "twins", False), ("twins?group=rotation&optimizer=sgd", "twins", True),
            ("twins?group=rotation&optimizer=muon", "twins", True), ("twins?group=rotation&optimizer=muon&vectors=1", "twins", False), ("masks", "forward", True),
            ("masks?order=1.0.2.3.4.5", "forward", False), ("thief", "key", True), ("thief?secret=1", "key", False), ("tape", "slope", True),
            ("tape?lost=2", "slope", False))


def part(folder: pathlib.Path, door_program: str) -> None:
    """The same numbers, verdicts and rows in Firefox."""
    if Firefox.available() is None:
        print("  Skipped: there is no firefox-esr; it is a Debian package of that name")
        return
    with Firefox() as firefox:
        firefox.goto((folder / "index.html").resolve().as_uri())
        firefox.run("await explorer.ready")
        show = """
          const wait = ms => new Promise(done => setTimeout(done, ms));
          const until = async (what, test) => { for (let i = 0; !test(); ++i) { if (i > 3000) throw new Error(what); await wait(20); } };
          location.hash = '#start';
          await until('start', () => document.querySelector('.ways'));
          location.hash = '#' + args[0];
          await until(args[0], () => document.querySelector('.neighbours') && document.querySelector('[data-verdict][data-holds]'));
          return Object.fromEntries([...document.querySelectorAll('[data-verdict][data-holds]')].map(e => [e.dataset.verdict, e.dataset.holds === 'true']));"""
        for link, verdict, holds in EXPECTED:
            shown = firefox.run(show, link)
            check(shown.get(verdict) is holds, f"firefox: {link}: {verdict} is {shown.get(verdict)}, must be {holds}")
        links = links_to_compare()
        for link in links:
            firefox.run(show, link)
        asked = json.loads(firefox.run("await new Promise(done => setTimeout(done, 500)); return JSON.stringify(explorer.log)"))
        replay(asked, links, door_program)
        print(f"  {len(asked)} answers compared")
        rows = firefox.run("""
          const list = (await explorer.engine.ask({ask: 'catalogue.list'})).rows;
          const began = performance.now(), bad = [];
          for (const row of list) {
            const result = await explorer.engine.ask({ask: 'catalogue.run', id: row.id});
            if (result.status !== 'pass') bad.push(row.id);
          }
          return {count: list.length, bad, seconds: (performance.now() - began) / 1000};""")
        print(f"  {rows['count']} rows in {rows['seconds']:.1f} s")
        check(rows["count"] > 200 and not rows["bad"], f"firefox: rows that do not hold: {rows['bad']}")
        refused = firefox.run("return await fetch('https://example.org/').then(() => 'connected', () => 'refused')")
        check(refused == "refused", "firefox: the page can connect")
