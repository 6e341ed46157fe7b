// The page "catalogue".

import contents from "chapters";
import { announce, h, withSigns } from "../dom";
import type { Engine, Json } from "../engine";
import { button, choice, menu, slider, toggle } from "../kit/controls";
import { scientific } from "../kit/verdict";
import { breakIt, formula, Page, panel } from "../page";
import { precisions } from "./tokens";
import cpp from "../../../../../docs/theorems/programs/thm4.7.cpp";
import python from "../../code/catalogue.py";

interface Listed {
  id: string;
  title: string;
  paper: string;
  equation: string;
  kind: string;
  statement: string;
  tex: string;
  sharp: boolean;
}
/** One measured row, with the fields of `equigrad verify --json`. */
export interface Row {
  id: string;
  title: string;
  error: number | null;
  tolerance: number;
  differing: number;
  compared: number;
  status: string;
  detail: string;
  reason?: string;
  ms: number;
  control?: { what: string; error: number | null; must_exceed: number } | null;
}
type State = "open" | "holds" | "fails" | "skipped";
/** A chapter of the catalogue, with its place in the page. */
interface Section {
  slug: string;
  rows: Listed[];
  shown: Listed[];
  element: HTMLDetailsElement;
  count: HTMLElement;
  strip: HTMLElement;
  cells: Map<string, HTMLElement>;
  cards: HTMLElement;
  drawn: string;
}

/** As many engines as processors, but no more than four: each has memory of its own. */
const crewSize = Math.max(1, Math.min(4, navigator.hardwareConcurrency || 1));

