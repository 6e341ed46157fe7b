// The page "masks".

import { announce, h, withSigns } from "../dom";
import type { Comparison, Json, Tensor } from "../engine";
import { button, slider } from "../kit/controls";
import { HeatMap, matrixOf } from "../kit/heatmap";
import { Reorder } from "../kit/reorder";
import { breakIt, Page, panel } from "../page";
import cpp from "../../../../../docs/theorems/programs/mask-aut.cpp";
import python from "../../../../../docs/theorems/programs/mask-aut.py";

interface Answer {
  group_order: number;
  group_name: string;
  generators: number[][];
  orbits: number[][];
  searched: number | null;
  allowed: boolean;
  exchanges: [number, number][];
  scores: Tensor;
  moved_scores: Tensor;
  moved_output: Tensor;
  expected: Tensor;
  forward: Comparison;
}

type Grid = boolean[][];
const patterns: Record<string, (i: number, j: number, n: number) => boolean> = {
  "sees all": () => true,
  causal: (i, j) => j <= i,
  "prefix of 3": (i, j) => j < 3 || j <= i,
  window: (i, j) => Math.abs(i - j) <= 1,
  ring: (i, j, n) => i === j || (i + 1) % n === j || (j + 1) % n === i,
  "one-way ring": (i, j, n) => i === j || (i + 1) % n === j,
  "two halves": (i, j, n) => i < n / 2 === j < n / 2,
  "last two padded": (_, j, n) => j < n - 2,
};

function gridOf(pattern: (i: number, j: number, n: number) => boolean, n: number): Grid {
  return Array.from({ length: n }, (_, i) => Array.from({ length: n }, (__, j) => pattern(i, j, n)));
}
/** Rows of hexadecimal digits: the link's form. */
function textOf(grid: Grid): string {
  return grid.map((row) => parseInt(row.map((seen) => (seen ? "1" : "0")).join(""), 2).toString(16)).join(".");
}
function readGrid(text: string): Grid | null {
  const rows = text.split(".");
  const n = rows.length;
  if (n < 2 || n > 12) return null;
  const grid: Grid = [];
  for (const row of rows) {
    const value = parseInt(row, 16);
    if (!/^[0-9a-f]{1,3}$/.test(row) || value >= 2 ** n || value === 0) return null;
    grid.push(Array.from({ length: n }, (_, j) => ((value >> (n - 1 - j)) & 1) === 1));
  }
  return grid;
}

