// The page "two trainings".

import { h } from "../dom";
import type { Comparison } from "../engine";
import { button, choice, menu, slider } from "../kit/controls";
import { Chart } from "../kit/chart";
import { breakIt, Page, panel } from "../page";
import { precisions } from "./tokens";
import cpp from "../../../../../docs/theorems/programs/cor4.6.cpp";
import python from "../../../../../docs/theorems/programs/cor4.6.py";

interface Answer extends Record<"loss" | "twin_loss" | "drift" | "rounding", (number | null)[]> {
  steps: number;
  apart: Comparison;
  accuracy?: number;
  twin_accuracy?: number;
}

const groups: [string, string][] = [
  ["features", "features permuted, weights moved along"],
  ["tokens", "tokens permuted, anew for each picture and step"],
  ["both", "tokens and features permuted"],
  ["signs", "features with other signs"],
  ["rotation", "features rotated"],
  ["scaling", "values scaled, output scaled back"],
  ["uncoupled", "features permuted, weights not moved"],
];
const optimizers = ["adamw", "sgd", "momentum", "nesterov", "adam", "rmsprop", "lion", "adafactor", "muon"];

export const twins: Page = {
  id: "twins",
  name: "Two trainings",
  hint: "the same training in other coordinates",
  claim: "Train a vision transformer on permuted features from correspondingly permuted weights, and it stays the permuted image of the plain training: step for step, for each of the optimisers below.",
  gesture: "Start both trainings and watch the second loss lie on the first, and the distance stay where rounding alone would bring it. Then choose a rotation, and compare SGD with Adam.",
  tex: "W_{(C),0} = P_C^{-1} W_0 P_C \\Rightarrow W_{(C),t} = P_C^{-1} W_t P_C",
  theorem: "cor4.6",
  defaults: { group: "features", optimizer: "adamw", precision: "f64", rate: "0.001", vectors: "0", seed: "1" },
  matrices: [],
  words: [
    ["twin", "a second training on transformed tokens or features, from weights that were moved along"],
    ["distance", "the largest difference of the twin's weights and the plain training's moved weights, over the largest weight"],
    ["rounding alone", "a third training, begun with weights that are off by one rounding: how far apart equal trainings drift by themselves"],
    ["signs, rotated", "these twins use RMS norms with fixed gains, because a layer norm commutes with neither"],
    ["vectors", "Muon's rule is for matrices and leaves vectors, biases among them, to Adam, which follows no rotation; so the twin of a rotation with Muon has the biases of rotated features fixed, unless you train them"],
    ["P_C", "a permutation of the features"],
    ["W_t, W_(C)", "the weights after t steps; those of the training on permuted features"],
    ["exact sums", "sums that do not depend on the order of their terms: both sides then have the same bits"],
    ["other bits", "numbers that are not the same in each binary digit; where two sides are equal up to rounding, rounding explains it"],
  ],
  exercise: {
    question: "A rotation leaves the twin of Adam at once, and SGD keeps it. Which property of SGD's step is missing in Adam's? And why do signs work with both?",
    answer: "SGD's step is linear in the gradient, so an orthogonal map passes through it. Adam divides each element by its own running size: that commutes with maps which send elements to elements, up to a sign that the square forgets. These are the signed permutations.",
  },
  programs: [
    { language: "C++", path: "docs/theorems/programs/cor4.6.cpp", text: cpp },
    { language: "Python", path: "docs/theorems/programs/cor4.6.py", text: python },
  ],
  build(room) {
    const losses = new Chart("Loss of each step", false);
    const drift = new Chart("Distance of the twin's weights", true);
    const twin = room.verdict("twins", "The twin's weights are the moved weights");
    const figures = h("p", { class: "gesture" });
    const vectors = h("p", { class: "gesture" });
    const curves = { loss: [] as number[], twin_loss: [] as number[], drift: [] as number[], rounding: [] as number[] };
    let running = false;
    let started = "";
    let speed = 0;
    const settings = () => {
      const { state } = room;
      return {
        group: state.oneOf("group", groups.map(([name]) => name)),
        optimizer: state.oneOf("optimizer", optimizers),
        precision: state.oneOf("precision", ["f64", "f32", "exact"]),
        learning_rate: state.number("rate", 1e-6, 1),
        vectors: state.flag("vectors"),
        seed: state.whole("seed", 0, 1_000_000),
      };
    };
    const draw = () => {
      losses.update([{ name: "plain", kind: "plain", values: curves.loss }, { name: "twin", kind: "twin", values: curves.twin_loss }]);
      drift.update([{ name: "distance", kind: "drift", values: curves.drift }, { name: "rounding alone", kind: "plain", values: curves.rounding }]);
    };
    const start = async () => {
      const wanted = settings();
      const name = JSON.stringify(wanted);
      if (started === name) return;
      await room.ask({ ask: "twins.start", ...wanted });
      started = name;
      twin.clear("no step yet");
      figures.textContent = "";
      for (const list of Object.values(curves)) list.length = 0;
      draw();
    };
    const step = async (accuracy: boolean) => {
      await start();
      const began = performance.now();
      const answer = await room.ask<Answer>({ ask: "twins.step", steps: 1, accuracy });
      speed = 0.8 * speed + 0.2 * (1000 / Math.max(1, performance.now() - began));
      for (const name of ["loss", "twin_loss", "drift", "rounding"] as const) for (const value of answer[name]) curves[name].push(value ?? NaN);
      draw();
      if (answer.apart.unknown) twin.clear("rounding has taken over", "a training that began one rounding away is as far by now");
      else twin.update(answer.apart, settings().precision === "exact");
      const share = answer.accuracy === undefined ? "" : ` Test pictures classified right: plain ${(100 * answer.accuracy).toFixed(1)} %, twin ${(100 * (answer.twin_accuracy ?? 0)).toFixed(1)} % (chance is 10 %).`;
      figures.textContent = `${answer.steps === 1 && !running ? "Step 1, taken so that there is something to compare" : `Step ${answer.steps}`}.${running ? ` About ${speed.toFixed(0)} pairs of steps a second.` : ""}${share}`;
    };
    let loop: Promise<void> = Promise.resolve();
    const show = (on: boolean) => {
      running = on;
      go.textContent = on ? "Pause" : "Go on";
    };
    const go = button("Start", () => {
      show(!running);
      // One loop after the other: the last one may still be counting pictures.
      if (running) loop = loop.then(train);
    }, "main");
    const train = async () => {
      let good = false;
      await room.guard(async () => {
        while (running && room.open) await step(false);
        if (room.open) await step(true);
        good = true;
      }, true);
      if (!good) show(false);
    };
    const once = button("One step", () => {
      if (!running) void room.guard(() => step(false));
    });
    const reset = button("Begin anew", () => {
      started = "";
      void room.guard(start);
    });
    room.stage.append(
      panel(
        "Two trainings of 2 blocks with 32 features, on ten patterns under noise",
        h(
          "div",
          { class: "controls" },
          room.word("group", (change) => menu("The twin", groups, change)),
          room.word("optimizer", (change) => menu("Optimiser", optimizers.map((name): [string, string] => [name, name]), change)),
          room.word("precision", (change) => choice("Numbers", precisions, change)),
          room.quantity("rate", (change) => slider("Learning rate", { least: 0.0005, most: 0.1, step: 0.0005, text: (value) => value.toFixed(4) }, change)),
        ),
        h("div", { class: "controls after-row" }, go, once, reset),
        h("div", { class: "row charts" }, drift.element, losses.element),
        figures,
        vectors,
      ),
      h(
        "div",
        { class: "stage wide-two" },
        breakIt(
          room,
          "A map that the optimiser does not commute with, or weights that were not moved along. Look at the distance: the losses of both may stay close.",
          button("Rotate, with Adam", () => room.change({ group: "rotation", optimizer: "adam", rate: 0.001, vectors: false })),
          button("Rotate, with Muon, whose vectors Adam trains", () => room.change({ group: "rotation", optimizer: "muon", rate: 0.001, vectors: true })),
          button("Scale, with SGD", () => room.change({ group: "scaling", optimizer: "sgd", rate: 0.1 })),
          button("Do not move the weights", () => room.change({ group: "uncoupled" })),
          button("Mend it: rotate, with SGD", () => room.change({ group: "rotation", optimizer: "sgd", rate: 0.1, vectors: false })),
          button("Mend it: rotate, with Muon, matrices alone", () => room.change({ group: "rotation", optimizer: "muon", rate: 0.001, vectors: false })),
        ),
        panel("Are they twins?", room.verdicts),
      ),
    );
    draw();
    room.onChange(async () => {
      const { group, optimizer, vectors: trained } = settings();
      vectors.textContent = group !== "rotation" || optimizer !== "muon" ? "" : trained
        ? "Muon leaves vectors to Adam. Here Adam trains the biases of the rotated features, and Adam follows no rotation: the twin leaves."
        : "Muon leaves vectors to Adam, which follows no rotation. So here, as in row train-orth, Muon trains matrices; the biases of the rotated features stay as they began.";
      if (started === JSON.stringify(settings())) return;
      await step(false);
    });
  },
};
