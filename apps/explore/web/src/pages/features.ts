// The page "features".

import { h } from "../dom";
import type { Comparison, Tensor } from "../engine";
import { button, choice, menu } from "../kit/controls";
import { HeatMap, largestOf, matrixOf, HeatMapData } from "../kit/heatmap";
import { Reorder } from "../kit/reorder";
import { breakIt, Page, panel } from "../page";
import { precisions } from "./tokens";
import cpp from "../../../../../docs/theorems/programs/thm4.5.cpp";
import python from "../../../../../docs/theorems/programs/thm4.5.py";

interface Weight {
  name: string;
  before: Tensor;
  after: Tensor;
  gradient: Tensor;
  moved_gradient: Tensor;
  groups: string[];
  backward: Comparison;
}
interface Answer {
  z: Tensor;
  moved: Tensor;
  moved_output: Tensor;
  expected: Tensor;
  forward: Comparison;
  keeps_heads: boolean;
  weights: Weight[];
  permutations: Record<string, number[]>;
}

const dim = 8;
const names = Array.from({ length: dim }, (_, i) => String.fromCharCode(97 + i));

/** A vector is drawn as one row, and its only axis is the columns. */
function placed(data: HeatMapData, groups: string[], permutations: Record<string, number[]>): HeatMapData {
  const ids = (group: string | undefined) => (group === undefined ? undefined : permutations[group]);
  return groups.length > 1 ? { ...data, rowIds: ids(groups[0]), columnIds: ids(groups[1]) } : { ...data, columnIds: ids(groups[0]) };
}

