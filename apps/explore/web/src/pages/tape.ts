// The page "tape".

import { h } from "../dom";
import type { Comparison, Tensor } from "../engine";
import { button, choice, slider } from "../kit/controls";
import { HeatMap, matrixOf, short } from "../kit/heatmap";
import { breakIt, Page, panel } from "../page";
import cpp from "../../../../../examples/01_first_gradient.cpp";
import python from "../../code/tape.py";

interface Entry {
  op: string;
  math: string;
  inputs: string[];
  output: string;
  value: Tensor | null;
  cotangent: Tensor | null;
  backward: number | null;
}
interface Leaf {
  name: string;
  value: Tensor | null;
  gradient: Tensor | null;
}
interface Answer {
  functions: string[];
  leaves: Leaf[];
  entries: Entry[];
  loss: number | null;
  slope: { error: number | null; by_tape: number | null; measured: number | null; holds: boolean; unknown: boolean } | null;
}

export const tape: Page = {
  id: "tape",
  name: "Tape",
  hint: "the backward pass, step by step",
  claim: "Reverse mode: the forward pass records its operations on a tape; the backward pass reads the tape from the end, and turns each output's cotangent into cotangents of the inputs.",
  gesture: "Write a program, then step through it with the slider: first forward, then backward. x, w, b and v are random: 3×4, 4×3, 3, and 3×3.",
  defaults: { of: "program", program: "h = gelu(x @ w + b)\ny = sum(h * h * v)", step: "0", lost: "0" },
  matrices: ["signs"],
  words: [
    ["@", "a matrix product; * multiplies element by element"],
    ["cotangent", "of a value: how the loss changes with each of its numbers, dL/d(value)"],
    ["leaf", "a tensor that nobody computed: x, w, b, v; their cotangents are the gradients"],
    ["slope", "the change of the loss along a random direction of all leaves"],
  ],
  exercise: {
    question: "Write a program in which x is used twice, for example y = sum(x * x). The rule of mul gives two cotangents to x. What does the tape do with them? Read it off dL/dx. Then write one in which b gets the gradient 0.",
    answer: "It adds them: one is x times the output's cotangent, and so is the other, which is why the gradient of x * x is 2 x. b has the gradient 0 in a program that does not depend on it, such as y = sum(x @ w + b - b), where two cotangents cancel, or one that does not name it.",
  },
  programs: [
    { language: "C++", path: "examples/01_first_gradient.cpp", text: cpp },
    { language: "Python", path: "apps/explore/web/code/tape.py", text: python },
  ],
  build(room) {
    const { state } = room;
    const program: HTMLTextAreaElement = h("textarea", { id: "program", rows: 5, spellcheck: "false", input: () => room.change({ program: program.value, step: 0, lost: 0 }) });
    const functions = h("p", { class: "gesture" });
    const entries = h("ol", { class: "entries", "aria-label": "Tape" });
    const value = new HeatMap({ title: "value" });
    const cotangent = new HeatMap({ title: "cotangent, dL/d(this value)" });
    const about = h("p", { class: "gesture", role: "status" });
    const leaves = h("div", { class: "row" });
    const slope = room.verdict("slope", "The gradients are the loss's slope along a random direction, by central differences");
    let count = 1;
    const steps = slider("Step", { least: 0, most: 1, step: 1 }, (step) => room.change({ step }));
    const stepInput = steps.element.querySelector("input") as HTMLInputElement;
    const go = (by: number) => room.change({ step: Math.max(0, Math.min(2 * count, Number(state.text("step")) + by)) });
    const lose = button("Lose the cotangent of the chosen operation", () => {
      const step = Number(state.text("step"));
      const chosen = step === 0 ? count : step <= count ? step : 2 * count + 1 - step;
      room.change({ lost: Math.max(1, chosen) });
    });
    const none = button("Lose none", () => room.change({ lost: 0 }));
    room.stage.append(
      panel(
        "The program",
        room.word("of", (change) => choice("Record", [["program", "this program"], ["block", "one transformer block"]], (of) => {
          state.set({ step: 0, lost: 0 });
          change(of);
        })),
        h("div", { class: "field after", id: "program-field" }, h("label", { for: "program" }, "One assignment a line; the last value is the loss"), program),
        h("details", {}, h("summary", {}, "Functions"), functions),
      ),
      panel(
        "The tape",
        h("div", { class: "controls" }, button("Back", () => go(-1)), button("Step", () => go(1), "main"), steps.element),
        about,
        h("div", { class: "row" }, h("div", { class: "grow" }, entries), h("div", { class: "grow row" }, value.element, cotangent.element)),
      ),
      panel("The gradients at the end", leaves),
      h("div", { class: "stage wide-two" }, breakIt(room, "Lose one cotangent on its way back: the gradients that it feeds are wrong, unless it was zero.", lose, none), panel("Are they right?", room.verdicts)),
    );
    room.onChange(async () => {
      const of = state.oneOf("of", ["program", "block"]);
      if (program.value !== state.text("program")) program.value = state.text("program");
      (room.stage.querySelector("#program-field") as HTMLElement).hidden = of === "block";
      const lost = state.whole("lost", 0, 200);
      // What is said of a step belongs to a program that could be read.
      about.textContent = "";
      none.disabled = lost === 0;
      const answer = await room.ask<Answer>({ ask: "tape", of, program: state.text("program"), lost });
      functions.textContent = `+ - * / @ ( ), numbers, and ${answer.functions.join(", ")}`;
      count = answer.entries.length;
      stepInput.max = String(2 * count);
      const step = state.whole("step", 0, 2 * count);
      steps.set(step);
      // Steps 1..count record; count+1..2 count read the tape from its end.
      const forward = Math.min(step, count);
      const backward = Math.max(0, step - count);
      const current = step === 0 ? -1 : step <= count ? step - 1 : 2 * count - step;
      const chosen = answer.entries[current];
      entries.replaceChildren(
        ...answer.entries.map((entry, i) =>
          h("li", {}, h("button", {
            type: "button", class: `${i === current ? "current" : ""} ${backward > 0 && i >= count - backward && entry.cotangent ? "done" : ""}`,
            "aria-current": i === current ? "step" : null,
            click: () => room.change({ step: backward > 0 ? 2 * count - i : i + 1 }),
          }, h("span", {}, `${entry.output} = ${entry.op}(${entry.inputs.filter((name) => name !== "").join(", ")})`), i + 1 === lost ? h("strong", {}, "lost") : null)),
        ),
      );
      (entries.children[current] as HTMLElement | undefined)?.scrollIntoView({ block: "nearest" });
      if (step === 0) about.textContent = `${count} ${count === 1 ? "operation is" : "operations are"} recorded. The loss is ${answer.loss === null ? "not finite" : short(answer.loss)}.`;
      else if (backward === 0) about.textContent = `Forward, ${forward} of ${count}: ${chosen?.op}${chosen?.math ? `, ${chosen.math}` : ""}.`;
      else about.textContent = `Backward, ${backward} of ${count}: ${chosen?.op}'s rule takes the cotangent of ${chosen?.output} and adds to those of ${[...new Set(chosen?.inputs ?? [])].filter((name) => name !== "").join(", ")}.`;
      value.element.hidden = !chosen?.value;
      if (chosen?.value) value.update(matrixOf(chosen.value));
      cotangent.element.hidden = !(backward > 0 && chosen?.cotangent);
      if (backward > 0 && chosen?.cotangent) cotangent.update(matrixOf(chosen.cotangent));
      leaves.replaceChildren(
        ...answer.leaves.filter((leaf) => leaf.gradient).map((leaf) => {
          const map = new HeatMap({ title: `dL/d${leaf.name}`, cell: of === "block" ? 14 : 24 });
          map.update(matrixOf(leaf.gradient as Tensor));
          return map.element;
        }),
      );
      lose.disabled = step === 0;
      if (!answer.slope) {
        slope.clear("the loss depends on no leaf");
        return;
      }
      const digits = (value: number | null) => (value === null ? "not finite" : value.toPrecision(8));
      const both = `${digits(answer.slope.by_tape)} by the tape, ${digits(answer.slope.measured)} by differences`;
      if (answer.slope.unknown) {
        slope.clear("differences cannot judge this program", both);
        return;
      }
      const comparison: Comparison = { error: answer.slope.error, differing: 1, of: 1, holds: answer.slope.holds };
      slope.update(comparison);
      slope.element.querySelector(".detail")?.replaceChildren(both);
    });
  },
};