export const masks: Page = {
  id: "masks",
  name: "Masks",
  hint: "which permutations a mask allows",
  claim: "Attention with a mask commutes with a permutation of the tokens if and only if the permutation maps the mask to itself. These permutations form a group: the mask's automorphisms.",
  gesture: "Paint the mask: token i sees what is painted in row i. Tokens of one colour can be carried to each other's place by an allowed order. Drag the tokens: a forbidden order shudders.",
  tex: "f(P_R X) = P_R f(X) \\iff P_R \\tilde M P_R^\\top = \\tilde M,\\quad \\tilde M_{ij} = M_{ij} - \\max_k M_{ik}",
  theorem: "mask-aut",
  defaults: { mask: textOf(gridOf(patterns["ring"] as (i: number, j: number, n: number) => boolean, 6)), order: "1.2.3.4.5.0" },
  matrices: ["shares"],
  words: [
    ["mask, M", "who may attend to whom: 0 where token i sees token j, minus infinity where it does not"],
    ["f, X", "attention with this mask, and its input: a row for each token"],
    ["M̃", "the mask with each row's largest entry taken off, which softmax does not notice; here M itself, because each token sees one"],
    ["P, P_R", "a permutation of the tokens; P_R M̃ P_Rᵀ is the mask with its rows and columns in that order"],
    ["S", "attention's shares: row i says how much token i takes from each token"],
    ["automorphism", "an order of the tokens that maps the mask to itself"],
    ["group", "all automorphisms together; one after the other is again one"],
    ["S_n, C_n, D_n", "all n! orders; the n turns of a ring; the 2n turns and mirror images of a ring"],
    ["(1 2 3)", "a cycle: 1 goes to 2, 2 to 3, 3 to 1; generators are permutations that give all others"],
  ],
  exercise: {
    question: "Paint a mask of 4 tokens whose group has exactly 2 elements; then one with 8; then one with 3. (Each token should see itself.)",
    answer: "2: the window (its mirror image is the only other order). 8: the ring of four, whose group is the dihedral group D_4. 3: start with the one-way ring of the first three tokens, and a fourth token that sees itself alone: C_3 turns the three.",
  },
  programs: [
    { language: "C++", path: "docs/theorems/programs/mask-aut.cpp", text: cpp },
    { language: "Python", path: "docs/theorems/programs/mask-aut.py", text: python },
  ],
  build(room) {
    const { state } = room;
    const grid = () => readGrid(state.text("mask")) ?? (readGrid(masks.defaults["mask"] as string) as Grid);
    const painted = h("div", { class: "mask", role: "group", "aria-label": "Mask: who sees whom; arrow keys move, space paints" });
    const order = h("div", {});
    const scores = new HeatMap({ title: "P S Pᵀ, the attention of the plain order, moved", colours: "sequential" });
    const moved = new HeatMap({ title: "attention of the moved tokens, under the mask", colours: "sequential" });
    const verdict = room.verdict("forward", "Attention(P X) = P Attention(X) for the order that you dragged");
    const facts = h("div", {});
    let shown = 0;
    let list: Reorder | null = null;
    let exchanges = new Set<string>();
    let cells: HTMLButtonElement[][] = [];
    let brush: boolean | null = null;
    const paint = (i: number, j: number, seen: boolean) => {
      const next = grid();
      const row = next[i] as boolean[];
      if (row[j] === seen) return;
      row[j] = seen;
      if (!row.some(Boolean)) {
        announce("Every token must see at least one token");
        room.say("every token must see at least one token");
        return;
      }
      room.change({ mask: textOf(next) });
    };
    const build = (n: number) => {
      shown = n;
      painted.style.gridTemplateColumns = `1.2em repeat(${n}, minmax(0, 1fr))`;
      cells = Array.from({ length: n }, (_, i) =>
        Array.from({ length: n }, (__, j) =>
          h("button", {
            type: "button", "data-at": `${i},${j}`, tabindex: i === 0 && j === 0 ? 0 : -1,
            keydown: (event: KeyboardEvent) => {
              const steps: Record<string, [number, number]> = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
              const step = steps[event.key];
              if (!step) return;
              event.preventDefault();
              const target = cells[(i + step[0] + n) % n]?.[(j + step[1] + n) % n];
              if (!target) return;
              (event.currentTarget as HTMLElement).tabIndex = -1;
              target.tabIndex = 0;
              target.focus();
            },
            click: (event: MouseEvent) => {
              // A click without a pointer is the keyboard's.
              if (event.detail === 0) paint(i, j, !(grid()[i] as boolean[])[j]);
            },
            pointerdown: (event: PointerEvent) => {
              brush = !(grid()[i] as boolean[])[j];
              (event.currentTarget as Element).releasePointerCapture?.(event.pointerId);
              paint(i, j, brush);
            },
          }),
        ),
      );
      painted.replaceChildren(
        h("span", { class: "axis" }),
        ...Array.from({ length: n }, (_, j) => h("span", { class: "axis", "aria-hidden": "true" }, String(j + 1))),
        ...cells.flatMap((row, i) => [h("span", { class: "axis", "aria-hidden": "true" }, String(i + 1)), ...row]),
      );
      list = new Reorder({
        noun: "token", labels: Array.from({ length: n }, (_, i) => String(i + 1)), direction: "across",
        onChange: (value) => room.change({ order: value }),
        allows: (a, b) => exchanges.has(`${Math.min(a, b)},${Math.max(a, b)}`),
      });
      order.replaceChildren(list.element);
    };
    painted.addEventListener("pointermove", (event) => {
      if (brush === null || event.buttons === 0) return;
      const place = document.elementFromPoint(event.clientX, event.clientY)?.getAttribute("data-at");
      if (!place) return;
      const [i, j] = place.split(",").map(Number) as [number, number];
      paint(i, j, brush);
    });
    window.addEventListener("pointerup", () => (brush = null), { signal: room.left.signal });
    const use = (name: string) => {
      const n = grid().length;
      room.change({ mask: textOf(gridOf(patterns[name] as (i: number, j: number, n: number) => boolean, n)), order: "" });
    };
    // What is painted stays; a new token sees itself.
    const resize = (n: number) => {
      const old = grid();
      const next = gridOf((i, j) => (i < old.length && j < old.length ? (old[i] as boolean[])[j] === true : i === j), n);
      next.forEach((row, i) => (row[i] = row[i] === true || !row.some(Boolean)));
      room.change({ mask: textOf(next), order: "" });
    };
    const size = slider("Tokens", { least: 3, most: 12, step: 1 }, resize);
    let forbidden: number[] | null = null;
    const spoil = button("Exchange two tokens so that the mask changes", () => {
      if (forbidden) room.change({ order: forbidden });
    });
    room.stage.append(
      panel(
        "The mask",
        h("div", { class: "controls" }, size.element, ...Object.keys(patterns).map((name) => button(name, () => use(name)))),
        h("div", { class: "row" }, h("div", { class: "grow" }, painted), h("div", { class: "grow" }, h("p", { class: "gesture" }, "Order of the tokens:"), order, facts)),
      ),
      panel("Attention with random queries, keys and values", h("div", { class: "row" }, scores.element, moved.element)),
      h("div", { class: "stage wide-two" }, breakIt(room, "Any order outside the group breaks the identity.", spoil), panel("Both sides", room.verdicts)),
    );
    room.onChange(async () => {
      const seen = grid();
      const n = seen.length;
      if (shown !== n) build(n);
      size.set(n);
      seen.forEach((row, i) =>
        row.forEach((on, j) => {
          const cell = cells[i]?.[j];
          cell?.setAttribute("aria-pressed", String(on));
          cell?.setAttribute("aria-label", `token ${i + 1} ${on ? "sees" : "does not see"} token ${j + 1}`);
        }),
      );
      const p = state.order("order", n);
      list?.set(p);
      const mask: Json = seen.map((row) => row.map((on) => (on ? 0 : null)));
      const answer = await room.ask<Answer>({ ask: "mask", mask, order: p });
      exchanges = new Set(answer.exchanges.map(([a, b]) => `${a},${b}`));
      forbidden = null;
      for (let i = 0; i < n && !forbidden; ++i)
        for (let j = i + 1; j < n && !forbidden; ++j)
          if (!exchanges.has(`${i},${j}`)) {
            forbidden = Array.from({ length: n }, (_, k) => (k === i ? j : k === j ? i : k));
          }
      spoil.disabled = forbidden === null;
      spoil.textContent = forbidden === null ? "This mask allows every order" : "Exchange two tokens so that the mask changes";
      list?.element.querySelectorAll<HTMLElement>(".handle").forEach((handle) => {
        const orbit = answer.orbits.findIndex((one) => one.includes(Number(handle.dataset["item"])));
        handle.style.borderBottom = `5px solid var(--orbit-${orbit % 12})`;
      });
      const plain = matrixOf(answer.scores);
      const labels = p.map((i) => String(i + 1));
      const at = (i: number, j: number) => plain.at(p[i] as number, p[j] as number);
      scores.update({ ...plain, at, rowIds: p, columnIds: p, rowLabels: labels, columnLabels: labels });
      moved.update({ ...matrixOf(answer.moved_scores), rowIds: p, columnIds: p, rowLabels: labels, columnLabels: labels });
      verdict.update(answer.forward);
      verdict.element.dataset["allowed"] = String(answer.allowed);
      const generators = answer.generators.map((g) => cyclesOf(g)).join(", ");
      facts.replaceChildren(
        h("p", { "data-group": answer.group_name, "data-order": answer.group_order }, h("strong", {}, `${answer.group_order} ${answer.group_order === 1 ? "permutation keeps" : "permutations keep"} this mask`), ...(answer.group_name === "" ? [] : answer.group_order === 1 ? [": the order as it is"] : [": the group ", ...withSigns(answer.group_name.replaceAll(" x ", " × "))])),
        h("p", { class: "gesture" }, answer.searched === null ? "Too many tokens to try every order here." : `Trying every order one by one finds ${answer.searched}.`, ` The order above is ${answer.allowed ? "one of them" : "not one of them"}.`),
        h("p", { class: "gesture" }, generators === "" ? "" : `Generators: ${generators}.`),
      );
    });
  },
};

/** "(1 2)(3 4)" */
function cyclesOf(p: number[]): string {
  const seen = new Set<number>();
  let text = "";
  p.forEach((_, i) => {
    const cycle: number[] = [];
    for (let j = i; !seen.has(j); j = p[j] as number) {
      seen.add(j);
      cycle.push(j + 1);
    }
    if (cycle.length > 1) text += `(${cycle.join(" ")})`;
  });
  return text;
}
