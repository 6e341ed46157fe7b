// The page "gradients".

import { h } from "../dom";
import type { Comparison, Tensor } from "../engine";
import { button, slider } from "../kit/controls";
import { HeatMap, largestOf, matrixOf, short } from "../kit/heatmap";
import { Reorder } from "../kit/reorder";
import { breakIt, Page, panel } from "../page";
import cpp from "../../../../../docs/theorems/programs/grad-covector.cpp";
import python from "../../../../../docs/theorems/programs/grad-covector.py";

interface Answer {
  a: Tensor;
  b: Tensor;
  w: Tensor;
  moved: Tensor;
  gradient: Tensor;
  measured: Tensor;
  covector: Tensor;
  vector: Tensor;
  loss: number;
  moved_loss: number;
  as_covector: Comparison;
  as_weight: Comparison;
}

const rows = 6;
const columns = 8;
const range = (size: number) => Array.from({ length: size }, (_, i) => String(i + 1));

export const gradients: Page = {
  id: "gradients",
  name: "Gradients",
  hint: "a gradient is a covector",
  claim: "If a weight moves to W′ = A W B and the loss stays the same function, its gradient moves by the inverse transposes. For permutations and rotations these are A and B themselves: the gradient moves as the weight does.",
  gesture: "Drag rows and columns, turn, and then stretch. Three pictures: the gradient that the tape computes, the covector rule, and the rule of the weight.",
  tex: "W' = A W B,\\ L'(W') = L(A^{-1} W' B^{-1}) \\Rightarrow \\frac{\\partial L'}{\\partial W'} = A^{-\\top} \\frac{\\partial L}{\\partial W} B^{-\\top}",
  theorem: "grad-covector",
  defaults: { left: "3.1.0.5.2.4", right: "", turn: "0", stretch: "0" },
  matrices: ["signs"],
  words: [
    ["A, B", "what moves the rows and the columns of the weight W: here a permutation, then a rotation of neighbours, then a stretch"],
    ["A⁻ᵀ", "the transpose of the inverse; it is A itself where A is orthogonal, that is AᵀA = I"],
    ["L′", "the same loss as a function of the moved weight: L′(W′) = L(W)"],
    ["covector", "what measures a change of W, as a gradient does; it moves by inverse transposes"],
    ["tape", "the library's record of the forward pass, from which it computes gradients"],
  ],
  exercise: {
    question: "With a stretch, one step of gradient descent in the new coordinates is another step than in the old ones. With B = I, is there any A that is not orthogonal for which A and its inverse transpose move every gradient in the same way? And with B free?",
    answer: "No: A G = A⁻ᵀ G for every G gives A = A⁻ᵀ, that is AᵀA = I. With B free, A may be c Q and B may be R / c for orthogonal Q and R: the factors cancel. Elementwise nonlinear functions (GELU, softmax's exponential) allow fewer: of the orthogonal maps, those that they commute with. These are the permutations, and with odd functions signs as well.",
  },
  programs: [
    { language: "C++", path: "docs/theorems/programs/grad-covector.cpp", text: cpp },
    { language: "Python", path: "docs/theorems/programs/grad-covector.py", text: python },
  ],
  build(room) {
    const left = new Reorder({ noun: "row", labels: range(rows), direction: "down", onChange: (order) => room.change({ left: order }) });
    const right = new Reorder({ noun: "column", labels: range(columns), direction: "across", onChange: (order) => room.change({ right: order }) });
    const map = new HeatMap({ title: "A", cell: 20 });
    const other = new HeatMap({ title: "B", cell: 20 });
    const weight = new HeatMap({ title: "W", cell: 22 });
    const moved = new HeatMap({ title: "W′ = A W B", cell: 22 });
    const gradient = new HeatMap({ title: "dL/dW", cell: 22 });
    const measured = new HeatMap({ title: "dL′/dW′, by the tape", cell: 22 });
    const covector = new HeatMap({ title: "A⁻ᵀ (dL/dW) B⁻ᵀ", cell: 22 });
    const vector = new HeatMap({ title: "A (dL/dW) B", cell: 22 });
    const asCovector = room.verdict("covector", "dL′/dW′ = A⁻ᵀ (dL/dW) B⁻ᵀ: gradients are covectors");
    const asWeight = room.verdict("weight", "dL′/dW′ = A (dL/dW) B: gradients move as the weights do");
    const loss = h("p", { class: "gesture" });
    const degrees = (value: number) => `${Math.round((value * 180) / Math.PI)}°`;
    room.stage.append(
      panel(
        "The move",
        h("div", { class: "row" }, left.element, h("div", { class: "grow" }, h("p", { class: "gesture" }, "Columns:"), right.element, h("div", { class: "row" }, map.element, other.element))),
        h("div", { class: "controls" }, room.quantity("turn", (change) => slider("Rotation of neighbouring rows and columns", { least: 0, most: 1.5, step: 0.05, text: degrees }, change))),
      ),
      panel("The weight and its gradient", h("div", { class: "row" }, weight.element, gradient.element, moved.element), h("div", { class: "row" }, measured.element, covector.element, vector.element), loss),
      h(
        "div",
        { class: "stage wide-two" },
        breakIt(
          room,
          "Scale the rows and columns: the covector rule stays true, the rule of the weight breaks.",
          room.quantity("stretch", (change) => slider("Stretch", { least: 0, most: 3, step: 0.1, text: (value) => value.toFixed(1) }, change)),
          button("Stretch by 1", () => room.change({ stretch: 1 })),
        ),
        panel("Both rules", room.verdicts),
      ),
    );
    room.onChange(async () => {
      const { state } = room;
      const [p, q] = [state.order("left", rows), state.order("right", columns)];
      left.set(p);
      right.set(q);
      const answer = await room.ask<Answer>({ ask: "gradients", rows, columns, left: p, right: q, turn: state.number("turn", 0, 1.6), stretch: state.number("stretch", 0, 4) });
      map.update(matrixOf(answer.a));
      other.update(matrixOf(answer.b));
      weight.update(matrixOf(answer.w));
      moved.update(matrixOf(answer.moved));
      gradient.update(matrixOf(answer.gradient));
      const largest = Math.max(largestOf(matrixOf(answer.measured)), largestOf(matrixOf(answer.vector)));
      measured.update({ ...matrixOf(answer.measured), largest });
      covector.update({ ...matrixOf(answer.covector), largest });
      vector.update({ ...matrixOf(answer.vector), largest });
      loss.textContent = `The loss is ${short(answer.loss)} before and ${short(answer.moved_loss)} after.`;
      asCovector.update(answer.as_covector);
      asWeight.update(answer.as_weight);
    });
  },
};
