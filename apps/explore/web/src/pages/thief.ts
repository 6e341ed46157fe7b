// The page "thief".

import { h } from "../dom";
import type { Tensor } from "../engine";
import { button, choice, slider, toggle } from "../kit/controls";
import { HeatMap, largestOf, matrixOf, short } from "../kit/heatmap";
import { Reorder } from "../kit/reorder";
import { breakIt, Page, panel } from "../page";
import cpp from "../../code/thief.cpp";
import python from "../../code/thief.py";

interface Group {
  name: string;
  found: number[];
  truth: number[];
  right: number;
}
interface Answer {
  seen: Tensor;
  known: Tensor;
  groups: Group[];
  right: number;
  of: number;
  log2_keys: number;
  ms: number;
  dragged: Tensor;
  misfit: number;
  least_misfit: number;
  places: number;
  undoing: number[];
}

const sights: [string, string][] = [
  ["weights", "the permuted weights"],
  ["gain", "one permuted gain"],
  ["pair", "one permuted input"],
  ["tokens", "tokens in secret order"],
];
const noises = [0, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 4];
const explained: Record<string, string> = {
  weights: "The model is public (a pretrained ViT, say), and the cloud holds its permuted copy. It compares rows and columns, group by group; drawn are the vectors, whose columns are the features.",
  gain: "The cloud compares the permuted gain of one normalisation with the public one: sorting both is enough where no two entries are equal.",
  pair: "The cloud knows one plain input and sees it permuted: columns that agree in both pictures give the key away.",
  tokens: "The cloud knows the embeddings and sees the tokens of a text in secret order: it matches each with its nearest embedding.",
};

/** Where each entry went: the order that the handles show. */
function inverse(places: number[]): number[] {
  const back: number[] = [];
  places.forEach((place, i) => (back[place] = i));
  return back;
}

