"""The same numbers, verdicts and rows in Firefox."""

import json
import pathlib

from firefox import Firefox

from .numbers import links_to_compare, replay
from .tools import check, skipped

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
        skipped.append("firefox")
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
          const until = async (what, test) => { for (let i = 0; !test(); ++i) { if (i > 6000) throw new Error(what); await new Promise(done => setTimeout(done, 20)); } };
          location.hash = '#catalogue';
          await until('chapters', () => document.querySelector('.chapter'));
          const run = document.querySelector('.runbar .button');
          run.click();
          await until('first rows', () => document.querySelectorAll('.strip .holds').length > 3);
          run.click();
          const stopped = document.querySelectorAll('.strip .holds').length;
          await new Promise(done => setTimeout(done, 500));
          const later = document.querySelectorAll('.strip .holds').length;
          run.click();
          await until('all rows', () => document.querySelector('[data-seconds]'));
          return {...document.querySelector('.runbar').dataset, stopped, later, count: document.querySelectorAll('.strip i').length};""")
        print(f"  {rows['measured']} rows in {float(rows['seconds']):.1f} s")
        check(rows["count"] > 200 and int(rows["holds"]) == rows["count"], f"firefox: of {rows['count']} rows {rows['holds']} hold")
        check(rows["stopped"] == rows["later"] < rows["count"], f"firefox: a run that was stopped goes on: {rows}")
        fonts = firefox.run("await document.fonts.ready; return [...document.fonts].map(f => `${f.family.replaceAll('\"', '')} ${f.status}`)")
        check("explorer math loaded" in fonts, f"firefox: fonts {fonts}")
        refused = firefox.run("return await fetch('https://example.org/').then(() => 'connected', () => 'refused')")
        check(refused == "refused", "firefox: the page can connect")
