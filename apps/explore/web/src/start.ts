// The first page: the claim, a picture that can be touched, and three ways on.

import { h } from "./dom";
import type { Comparison, Engine, Tensor } from "./engine";
import { setHall } from "./hall";
import { button, toggle } from "./kit/controls";
import { HeatMap, largestOf, matrixOf } from "./kit/heatmap";
import { Reorder } from "./kit/reorder";
import { panel, Room } from "./page";
import { State } from "./state";

interface Answer {
  moved_scores: Tensor;
  moved_output: Tensor;
  expected: Tensor;
  forward: Comparison;
  backward: Comparison;
  weights: Comparison & { name: string };
}

const words = ["the", "small", "cat", "saw", "a", "bird"];

/** Fills `main`. */
export function welcome(main: HTMLElement, engine: Engine, given: Record<string, string>): Room {
  const room = new Room(engine, new State("start", { order: "", positions: "0" }, given));
  const { state } = room;
  const list = new Reorder({ noun: "word", labels: words, direction: "across", onChange: (order) => room.change({ order }) });
  const scores = new HeatMap({ title: "who looks at whom", colours: "sequential" });
  const output = new HeatMap({ title: "output of your order" });
  const expected = new HeatMap({ title: "first output, rows moved" });
  const forward = room.verdict("forward", "Reordering before the block is reordering after it");
  const backward = room.verdict("backward", "The gradient of a loss to the words is reordered, too");
  const weights = room.verdict("weights", "The gradients of the weights stay");
  room.stage.append(
    panel(
      "Drag a word",
      h("div", { class: "sorter" }, list.element),
      h("div", { class: "row" }, output.element, expected.element, scores.element),
      h("div", { class: "controls after-row" }, room.flag("positions", (change) => toggle("break it: tell the block each word’s place", change)), button("Reverse", () => room.change({ order: [...state.order("order", words.length)].reverse() }))),
      room.verdicts,
    ),
  );
  const way = (name: string, text: string, ...links: HTMLElement[]) => h("li", {}, h("h2", {}, name), h("p", {}, text), ...links);
  const link = (to: string, text: string) => h("a", { class: "button", href: `#${to}` }, text);
  main.replaceChildren(
    h(
      "div",
      { class: "start" },
      h("div", {}, h("h1", {}, "Transformers commute with permutations"), h("p", { class: "claim" }, "Reorder the tokens, and every output and the gradient of every word is reordered the same way; the weights’ gradients stay. All of it is computed on this page as you drag.")),
      room.problem,
      room.stage,
      h(
        "ul",
        { class: "ways" },
        way("To understand it", "Nine pages in the order of a course. Each has one claim, a way to break it, and an exercise with its answer.", link("tokens", "Begin the tour")),
        way("To teach it", "Large letters, large matrices, few words, for a projector. Links keep whatever you have set up. Alt+P switches it, in a window at least 1024 pixels wide.", button("Projector size", () => {
          setHall(true);
          location.hash = "#tokens";
        }, "needs-hall")),
        way("To use it", "Drop a model folder: its symmetries are read off, the theorems checked on its weights. Nothing leaves this page.", link("yours", "Open your model")),
      ),
    ),
  );
  room.onChange(async () => {
    const order = state.order("order", words.length);
    list.set(order);
    const answer = await room.ask<Answer>({ ask: "tokens", tokens: words.length, dim: 8, heads: 2, precision: "exact", order, positions: state.flag("positions") });
    const rows = { rowIds: order, rowLabels: order.map((i) => words[i] as string) };
    scores.update({ ...matrixOf(answer.moved_scores), ...rows, columnIds: order, columnLabels: rows.rowLabels });
    const largest = Math.max(largestOf(matrixOf(answer.moved_output)), largestOf(matrixOf(answer.expected)));
    output.update({ ...matrixOf(answer.moved_output), ...rows, largest });
    expected.update({ ...matrixOf(answer.expected), ...rows, largest });
    forward.update(answer.forward, true);
    backward.update(answer.backward, true);
    weights.update(answer.weights, true);
  });
  room.show();
  return room;
}
