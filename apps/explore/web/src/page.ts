// Lays out a page: claim, gesture, picture, verdicts, "break it", exercise, code.

import formulas from "formulas";
import { button, type Control } from "./kit/controls";
import { code, Program } from "./kit/code";
import { Verdict } from "./kit/verdict";
import { h, markup, withSigns } from "./dom";
import { Comparison, Engine, Json, Latest } from "./engine";
import { Fields, State } from "./state";

export interface Page {
  id: string;
  name: string;
  /** A few words for the list of pages. */
  hint: string;
  claim: string;
  gesture: string;
  /** TeX of a row of the catalogue. */
  tex?: string;
  /** Page of docs/theorems. */
  theorem?: string;
  defaults: Fields;
  /** Signs and words that the page uses. */
  words: [word: string, meaning: string][];
  /** The colours of its matrices: of both signs, of shares from 0 up. */
  matrices: ("signs" | "shares")[];
  exercise: { question: string; answer: string };
  programs: Program[];
  build(room: Room): void;
}

/** The formula as MathML, which was rendered when the page was built. */
export function formula(tex: string): HTMLElement | null {
  const rendered = formulas[tex];
  if (rendered === undefined) return null;
  const element = markup(rendered);
  element.className = "formula";
  // What scrolls can be reached by the keyboard.
  element.tabIndex = 0;
  element.setAttribute("role", "math");
  element.setAttribute("aria-label", tex);
  return element;
}

/** What a page is built in. */
export class Room {
  readonly stage = h("div", { class: "stage" });
  readonly verdicts = h("div", { class: "verdicts" });
  readonly breaks = h("div", { class: "controls" });
  readonly problem = h("div", { class: "problem", role: "alert" });
  readonly busy = h("p", { class: "gesture busy", role: "status" });
  private shown: Verdict[] = [];
  private latest = new Latest();
  private listeners: (() => void)[] = [];
  /** Aborted when the reader leaves the page. */
  readonly left = new AbortController();
  private broken: string | null = null;

  constructor(readonly engine: Engine, readonly state: State) {}

  get open(): boolean {
    return !this.left.signal.aborted;
  }

  verdict(name: string, claim: string): Verdict {
    const verdict = new Verdict(name, claim);
    verdict.clear("computing …");
    this.shown.push(verdict);
    this.verdicts.append(verdict.element);
    return verdict;
  }

  private bind<T extends string | number | boolean>(field: string, read: (text: string) => T, make: (change: (value: T) => void) => Control<T>): HTMLElement {
    const control = make((value) => this.change({ [field]: value }));
    const show = () => control.set(read(this.state.text(field)));
    this.listeners.push(show);
    show();
    return control.element;
  }

  /** A control that shows and sets a word of the state. */
  word(field: string, make: (change: (value: string) => void) => Control<string>): HTMLElement {
    return this.bind(field, String, make);
  }
  /** A control that shows and sets a switch of the state. */
  flag(field: string, make: (change: (value: boolean) => void) => Control<boolean>): HTMLElement {
    return this.bind(field, (text) => text === "1", make);
  }
  /** A control that shows and sets a number of the state. */
  quantity(field: string, make: (change: (value: number) => void) => Control<number>): HTMLElement {
    return this.bind(field, Number, make);
  }

  /** Called with every change of the state: shows it and asks again. */
  onChange(refresh: () => Promise<void> | void): void {
    this.listeners.push(() => this.run(async () => refresh()));
  }

  change(changes: Record<string, string | number | boolean | number[]>): void {
    this.state.set(changes);
    this.show();
  }

  show(): void {
    for (const listener of this.listeners) listener();
  }

  /** Runs what asks the engine; only the newest of several runs. Says an error in the page. */
  run(job: () => Promise<void>): void {
    this.latest.run(async () => {
      if (this.open) await this.guard(job);
    });
  }

