// The page "catalogue".

import { announce, h } from "../dom";
import { Json } from "../engine";
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

export const catalogue: Page = {
  id: "catalogue",
  name: "Catalogue",
  hint: "every identity, measured here",
  claim: "Every identity of the theory is a live program: both sides are computed, nearly always on random weights, and compared, and a control that is almost the same must fail.",
  gesture: "Search, run one or all, and change seed, sizes and number type.",
  defaults: { q: "", kind: "", id: "", seed: "1", precision: "f64", tokens: "7", dim: "12", heads: "3", control: "0" },
  matrices: false,
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
    const cards = h("div", { class: "cards" });
    const summary = h("p", { class: "gesture", role: "status" });
    const progress = h("progress", { max: 1, value: 0, "aria-label": "Rows measured", hidden: true });
    const kinds = h("div", {});
    const found = new Map<string, Row | string>();
    const places = new Map<string, HTMLElement>();
    let rows: Listed[] = [];
    let shown: Listed[] = [];
    let listed = "";
    let measuredWith = "";
    let running = false;
    const settings = (): { [field: string]: Json } => ({
      precision: state.oneOf("precision", ["f64", "f32", "exact"]),
      seed: state.whole("seed", 0, 1_000_000),
      tokens: state.whole("tokens", 1, 32),
      dim: state.whole("dim", 1, 64),
      heads: state.whole("heads", 1, 8),
    });
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
          h("span", { class: "line detail" }, verdict.detail),
        ),
      );
    };
    const measure = async (id: string) => {
      try {
        found.set(id, await room.ask<Row>({ ask: "catalogue.run", id, ...settings() }));
      } catch (error) {
        found.set(id, error instanceof Error ? error.message : String(error));
      }
      present(id);
    };
    const tell = () => {
      const measured = shown.filter((row) => found.has(row.id));
      const hold = measured.filter((row) => {
        const result = found.get(row.id);
        return result !== undefined && typeof result !== "string" && judge(result).holds === true;
      });
      const skipped = measured.filter((row) => {
        const result = found.get(row.id);
        return typeof result === "string" || (result !== undefined && judge(result).holds === null);
      });
      summary.textContent = `${shown.length} of ${rows.length} rows are shown. ${measured.length === 0 ? "" : `${measured.length - skipped.length} measured: ${hold.length} hold, ${measured.length - skipped.length - hold.length} do not${skipped.length > 0 ? `; ${skipped.length} need other sizes` : ""}.`}`;
      summary.dataset["measured"] = String(measured.length - skipped.length);
      summary.dataset["holds"] = String(hold.length);
    };
    const all = button("Run all that are shown", () => {
      if (running) {
        running = false;
        return;
      }
      running = true;
      all.textContent = "Stop";
      progress.hidden = false;
      const began = performance.now();
      void room.guard(async () => {
        const list = [...shown];
        for (const [i, row] of list.entries()) {
          if (!running || !room.open) break;
          await measure(row.id);
          progress.value = (i + 1) / list.length;
          if (i % 8 === 0) tell();
        }
        tell();
        const text = `${summary.textContent} It took ${((performance.now() - began) / 1000).toFixed(1)} s.`;
        summary.textContent = text;
        summary.dataset["seconds"] = String((performance.now() - began) / 1000);
        announce(text);
        running = false;
        all.textContent = "Run all that are shown";
        progress.hidden = true;
      }, true);
    }, "main");
    const card = (row: Listed): HTMLElement => {
      const place = h("div", { "aria-live": "polite" });
      places.set(row.id, place);
      const paper = [row.paper === "" ? "" : row.paper, row.equation === "" ? "" : row.equation].filter((part) => part !== "").join(", ");
      return h(
        "article",
        { class: `card ${row.id === state.text("id") ? "chosen" : ""}`, "data-row": row.id },
        h("h3", {}, h("code", {}, row.id), ` ${row.title}`),
        h("p", {}, row.statement),
        formula(row.tex) ?? h("p", {}, h("code", {}, row.tex)),
        h("p", { class: "from" }, [row.kind, paper].filter((part) => part !== "").join(" · ")),
        h("button", { type: "button", class: "button", "aria-label": `Run ${row.id}`, click: () => {
          state.set({ id: row.id });
          void room.guard(async () => {
            await measure(row.id);
            tell();
          });
        } }, "Run"),
        place,
      );
    };
    const search: HTMLInputElement = h("input", { type: "search", id: "search", placeholder: "thm4, mask, adam, gradient …", input: () => room.change({ q: search.value }) });
    const seed: HTMLInputElement = h("input", { type: "number", id: "seed", min: 0, max: 1000000, change: () => room.change({ seed: seed.value }) });
    room.stage.append(
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
        h("div", { class: "controls after" }, all, progress),
        summary,
      ),
      breakIt(room, "Judge the controls as if they were the theorems: each must fail, or its row would prove nothing.", room.flag("control", (change) => toggle("judge the controls", change))),
      cards,
    );
    room.onChange(async () => {
      if (rows.length === 0) {
        rows = (await room.ask<{ rows: Listed[] }>({ ask: "catalogue.list" })).rows;
        const names = [...new Set(rows.map((row) => row.kind))];
        kinds.replaceChildren(room.word("kind", (change) => menu("Kind", [["", "all"], ...names.map((name): [string, string] => [name, name])], change)));
      }
      if (search.value !== state.text("q")) search.value = state.text("q");
      seed.value = state.text("seed");
      const with_ = JSON.stringify(settings());
      if (with_ !== measuredWith) {
        found.clear();
        measuredWith = with_;
      }
      const words = state.text("q").toLowerCase().split(/\s+/).filter((word) => word !== "");
      shown = rows.filter((row) => {
        const text = `${row.id} ${row.title} ${row.statement} ${row.kind} ${row.paper}`.toLowerCase();
        return (state.text("kind") === "" || row.kind === state.text("kind")) && words.every((word) => text.includes(word));
      });
      const name = shown.map((row) => row.id).join();
      if (name !== listed) {
        listed = name;
        places.clear();
        cards.replaceChildren(...shown.map(card));
      }
      for (const row of shown) present(row.id);
      const chosen = state.text("id");
      if (chosen !== "" && !found.has(chosen) && rows.some((row) => row.id === chosen)) {
        await measure(chosen);
        cards.querySelector(`[data-row="${CSS.escape(chosen)}"]`)?.scrollIntoView({ block: "center" });
      }
      tell();
    });
  },
};
