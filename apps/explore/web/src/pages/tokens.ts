// The page "tokens".

import { h } from "../dom";
import type { Comparison, Tensor } from "../engine";
import { button, choice, toggle } from "../kit/controls";
import { HeatMap, largestOf, matrixOf } from "../kit/heatmap";
import { Reorder } from "../kit/reorder";
import { breakIt, Page, panel } from "../page";
import cpp from "../../../../../docs/theorems/programs/thm4.1.cpp";
import python from "../../../../../docs/theorems/programs/thm4.1.py";

interface Answer {
  stages: (Comparison & { name: string })[];
  broken_at: string | null;
  z: Tensor;
  moved: Tensor;
  moved_output: Tensor;
  expected: Tensor;
  scores: Tensor;
  moved_scores: Tensor;
  gradient: Tensor;
  moved_gradient: Tensor;
  forward: Comparison;
  backward: Comparison;
  weights: Comparison & { name: string };
}

const words = ["the", "small", "cat", "saw", "a", "bird"];

export const precisions: [string, string][] = [["f64", "float64"], ["f32", "float32"], ["exact", "exact sums"]];

export const tokens: Page = {
  id: "tokens",
  name: "Tokens",
  hint: "rows move, and everything moves along",
  claim: "A transformer block does not know the order of its tokens: permute the rows of its input, and the rows of its output are permuted the same way.",
  gesture: "Drag a word up or down, or focus it and press the arrow keys. Outputs and gradients are computed anew with every move.",
  tex: "\\mathrm{Enc}(P_R Z) = P_R\\, \\mathrm{Enc}(Z)",
  theorem: "thm4.1",
  defaults: { order: "2.0.1.5.3.4", precision: "f64", positions: "0", causal: "0", rotary: "0", scaled: "0" },
  matrices: ["signs", "shares"],
  words: [
    ["Z", "the input: a row for each token, a column for each feature"],
    ["P, P_R", "a permutation of the rows; P Z is the input with its rows in your order"],
    ["Enc", "a transformer block: attention and a small network for each token, with layer norms"],
    ["S", "attention's shares: row i says how much token i takes from each token"],
    ["L, dL/dZ", "a loss, one number made of the outputs, and its gradient: how L changes with each number of Z"],
    ["exact sums", "sums that do not depend on the order of their terms: both sides then have the same bits"],
    ["other bits", "numbers that are not the same in each binary digit; where two sides are equal up to rounding, rounding explains it"],
  ],
  exercise: {
    question: "Switch the causal mask on. Which orders of the six tokens, besides the order of the sentence (“Sentence order”), still give the same outputs, permuted?",
    answer: "None besides the order of the sentence. A causal mask has a first token that sees one token, a second that sees two, and so on: a permutation that keeps the mask keeps these counts, so it keeps every token. The page “Masks” computes the group of any mask.",
  },
  programs: [
    { language: "C++", path: "docs/theorems/programs/thm4.1.cpp", text: cpp },
    { language: "Python", path: "docs/theorems/programs/thm4.1.py", text: python },
  ],
  build(room) {
    const list = new Reorder({ noun: "token", labels: words, direction: "down", onChange: (order) => room.change({ order }) });
    const plainInput = new HeatMap({ title: "Z, in the order of the sentence", cell: 20 });
    const input = new HeatMap({ title: "P Z, what enters", cell: 20 });
    const scores = new HeatMap({ title: "S, who attends to whom (head 1)", colours: "sequential", cell: 20 });
    const output = new HeatMap({ title: "Enc(P Z)", cell: 20 });
    const expected = new HeatMap({ title: "P Enc(Z)", cell: 20 });
    const gradient = new HeatMap({ title: "dL/d(P Z), computed", cell: 20 });
    const expectedGradient = new HeatMap({ title: "P dL/dZ", cell: 20 });
    const stages = h("ul", { class: "chips", "aria-label": "Where both passes agree" });
    const enters = h("summary", {});
    const steps = h("details", {}, enters, stages);
    const forward = room.verdict("forward", "Forward: Enc(P Z) = P Enc(Z)");
    const backward = room.verdict("backward", "Backward: dL/d(P Z) = P dL/dZ");
    const weights = room.verdict("weights", "Backward: the weights' gradients stay");
    room.stage.append(
      panel(
        "Six tokens of eight features",
        h(
          "div",
          { class: "sorted" },
          h("div", { class: "sorter" }, list.element, button("Sentence order", () => room.change({ order: "" })), button("Reverse", () => room.change({ order: [5, 4, 3, 2, 1, 0] }))),
          h("div", { class: "row" }, plainInput.element, input.element, output.element, expected.element, gradient.element, expectedGradient.element, scores.element),
        ),
      ),
      h(
        "div",
        { class: "stage wide-two" },
        breakIt(
          room,
          "Let the block know where a token stands, and see where the difference enters.",
          room.flag("positions", (change) => toggle("add positions to the tokens", change)),
          room.flag("causal", (change) => toggle("causal mask: look back alone", change)),
          room.flag("rotary", (change) => toggle("rotary positions in attention", change)),
          room.flag("scaled", (change) => toggle("the second place is scaled by 1.6 (orders that leave “small” there stay allowed)", change)),
        ),
        panel("Both sides", room.verdicts, steps, h("div", { class: "controls" }, room.word("precision", (change) => choice("Numbers", precisions, change)))),
      ),
    );
    room.onChange(async () => {
      const { state } = room;
      const order = state.order("order", words.length);
      list.set(order);
      const precision = state.oneOf("precision", ["f64", "f32", "exact"]);
      const answer = await room.ask<Answer>({
        ask: "tokens", tokens: words.length, dim: 8, heads: 2, order, precision,
        positions: state.flag("positions"), causal: state.flag("causal"), rotary: state.flag("rotary"), scaled: state.flag("scaled"),
      });
      const rowLabels = order.map((i) => words[i] as string);
      const rows = { rowIds: order, rowLabels };
      plainInput.update({ ...matrixOf(answer.z), rowLabels: words });
      input.update({ ...matrixOf(answer.moved), ...rows });
      scores.update({ ...matrixOf(answer.moved_scores), ...rows, columnIds: order, columnLabels: rowLabels });
      const both = Math.max(largestOf(matrixOf(answer.moved_output)), largestOf(matrixOf(answer.expected)));
      output.update({ ...matrixOf(answer.moved_output), ...rows, largest: both });
      expected.update({ ...matrixOf(answer.expected), ...rows, largest: both });
      gradient.update({ ...matrixOf(answer.moved_gradient), ...rows });
      const plain = matrixOf(answer.gradient);
      expectedGradient.update({ ...plain, at: (i, j) => plain.at(order[i] as number, j), ...rows });
      forward.update(answer.forward, precision === "exact");
      backward.update(answer.backward, precision === "exact");
      weights.restate(`Backward: the weights' gradients stay (the furthest apart: ${answer.weights.name})`);
      weights.update(answer.weights, precision === "exact");
      enters.textContent = answer.broken_at === null ? "Step by step: every one agrees" : `Step by step: the difference enters at “${answer.broken_at}”`;
      stages.replaceChildren(
        ...answer.stages.map((stage) => h("li", { class: `chip ${stage.holds ? "holds" : "fails"}` }, stage.name, h("span", { class: "unseen" }, stage.holds ? " agrees" : " differs"))),
      );
    });
  },
};