export const thief: Page = {
  id: "thief",
  name: "Thief",
  hint: "be the cloud, and find the key",
  claim: "A permutation does not hide its key from somebody who knows what was permuted: however many keys there are, matching finds the right one in milliseconds, as long as no two columns are alike and the knowledge is good enough.",
  gesture: "You are the cloud. Drag what you see until it looks like what you know, and the misfit goes to 0: then you have undone the key. Or let the attack do it. Then make it harder: add noise to what the thief knows, or train the weights in secret.",
  defaults: { sees: "pair", noise: "0", secret: "0", guess: "", seed: "1" },
  matrices: ["signs"],
  words: [
    ["cloud", "who computes with permuted weights or data, and would like to know the plain ones"],
    ["key", "the secret permutations: of the features (residual), of values (v), of queries and keys (qkv), of the small network (hidden)"],
    ["gain", "the factors of a layer norm, one for each feature"],
    ["misfit", "the length of the difference between what you dragged and what the thief knows, over the latter's length; a thief can compute it without the key, and matching finds the order where it is least"],
    ["noise", "what is added to the thief's knowledge, relative to how much its entries vary"],
  ],
  exercise: {
    question: "With one public gain of 16 entries, how much noise (relative to the spread of its entries) breaks the attack? Compare with the attack on all weights. Why does the latter stand so much more?",
    answer: "Sorting may fail as soon as the noise exceeds the smallest gap between neighbouring entries. Of 16 entries there are 15 gaps of about 1/16 of the spread, and the smallest is about 1/16 of that: 0.01 breaks some keys, 0.05 most of them. The attack on all weights compares whole rows of many entries: the distance of a right pair is noise alone, that of a wrong pair is noise and the difference of two independent rows, and the more entries, the safer is the choice.",
  },
  programs: [
    { language: "C++", path: "apps/explore/web/code/thief.cpp", text: cpp },
    { language: "Python", path: "apps/explore/web/code/thief.py", text: python },
  ],
  build(room) {
    const seen = new HeatMap({ title: "what the cloud sees, in your order", cell: 30 });
    const known = new HeatMap({ title: "what the thief knows", cell: 30 });
    const handles = h("div", {});
    const score = h("p", { role: "status", "data-misfit": "" });
    let list: Reorder | null = null;
    let listed = "";
    let undoing: number[] = [];
    const story = h("p", { class: "gesture" });
    const result = h("div", { class: "match" });
    const mark = h("span", { class: "mark", "aria-hidden": "true" });
    const words = h("span", { class: "words" });
    const detail = h("span", { class: "detail" });
    const verdict = h("div", { class: "verdict", role: "status", "data-verdict": "key" }, mark, h("span", { class: "claim" }, "The attack's key is the secret key"), h("span", { class: "line" }, words, h("span", { class: "tail" }, " · ", detail)));
    room.verdicts.append(verdict);
    room.stage.append(
      panel(
        "The cloud",
        h("div", { class: "controls" }, room.word("sees", (change) => choice("The cloud sees", sights, (sees) => {
          room.state.set({ guess: "" });
          change(sees);
        })), button("Another key", () => room.change({ guess: "", seed: (room.state.whole("seed", 0, 1_000_000) + 1) % 1_000_000 }))),
        story,
        h("div", { class: "stealing" }, handles, seen.element, known.element),
        score,
        h("div", { class: "controls" }, button("Let the attack do it", () => room.change({ guess: undoing }), "main"), button("As it was seen", () => room.change({ guess: "" }))),
      ),
      panel("The key, found by the attack", h("p", { class: "gesture" }, "At each place of what the thief knows: where the key has put it. Dragging to this order undoes the key."), result),
      h(
        "div",
        { class: "stage wide-two" },
        breakIt(
          room,
          "What would save the secret: a thief who knows little.",
          room.flag("secret", (change) => toggle("the weights and inputs are secret, too: the thief knows others", change)),
          room.quantity("noise", (change) => slider("Noise on what the thief knows", { least: 0, most: noises.length - 1, step: 1, text: (value) => String(noises[value]) }, change)),
        ),
        panel("Found by the attack?", room.verdicts),
      ),
    );
    room.onChange(async () => {
      const { state } = room;
      const sees = state.oneOf("sees", sights.map(([name]) => name));
      const rows = sees === "tokens";
      const count = rows ? 8 : 16;
      const guess = state.order("guess", count);
      const answer = await room.ask<Answer>({ ask: "thief", sees, noise: noises[state.whole("noise", 0, noises.length - 1)] as number, secret: state.flag("secret"), guess, seed: state.whole("seed", 0, 1_000_000) });
      story.textContent = explained[sees] ?? "";
      if (listed !== sees) {
        listed = sees;
        list = new Reorder({ noun: rows ? "token" : "column", labels: Array.from({ length: count }, (_, i) => String(i + 1)), direction: rows ? "down" : "across", onChange: (order) => room.change({ guess: order }) });
        handles.replaceChildren(list.element);
      }
      list?.set(guess);
      undoing = answer.undoing;
      const ids = rows ? { rowIds: guess } : { columnIds: guess };
      const largest = Math.max(largestOf(matrixOf(answer.seen)), largestOf(matrixOf(answer.known)));
      seen.update({ ...matrixOf(answer.dragged), ...ids, largest });
      known.update({ ...matrixOf(answer.known), largest });
      const least = answer.misfit <= answer.least_misfit * (1 + 1e-12);
      score.dataset["misfit"] = String(answer.misfit);
      score.replaceChildren(
        "Your misfit is ", h("strong", {}, short(answer.misfit)), least ? ", the least that there is" : `; the attack's is ${short(answer.least_misfit)}`,
        `. ${answer.places} of ${count} ${rows ? "tokens" : "columns"} stand where the key took them from.`,
      );
      const holds = answer.right === answer.of;
      verdict.classList.toggle("holds", holds);
      verdict.classList.toggle("fails", !holds);
      verdict.dataset["holds"] = String(holds);
      verdict.dataset["error"] = String(answer.of - answer.right);
      mark.textContent = holds ? "=" : "≠";
      words.textContent = holds ? "found, every place of it" : `${answer.right} of ${answer.of} places are right`;
      const space = sees === "weights" ? ["one of 2", h("sup", {}, answer.log2_keys.toFixed(0)), " keys, "] : [];
      detail.replaceChildren(...space, `in ${answer.ms < 0.1 ? "less than 0.1" : answer.ms < 10 ? answer.ms.toFixed(1) : answer.ms.toFixed(0)} ms`);
      result.replaceChildren(
        ...answer.groups.map((group) =>
          h(
            "div",
            {},
            h("p", { class: "gesture" }, h("code", {}, group.name), `: ${group.right} of ${group.found.length} places right`),
            h("div", { class: "keys" }, ...inverse(group.found).map((place, i) => h("span", { class: place === inverse(group.truth)[i] ? "right" : "wrong" }, String(place + 1)))),
          ),
        ),
      );
    });
  },
};