  /** Runs a job and says its error. `silent`: it shows its own progress. */
  async guard(job: () => Promise<void>, silent = false): Promise<void> {
    const waiting = silent ? 0 : setTimeout(() => (this.busy.textContent = "Computing …"), 400);
    try {
      await job();
      this.say("");
    } catch (error) {
      // What was computed before belongs to another question.
      for (const verdict of this.shown) verdict.clear();
      this.say(error instanceof Error ? error.message : String(error));
    } finally {
      clearTimeout(waiting);
      this.busy.textContent = "";
    }
  }

  say(text: string): void {
    if (this.broken === text) return;
    this.broken = text;
    this.problem.textContent = text === "" ? "" : `${text[0]?.toUpperCase()}${text.slice(1)}`;
  }

  ask<T>(question: { ask: string; [field: string]: Json }): Promise<T> {
    return this.engine.ask<T>(question);
  }
}

export type { Comparison };

/** What the colours of a page's matrices mean. */
function colours(kinds: Page["matrices"]): HTMLElement | null {
  if (kinds.length === 0) return null;
  const swatch = (kind: string) => h("span", { class: `swatch ${kind}` });
  return h(
    "span",
    { class: "key" },
    " Colours: ",
    ...(kinds.includes("signs") ? [swatch("low"), "negative, ", swatch("high"), "positive"] : []),
    kinds.length > 1 ? ", " : "",
    ...(kinds.includes("shares") ? [swatch("share"), "a share from 0 up"] : []),
    "; full where a picture's largest number is.",
  );
}

/** Fills `main` with the page. */
export function render(page: Page, main: HTMLElement, engine: Engine, given: Fields, around: { before: Page | undefined; after: Page | undefined }): Room {
  const room = new Room(engine, new State(page.id, page.defaults, given));
  page.build(room);
  // The panels that a column beside them spans, on wide screens.
  room.stage.style.setProperty("--rows", String(Math.max(1, room.stage.children.length - 1)));
  const link = h("output", { class: "quiet" });
  const copy = button("Copy a link to what you see", () => {
    void navigator.clipboard?.writeText(location.href).then(
      () => (link.textContent = "Copied."),
      () => (link.textContent = location.href),
    );
  });
  const to = (other: Page | undefined, arrow: string) =>
    other ? h("a", { href: `#${other.id}` }, arrow === "←" ? `← ${other.name}` : `${other.name} →`) : h("span", {});
  main.replaceChildren(
    h("h1", {}, page.name),
    h("p", { class: "claim" }, page.claim),
    ...(page.tex === undefined ? [] : [formula(page.tex) ?? ""]),
    h("p", { class: "gesture" }, page.gesture, colours(page.matrices)),
    h("details", { class: "words-list" }, h("summary", {}, "Words and signs on this page"), h("dl", {}, ...page.words.flatMap(([word, meaning]) => [h("dt", {}, ...withSigns(word)), h("dd", {}, ...withSigns(meaning))]))),
    room.problem,
    room.busy,
    room.stage,
    h(
      "div",
      { class: "after" },
      h("details", { class: "exercise" }, h("summary", {}, "Exercise"), h("p", {}, ...withSigns(page.exercise.question)), h("details", {}, h("summary", {}, "Answer"), h("p", {}, ...withSigns(page.exercise.answer)))),
      code(page.programs),
      h("details", {}, h("summary", {}, "Link"), h("p", {}, "The address of this page holds everything that you set."), h("div", { class: "controls" }, copy, link)),
      h("nav", { class: "neighbours", "aria-label": "Neighbouring pages" }, to(around.before, "←"), to(around.after, "→")),
    ),
  );
  room.show();
  return room;
}

/** The panel of what breaks the claim. */
export function breakIt(room: Room, sentence: string, ...controls: HTMLElement[]): HTMLElement {
  room.breaks.replaceChildren(...controls);
  return h("section", { class: "panel break" }, h("h2", {}, "Break it"), h("p", {}, sentence), room.breaks);
}

export function panel(title: string, ...children: (Node | string)[]): HTMLElement {
  return h("section", { class: "panel" }, h("h2", {}, title), ...children);
}