export const features: Page = {
  id: "features",
  name: "Features",
  hint: "columns move, if the weights move along",
  claim: "Permute the features and nothing works any more, until the weights are moved along: then outputs and gradients are the old ones, in the new order.",
  gesture: "Drag a feature left or right, or use the arrow keys; then choose how the weights follow.",
  tex: "\\frac{\\partial l}{\\partial W_{(C)}} = P_C^{-1} \\frac{\\partial l}{\\partial W} P_C",
  theorem: "thm4.5",
  defaults: { order: "4.6.5.7.1.0.2.3", weights: "decoupled", weight: "attention.qkv.weight", precision: "f64" },
  matrices: ["signs"],
  words: [
    ["P, P_C", "a permutation of the columns; Z P is the input with its features in your order"],
    ["l, W_(C)", "the loss, and a weight moved along: its rows and columns follow the features on either side of it"],
    ["inner axes", "features inside attention (of queries, keys, values) and inside the small network; nobody outside sees them"],
    ["apart, stay, tied", "inner axes follow a permutation of their own, drawn at random; none; or the one of the outer features"],
    ["head", "attention works in 2 groups of 4 inner features that do not mix"],
    ["qkv, proj, fc1, fc2", "weights that make queries, keys and values; attention's output; the small network's two layers"],
    ["exact sums", "sums that do not depend on the order of their terms: both sides then have the same bits"],
    ["other bits", "numbers that are not the same in each binary digit; where two sides are equal up to rounding, rounding explains it"],
  ],
  exercise: {
    question: "Choose “tied”: attention's inner features follow by the same permutation. The block has 2 heads of 4 features. Find an order for which tied weights fail, and say which orders work.",
    answer: "Tied weights work if and only if every head's features stay together in one head: heads may change places, and features may change places within a head. Exchange one feature of the first half with one of the second (d and e, say) and the heads are mixed. Those orders need inner axes that are not tied: apart, or staying.",
  },
  programs: [
    { language: "C++", path: "docs/theorems/programs/thm4.5.cpp", text: cpp },
    { language: "Python", path: "docs/theorems/programs/thm4.5.py", text: python },
  ],
  build(room) {
    const list = new Reorder({ noun: "feature", labels: names, direction: "across", onChange: (order) => room.change({ order }) });
    const input = new HeatMap({ title: "Z P, what enters" });
    const output = new HeatMap({ title: "the block's output" });
    const expected = new HeatMap({ title: "Enc(Z) P, what it should be" });
    const before = new HeatMap({ title: "before", cell: 15 });
    const after = new HeatMap({ title: "after", cell: 15 });
    const gradient = new HeatMap({ title: "its gradient in the plain run", cell: 15 });
    const moved = new HeatMap({ title: "its gradient in the permuted run", cell: 15 });
    const forward = room.verdict("forward", "Forward: Enc'(Z P) = Enc(Z) P");
    const backward = room.verdict("backward", "Backward: this weight's gradient moves as the weight does");
    const heads = h("p", { class: "gesture" });
    const gradients = h("ul", { class: "chips", "aria-label": "Gradients of all weights" });
    const every = h("summary", {});
    const weightMenu = h("div", {});
    room.stage.append(
      panel(
        "Four tokens of eight features",
        h("div", { class: "sorter" }, list.element, button("First order", () => room.change({ order: "" }))),
        h("div", { class: "row" }, input.element, output.element, expected.element),
      ),
      panel("One weight, moved along", weightMenu, h("div", { class: "row" }, before.element, after.element, gradient.element, moved.element)),
      h(
        "div",
        { class: "stage wide-two" },
        breakIt(
          room,
          "Leave the weights; or tie the inner axes, in an order that mixes heads.",
          room.word("weights", (change) =>
            choice("The weights", [["decoupled", "follow, inner axes apart"], ["residual", "follow, inner axes stay"], ["tied", "follow, inner axes tied"], ["plain", "stay as they were"]], change)),
        ),
        panel("Both sides", room.verdicts, heads, h("details", {}, every, gradients), room.word("precision", (change) => choice("Numbers", precisions, change))),
      ),
    );
    let known = "";
    room.onChange(async () => {
      const { state } = room;
      const order = state.order("order", dim);
      list.set(order);
      const precision = state.oneOf("precision", ["f64", "f32", "exact"]);
      const answer = await room.ask<Answer>({ ask: "features", dim, heads: 2, order, precision, weights: state.oneOf("weights", ["plain", "residual", "tied", "decoupled"]) });
      const all = answer.weights.map((weight) => weight.name);
      const weight = answer.weights[Math.max(0, all.indexOf(state.text("weight")))] as Weight;
      if (known !== all.join()) {
        known = all.join();
        weightMenu.replaceChildren(room.word("weight", (change) => menu("Parameter", all.map((name): [string, string] => [name, name]), change)));
        const select = weightMenu.querySelector("select");
        if (select) select.value = weight.name;
      }
      const columns = { columnIds: order, columnLabels: order.map((i) => names[i] as string) };
      input.update({ ...matrixOf(answer.moved), ...columns });
      const largest = Math.max(largestOf(matrixOf(answer.moved_output)), largestOf(matrixOf(answer.expected)));
      output.update({ ...matrixOf(answer.moved_output), ...columns, largest });
      expected.update({ ...matrixOf(answer.expected), ...columns, largest });
      before.update(matrixOf(weight.before));
      after.update(placed(matrixOf(weight.after), weight.groups, answer.permutations));
      gradient.update(matrixOf(weight.gradient));
      moved.update(placed(matrixOf(weight.moved_gradient), weight.groups, answer.permutations));
      forward.update(answer.forward, precision === "exact");
      backward.restate(`Backward: the gradient of ${weight.name} moves as the weight does`);
      backward.update(weight.backward, precision === "exact");
      heads.textContent = answer.keeps_heads ? "This order keeps each head's features together." : "This order mixes the features of different heads.";
      const agree = answer.weights.filter((one) => one.backward.holds).length;
      every.textContent = `The gradients of ${agree === all.length ? "all" : `${agree} of`} ${all.length} parameters move along`;
      gradients.replaceChildren(...answer.weights.map((one) => h("li", { class: `chip ${one.backward.holds ? "holds" : "fails"}` }, one.name, h("span", { class: "unseen" }, one.backward.holds ? " agrees" : " differs"))));
    });
  },
};