export const catalogue: Page = {
  id: "catalogue",
  name: "Catalogue",
  hint: "every identity, measured here",
  claim: "Every identity of the theory is a live program: both sides are computed, nearly always on random weights, and compared, and a control that is almost the same must fail.",
  gesture: "Run all, or unfold a chapter and run one. Change seed, sizes and number type.",
  defaults: { q: "", kind: "", id: "", open: "auto", seed: "1", precision: "f64", tokens: "7", dim: "12", heads: "3", control: "0" },
  matrices: [],
  words: [
    ["row", "one identity with its id: thm4.5 is a theorem, lem9.4 a lemma, eq36 an equation of the papers"],
    ["equal up to 3e-16", "the largest difference of both sides, over the largest number"],
    ["control", "a second comparison that is almost the same, with one thing wrong; it must be far off"],
    ["erratum", "a statement that is printed wrongly somewhere; the row measures the corrected one, and the printed one is the control"],
  ],
  exercise: {
    question: "Choose the kind “erratum”: statements that a paper prints wrongly. Run one, read its control, and find the smallest change that makes the printed statement true.",
    answer: "For cor4.6-adamw: the paper asks for the same random initial weights; true is “initial weights that are each other's images”. The page errata.md of the documentation lists every such case with the corrected statement.",
  },
  programs: [
    { language: "C++", path: "docs/theorems/programs/thm4.7.cpp", text: cpp },
    { language: "Python", path: "apps/explore/web/code/catalogue.py", text: python },
  ],
  build(room) {
    const { state } = room;
    const found = new Map<string, Row | string>();
    const places = new Map<string, HTMLElement>();
    let rows: Listed[] = [];
    let shown: Listed[] = [];
    let sections: Section[] = [];
    let measuredWith = "";
    const settings = (): { [field: string]: Json } => ({
      precision: state.oneOf("precision", ["f64", "f32", "exact"]),
      seed: state.whole("seed", 0, 1_000_000),
      tokens: state.whole("tokens", 1, 32),
      dim: state.whole("dim", 1, 64),
      heads: state.whole("heads", 1, 8),
    });

    // What was measured.
    const judge = (row: Row): { holds: boolean | null; words: string; detail: string } => {
      if (row.status === "skip") return { holds: null, words: "not run", detail: row.detail };
      if (state.flag("control")) {
        if (!row.control) return { holds: false, words: "has no control of its own", detail: row.detail };
        return { holds: row.control.error !== null && row.control.error <= row.tolerance, words: `apart by ${scientific(row.control.error)}`, detail: `the control: ${row.control.what}` };
      }
      const control = row.control ? `control (${row.control.what}): ${scientific(row.control.error)}` : row.detail;
      if (row.status !== "pass") return { holds: false, words: row.reason ?? `${row.status}: ${scientific(row.error)}`, detail: control };
      return { holds: true, words: row.differing === 0 ? "equal to the last bit" : `equal up to ${scientific(row.error)}`, detail: control };
    };
    const stateOf = (id: string): State => {
      const row = found.get(id);
      if (row === undefined) return "open";
      const holds = typeof row === "string" ? null : judge(row).holds;
      return holds === null ? "skipped" : holds ? "holds" : "fails";
    };
    const counts = (list: Listed[]) => {
      const count = { open: 0, holds: 0, fails: 0, skipped: 0 };
      for (const row of list) ++count[stateOf(row.id)];
      return count;
    };
    const present = (id: string) => {
      const place = places.get(id);
      const row = found.get(id);
      if (!place) return;
      if (row === undefined) {
        place.replaceChildren();
        return;
      }
      const verdict = typeof row === "string" ? { holds: null, words: "not run", detail: row } : judge(row);
      place.replaceChildren(
        h(
          "div",
          { class: `verdict ${verdict.holds === null ? "" : verdict.holds ? "holds" : "fails"}`, "data-verdict": id, "data-holds": verdict.holds === null ? null : String(verdict.holds), "data-error": typeof row === "string" ? "" : String(row.error) },
          h("span", { class: "mark", "aria-hidden": "true" }, verdict.holds === null ? "?" : verdict.holds ? "=" : "≠"),
          h("span", { class: "line" }, h("span", { class: "words" }, verdict.words)),
          h("span", { class: "line detail" }, ...withSigns(verdict.detail)),
        ),
      );
    };
    const words = (list: Listed[]): string => {
      const { open, holds, fails, skipped } = counts(list);
      const parts = [holds > 0 ? `${holds} ${holds === 1 ? "holds" : "hold"}` : "", fails > 0 ? `${fails} ${fails === 1 ? "does" : "do"} not hold` : "", skipped > 0 ? `${skipped} ${skipped === 1 ? "needs" : "need"} other sizes` : "", open > 0 && open < list.length ? `${open} to go` : ""];
      return parts.filter((part) => part !== "").join(", ");
    };
    const tell = () => {
      for (const section of sections) {
        const text = words(section.shown);
        section.count.textContent = `${section.shown.length} ${section.shown.length === 1 ? "row" : "rows"}${text === "" ? "" : `: ${text}`}`;
        for (const row of section.shown) {
          const cell = section.cells.get(row.id);
          if (cell) cell.className = stateOf(row.id);
        }
      }
      const { holds, fails } = counts(shown);
      const text = words(shown);
      all.disabled = shown.length === 0 && run === null;
      summary.textContent = shown.length === 0 && rows.length > 0 ? `None of ${rows.length} rows is like that.` : `${shown.length === rows.length ? `${rows.length} rows` : `${shown.length} of ${rows.length} rows ${shown.length === 1 ? "is" : "are"} shown`}${text === "" ? "" : `: ${text}`}.`;
      bar.dataset["measured"] = String(holds + fails);
      bar.dataset["holds"] = String(holds);
    };
    let drawing = 0;
    const soon = () => {
      if (drawing === 0) drawing = requestAnimationFrame(() => {
        drawing = 0;
        tell();
      });
    };

    // The run: rows wait in a queue, and engines of its own take them. Stopping ends the engines.
    let crew: Engine[] = [];
    let run: { queue: string[]; of: number; done: number; stopped: boolean } | null = null;
    const dismiss = () => {
      for (const engine of crew) engine.stop();
      crew = [];
    };
    const halt = () => {
      if (run) run.stopped = true;
      run = null;
      dismiss();
    };
    room.left.signal.addEventListener("abort", halt);
    const start = async (ids: string[]) => {
      if (run) {
        run.queue.unshift(...ids);
        run.of += ids.length;
        return;
      }
      const mine = (run = { queue: [...ids], of: ids.length, done: 0, stopped: false });
      const with_ = settings();
      const began = performance.now();
      delete bar.dataset["seconds"];
      all.textContent = "Stop";
      progress.hidden = false;
      progress.value = 0;
      took.textContent = "";
      while (crew.length < Math.min(crewSize, ids.length)) crew.push(room.engine.fork());
      const work = async (engine: Engine) => {
        for (let id = mine.queue.shift(); id !== undefined; id = mine.queue.shift()) {
          let result: Row | string;
          try {
            result = await engine.ask<Row>({ ask: "catalogue.run", id, ...with_ });
          } catch (error) {
            result = error instanceof Error ? error.message : String(error);
          }
          if (mine.stopped) return;
          found.set(id, result);
          present(id);
          progress.value = ++mine.done / mine.of;
          soon();
        }
      };
      await Promise.all(crew.map(work));
      if (mine.stopped) return;
      run = null;
      ended(`It took ${((performance.now() - began) / 1000).toFixed(1)} s.`);
      bar.dataset["seconds"] = String((performance.now() - began) / 1000);
    };
    const ended = (text: string) => {
      all.textContent = "Run all that are shown";
      progress.hidden = true;
      tell();
      took.textContent = text;
      announce(`${summary.textContent} ${text}`);
    };
    const all = button("Run all that are shown", () => {
      if (run) {
        const { done, of } = run;
        halt();
        ended(`Stopped after ${done} of ${of}.`);
      } else {
        void start(shown.map((row) => row.id));
      }
    }, "main");
    const progress = h("progress", { max: 1, value: 0, "aria-label": "Rows measured", hidden: true });
    const summary = h("span", {});
    const took = h("span", { class: "quiet" });
    const unfold = button("Unfold all", () => room.change({ open: opened().size === sections.length ? "none" : "all" }));
    const bar = h("div", { class: "runbar" }, all, progress, h("p", {}, summary, " ", took), unfold);

    // Chapters.
    const card = (row: Listed): HTMLElement => {
      const place = h("div", { "aria-live": "polite" });
      places.set(row.id, place);
      const paper = [row.paper, row.equation].filter((part) => part !== "").join(", ");
      return h(
        "article",
        { class: "card", "data-row": row.id },
        h("h3", {}, h("code", {}, row.id), " ", ...withSigns(row.title)),
        h("p", {}, ...withSigns(row.statement)),
        formula(row.tex) ?? h("p", {}, h("code", {}, row.tex)),
        h("p", { class: "from" }, [row.kind, paper].filter((part) => part !== "").join(" · ")),
        h("button", { type: "button", class: "button", "aria-label": `Run ${row.id}`, click: () => {
          state.set({ id: row.id });
          mark();
          void start([row.id]);
        } }, "Run"),
        place,
      );
    };
    const filtering = () => state.text("q") !== "" || state.text("kind") !== "";
    const opened = (): Set<string> => {
      const text = state.text("open");
      if (text === "all" || (text === "auto" && filtering())) return new Set(sections.map((section) => section.slug));
      if (text === "auto") return new Set(sections.filter((section) => section.rows.some((row) => row.id === state.text("id"))).map((section) => section.slug));
      return new Set(text.split("."));
    };
    const draw = (section: Section) => {
      const name = section.shown.map((row) => row.id).join();
      if (!section.element.open || section.drawn === name) return;
      section.drawn = name;
      section.cards.replaceChildren(...section.shown.map(card));
      for (const row of section.shown) present(row.id);
      mark();
    };
    const mark = () => {
      for (const element of chapters.querySelectorAll<HTMLElement>("[data-row]")) element.classList.toggle("chosen", element.dataset["row"] === state.text("id"));
    };
    const chapters = h("div", { class: "chapters" });
    const chapter = (name: string, slug: string, list: Listed[]): Section => {
      const cells = new Map(list.map((row) => [row.id, h("i", { class: "open" })]));
      const strip = h("span", { class: "strip", "aria-hidden": "true" });
      const count = h("span", { class: "count" });
      const cards = h("div", { class: "cards" });
      const element = h(
        "details",
        { class: "chapter", "data-chapter": slug, toggle: () => {
          draw(section);
          const now = sections.filter((one) => one.element.open).map((one) => one.slug);
          const wanted = opened();
          if (now.length !== wanted.size || now.some((one) => !wanted.has(one)))
            state.set({ open: now.length === 0 ? "none" : now.length === sections.length ? "all" : now.join(".") });
          unfold.textContent = now.length === sections.length ? "Fold all" : "Unfold all";
        } },
        h("summary", {}, h("span", { class: "name" }, name), count, strip),
        h("div", { class: "controls" }, h("button", { type: "button", class: "button", "aria-label": `Run the chapter ${name}`, click: () => void start(section.shown.map((row) => row.id)) }, "Run this chapter")),
        cards,
      );
      const section: Section = { slug, rows: list, shown: list, element, count, strip, cells, cards, drawn: "" };
      return section;
    };

    const search: HTMLInputElement = h("input", { type: "search", id: "search", placeholder: "thm4, mask, adam, gradient …", input: () => room.change({ q: search.value, open: "auto" }) });
    const seed: HTMLInputElement = h("input", { type: "number", id: "seed", min: 0, max: 1000000, change: () => room.change({ seed: seed.value }) });
    const kinds = h("div", {});
    room.stage.append(
      bar,
      panel(
        "Which rows, and how",
        h(
          "div",
          { class: "controls" },
          h("div", { class: "field" }, h("label", { for: "search" }, "Search"), search),
          kinds,
          room.word("precision", (change) => choice("Numbers", precisions, change)),
          h("div", { class: "field" }, h("label", { for: "seed" }, "Seed"), seed),
          room.quantity("tokens", (change) => slider("Tokens", { least: 2, most: 16, step: 1 }, change)),
          room.quantity("dim", (change) => slider("Features", { least: 2, most: 48, step: 1 }, change)),
          room.quantity("heads", (change) => slider("Heads", { least: 1, most: 6, step: 1 }, change)),
        ),
      ),
      chapters,
      breakIt(room, "Judge the controls as if they were the theorems: each must fail, or its row would prove nothing.", room.flag("control", (change) => toggle("judge the controls", change))),
    );
    let arrived = "";
    room.onChange(async () => {
      if (rows.length === 0) {
        rows = (await room.ask<{ rows: Listed[] }>({ ask: "catalogue.list" })).rows;
        const names = [...new Set(rows.map((row) => row.kind))];
        kinds.replaceChildren(room.word("kind", (change) => menu("Kind", [["", "all"], ...names.map((name): [string, string] => [name, name])], (kind) => {
          state.set({ open: "auto" });
          change(kind);
        })));
        const byId = new Map(rows.map((row) => [row.id, row]));
        sections = contents.map((one) => chapter(one.name, one.slug, one.ids.flatMap((id) => byId.get(id) ?? [])));
        const listed = new Set(contents.flatMap((one) => one.ids));
        const others = rows.filter((row) => !listed.has(row.id));
        if (others.length > 0) sections.push(chapter("Others", "others", others));
        chapters.replaceChildren(...sections.map((section) => section.element));
      }
      if (search.value !== state.text("q")) search.value = state.text("q");
      seed.value = state.text("seed");
      const with_ = JSON.stringify(settings());
      if (with_ !== measuredWith) {
        if (run) {
          halt();
          ended("Stopped: these are other numbers.");
        }
        found.clear();
        took.textContent = "";
        delete bar.dataset["seconds"];
        measuredWith = with_;
      }
      const wanted = state.text("q").toLowerCase().split(/\s+/).filter((word) => word !== "");
      shown = [];
      const open = opened();
      for (const section of sections) {
        section.shown = section.rows.filter((row) => {
          const text = `${row.id} ${row.title} ${row.statement} ${row.kind} ${row.paper}`.toLowerCase();
          return (state.text("kind") === "" || row.kind === state.text("kind")) && wanted.every((word) => text.includes(word));
        });
        shown.push(...section.shown);
        section.element.hidden = section.shown.length === 0;
        section.strip.replaceChildren(...section.shown.map((row) => section.cells.get(row.id) as Node));
        section.element.open = open.has(section.slug);
        draw(section);
        for (const row of section.shown) present(row.id);
      }
      unfold.textContent = sections.every((section) => section.element.open) ? "Fold all" : "Unfold all";
      tell();
      mark();
      const chosen = state.text("id");
      if (chosen !== "" && arrived === "" && rows.some((row) => row.id === chosen)) {
        arrived = chosen;
        const section = sections.find((one) => one.rows.some((row) => row.id === chosen));
        if (section) {
          section.element.open = true;
          draw(section);
        }
        chapters.querySelector(`[data-row="${CSS.escape(chosen)}"]`)?.scrollIntoView({ block: "center", behavior: "instant" as ScrollBehavior });
        void start([chosen]);
      }
    });
  },
};
