// The page "yours".

import { announce, h } from "../dom";
import type { Comparison, Tensor } from "../engine";
import { button, menu, slider } from "../kit/controls";
import { HeatMap, matrixOf } from "../kit/heatmap";
import { scientific, Verdict } from "../kit/verdict";
import { tarOf } from "../kit/tar";
import { breakIt, Page, panel } from "../page";
import type { Row } from "./catalogue";
import cpp from "../../../../../examples/08_symmetries.cpp";
import python from "../../code/yours.py";

interface Group {
  name: string;
  size: number;
  copies?: number;
  elements: string;
  log2_size: number;
  moves_inputs_or_outputs: boolean;
  axes: { tensor: string; axis?: number }[];
}
interface Opened {
  family: string;
  architecture: string;
  parameters: number;
  layers: number;
  files: string[];
  inputs: string[];
  groups: Group[];
  log2_key_space: number;
  certificate: { groups: number; generators: number; forward_error: number; gradient_error: number };
  rows: string[];
}
interface Moved {
  groups: string[];
  files: string[];
  left_out: { name: string; why: string }[];
  same_function: Comparison;
  changed_tensors: number;
  of_tensors: number;
}
interface Attention {
  tokens: string[];
  heads: number;
  length: number;
  scores: Tensor;
  /** What the model looks at, a number for each patch. */
  picture?: Tensor;
}

const most = 200 * 1024 * 1024;

export const yours: Page = {
  id: "yours",
  name: "Yours",
  hint: "the theorems on your own model",
  claim: "Drop a model folder of Hugging Face's format: its symmetries are read off its own computation, the theorems are checked on its own weights, and a permuted copy is yours to download.",
  gesture: "ViT, DeiT, BERT, GPT-2 and Llama, up to 200 MB: config.json and model.safetensors (tokenizer.json for texts). Nothing leaves this page: it has no code that sends, and its policy forbids connections.",
  defaults: { layer: "0", head: "0", patch: "14", which: "inner", row: "thm4.1" },
  matrices: ["signs", "shares"],
  words: [
    ["group", "permutations that move certain axes of certain tensors together; “inner” groups move nothing that one puts in or gets out"],
    ["S_64", "all orders of 64 things; wr: blocks may change places, too"],
    ["bits", "the logarithm of how many elements a group has"],
    ["control", "a computation that is almost right and must fail"],
  ],
  exercise: {
    question: "Permute the model by its inner groups, download it, and run it where you run the original. Which of your tests could tell the two apart?",
    answer: "None that allows rounding: inner groups leave the outputs alone up to the last bits. A comparison bit by bit can tell, hidden values inside the blocks can, and so can the weights; knowing the original is enough to find the key (see “Thief”).",
  },
  programs: [
    { language: "C++", path: "examples/08_symmetries.cpp", text: cpp },
    { language: "Python", path: "apps/explore/web/code/yours.py", text: python },
  ],
  build(room) {
    const { state } = room;
    let open: Opened | null = null;
    let picture = "";
    let text = "";
    const result = h("div", { class: "stage", id: "result" });
    let titles = new Map<string, string>();
    const busy = h("p", { class: "gesture", role: "status" });
    const waiting = async (what: string, job: () => Promise<void>) => {
      busy.textContent = what;
      announce(what);
      await room.guard(job);
      busy.textContent = "";
    };
    // Once nothing above it changes any more.
    const show = () => {
      if (open) result.scrollIntoView({ block: "start" });
    };
    const load = async (files: Map<string, File | Uint8Array>) => {
      result.replaceChildren();
      forget();
      await waiting("Reading the model …", async () => {
        const bytes: Record<string, Uint8Array> = {};
        let total = 0;
        for (const [name, file] of files) {
          if (name.split("/").length > 2) continue; // folders in folders are nothing of a model
          const size = file instanceof File ? file.size : file.length;
          total += size;
          if (total > most) throw new Error(`these files are larger than ${most / 1024 / 1024} MB; use the program for them: equigrad symmetries FOLDER`);
          bytes[name] = file instanceof File ? new Uint8Array(await file.arrayBuffer()) : new Uint8Array(file);
        }
        if (!("config.json" in bytes)) throw new Error("config.json is missing: drop the whole folder, or choose config.json and model.safetensors together");
        await room.engine.putFiles(bytes);
        await look();
      });
      show();
    };
    const look = async () => {
      open = await room.ask<Opened>({ ask: "yours.open" });
      if (titles.size === 0) titles = new Map((await room.ask<{ rows: { id: string; title: string }[] }>({ ask: "catalogue.list" })).rows.map((row) => [row.id, row.title]));
      describe(open);
    };
    const forget = () => {
      open = null;
      picture = "";
      text = "";
    };
    const sample = async (family: string) => {
      result.replaceChildren();
      forget();
      await waiting("Making a small model …", async () => {
        await room.engine.putFiles({});
        await room.ask({ ask: "yours.sample", family });
        await look();
      });
      show();
    };
    const fromInput = (event: Event) => {
      const input = event.currentTarget as HTMLInputElement;
      const files = new Map<string, File>();
      for (const file of Array.from(input.files ?? [])) files.set((file.webkitRelativePath || file.name).split("/").slice(file.webkitRelativePath ? 1 : 0).join("/"), file);
      if (files.size > 0) void load(files);
    };
    const fileInput = h("input", { type: "file", multiple: true, id: "files", change: fromInput });
    const folderInput = h("input", { type: "file", webkitdirectory: true, id: "folder", change: fromInput });
    const drop = h(
      "div",
      { class: "drop" },
      h("p", {}, h("strong", {}, "Drop the files of a model here")),
      h("p", {}, h("label", { for: "files" }, "or choose its files: "), fileInput),
      h("p", {}, h("label", { for: "folder" }, "or its folder: "), folderInput),
    );
    drop.addEventListener("dragover", (event) => {
      event.preventDefault();
      drop.classList.add("over");
    });
    drop.addEventListener("dragleave", () => drop.classList.remove("over"));
    drop.addEventListener("drop", (event) => {
      event.preventDefault();
      drop.classList.remove("over");
      const items = Array.from(event.dataTransfer?.items ?? []);
      const entries = items.map((item) => item.webkitGetAsEntry?.() ?? null);
      void filesOf(entries, Array.from(event.dataTransfer?.files ?? [])).then(load);
    });
    const given = givenModel();
    room.stage.append(
      panel(
        "Your model",
        drop,
        h(
          "div",
          { class: "controls after" },
          ...(given ? [button(`Open ${given.name}`, () => void load(unpacked(given.files)), "main")] : []),
          h("span", {}, "No model at hand? Make a small one, untrained, whose tokens attend to their like: "),
          ...[["vit", "ViT"], ["bert", "BERT"], ["gpt2", "GPT-2"], ["llama", "Llama"]].map(([family, name]) => button(String(name), () => void sample(family as string))),
        ),
        busy,
      ),
      result,
    );

    const describe = (model: Opened) => {
      const checks = h("div", { class: "stage" });
      const rows = menu("Theorem", model.rows.map((row): [string, string] => [row, `${row}: ${titles.get(row) ?? ""}`]), (row) => room.change({ row }));
      const wanted = state.text("row");
      rows.set(model.rows.includes(wanted) ? wanted : (model.rows[0] ?? ""));
      const chosen = () => (rows.element.querySelector("select") as HTMLSelectElement).value;
      const check = async (row: string) => {
        const answer = await room.ask<Row & { statement: string }>({ ask: "yours.check", row });
        const verdict = new Verdict(row, `${row}: ${answer.statement}`);
        verdict.update({ error: answer.error, differing: answer.differing, of: answer.compared, holds: answer.status === "pass" });
        verdict.element.append(h("span", { class: "line" }, answer.control ? `Control (${answer.control.what}): apart by ${scientific(answer.control.error)}, as it must be` : answer.detail));
        checks.append(verdict.element);
      };
      const moved = h("div", { class: "stage" });
      const broken = h("div", { class: "stage answer" });
      const move = async (which: string, place: HTMLElement) => {
        const draws = crypto.getRandomValues(new Uint32Array(2));
        const answer = await room.ask<Moved>({ ask: "yours.permute", groups: which, key_low: draws[0] as number, key_high: draws[1] as number });
        const verdict = new Verdict("permuted", which === "inner" ? "The permuted model computes the same function" : "The permuted model, with inputs and outputs moved too, fed with plain inputs, computes the same function");
        verdict.update(answer.same_function);
        const files = await room.engine.permutedFiles(answer.files);
        const url = URL.createObjectURL(new Blob([tarOf(files)], { type: "application/x-tar" }));
        place.replaceChildren(
          verdict.element,
          h("p", { class: "gesture" }, `${answer.changed_tensors} of ${answer.of_tensors} tensors have other values. Groups: ${answer.groups.join(", ")}.`),
          h("p", {}, h("a", { href: url, download: "permuted-model.tar", class: "button" }, "Download the permuted folder (.tar)")),
          ...answer.left_out.map((file) => h("p", { class: "gesture" }, `${file.name} was left out: ${file.why}`)),
        );
      };
      const map = new HeatMap({ title: `attention: a row’s token looks at the columns’${model.inputs.includes("pixel_values") ? "; class token first, then patches" : ""}`, colours: "sequential", cell: model.inputs.includes("pixel_values") ? 11 : 26 });
      const onPick = (row: number, column: number) => {
        state.set({ patch: row * side + column });
        void room.guard(attend);
      };
      const looked = new HeatMap({ title: "the picture: choose a patch", cell: 38, onPick });
      const looking = new HeatMap({ title: "what this patch attends to", colours: "sequential", cell: 38, onPick });
      const maps = h("div", { class: "row" }, map.element);
      const patches = h("div", { class: "field after-row" });
      let side = 0;
      const attend = async () => {
        const layer = Math.min(state.whole("layer", 0, 999), model.layers - 1);
        const answer = await room.ask<Attention>({ ask: "yours.attention", layer, picture, text });
        const head = Math.min(state.whole("head", 0, 999), answer.heads - 1);
        const heads = controls.querySelector<HTMLSelectElement>("#head select");
        if (heads && heads.options.length !== answer.heads) headMenu(answer.heads);
        const labels = answer.tokens.length === answer.length && answer.length <= 24 ? answer.tokens : undefined;
        const shown = matrixOf(answer.scores, head);
        // Of many tokens some have their name: each tenth, or of a picture the first patch of each of its rows.
        let sparse = Array.from({ length: answer.length }, (_, i) => (i % 10 === 9 || i === 0 ? `${i + 1}` : ""));
        if (answer.picture) {
          const pixels = matrixOf(answer.picture);
          const offset = answer.length - pixels.rows * pixels.columns; // the class token, and what else is no patch
          sparse = sparse.map((_, i) => (i < offset ? "" : (i - offset) % pixels.columns === 0 ? `row ${(i - offset) / pixels.columns + 1}` : ""));
          if (side !== pixels.rows) {
            side = pixels.rows;
            const control = slider("Patch", { least: 0, most: side * side - 1, step: 1, text: (value) => `row ${Math.floor(value / side) + 1}, column ${(value % side) + 1}` }, (patch) => {
              state.set({ patch });
              void room.guard(attend);
            });
            patches.replaceChildren(control.element);
            setPatch = control.set;
          }
          const patch = Math.min(state.whole("patch", 0, 999_999), side * side - 1);
          setPatch(patch);
          const row = shown.rows === 1 ? 0 : offset + patch;
          const marked: [number, number] | undefined = shown.rows === 1 ? undefined : [Math.floor(patch / side), patch % side];
          looking.retitle(shown.rows === 1 ? "what the first token attends to" : "what this patch attends to");
          looked.update({ ...pixels, marked });
          looking.update({ rows: side, columns: side, at: (i, j) => shown.at(row, offset + i * side + j), marked });
          maps.replaceChildren(looked.element, looking.element, ...(shown.rows === 1 ? [] : [map.element]));
        }
        if (shown.rows > 1) map.update({ ...shown, rowLabels: labels ?? sparse, columnLabels: labels ?? sparse });
      };
      let setPatch: (patch: number) => void = () => undefined;
      const controls = h("div", { class: "controls" });
      const headMenu = (heads: number) => {
        const control = menu("Head", Array.from({ length: heads }, (_, i): [string, string] => [String(i), String(i + 1)]), (head) => {
          state.set({ head });
          void room.guard(attend);
        });
        control.set(String(Math.min(state.whole("head", 0, 999), heads - 1)));
        control.element.id = "head";
        controls.querySelector("#head")?.replaceWith(control.element);
      };
      const layer = menu("Layer", Array.from({ length: model.layers }, (_, i): [string, string] => [String(i), String(i + 1)]), (value) => {
        state.set({ layer: value });
        void room.guard(attend);
      });
      layer.set(state.text("layer"));
      controls.append(layer.element, h("div", { id: "head" }));
      headMenu(1);
      if (model.inputs.includes("pixel_values")) {
        const input = h("input", { type: "file", accept: "image/png,image/jpeg", id: "picture", change: () => {
          const file = input.files?.[0];
          if (file) void room.guard(async () => {
            await room.engine.addFile(".picture", new Uint8Array(await file.arrayBuffer()));
            picture = ".picture";
            await attend();
          });
        } });
        controls.append(h("div", { class: "field" }, h("label", { for: "picture" }, "A picture (PNG, JPEG); else a disc under noise"), input));
      } else {
        const input = h("input", { type: "text", id: "text", change: () => {
          text = input.value;
          void room.guard(attend);
        } });
        controls.append(h("div", { class: "field" }, h("label", { for: "text" }, "A text (needs tokenizer.json); else random tokens, half of them twice"), input));
      }
      result.replaceChildren(
        panel(
          `${model.architecture}, ${model.parameters.toLocaleString("en")} parameters, ${model.layers} layers`,
          h("p", {}, `${model.groups.filter((group) => group.elements !== "fixed").length} groups of permutations can act on its weights; the inner ones leave its function alone. Together they have 2`, h("sup", {}, model.log2_key_space.toFixed(0)), " elements."),
          h("p", { class: "gesture" }, `Checked on a small copy of this architecture with random weights: ${model.certificate.generators} generators of ${model.certificate.groups} groups; outputs are off by at most ${scientific(model.certificate.forward_error)}, gradients by ${scientific(model.certificate.gradient_error)}. The theorems below are checked on your weights.`),
          h("details", {}, h("summary", {}, "The groups, and the axes they move"),
            h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Groups" },
              h("table", {},
                h("thead", {}, h("tr", {}, ...["group", "elements", "bits", "moves inputs or outputs", "axes"].map((name) => h("th", {}, name)))),
                h("tbody", {}, ...model.groups.map((group) => h("tr", {}, h("td", {}, h("code", {}, group.name)), h("td", {}, group.elements), h("td", { class: "number" }, group.log2_size.toFixed(1)), h("td", {}, group.moves_inputs_or_outputs ? "yes" : "no"), h("td", {}, String(group.axes.length)))))))),
        ),
        panel("Theorems on these weights", h("div", { class: "controls" }, rows.element, button("Check it", () => void waiting("Checking …", () => check(chosen())), "main"), button("Check all", () => void waiting("Checking …", async () => {
          for (const row of model.rows) if (room.open) await check(row);
        }))), checks),
        panel("Its attention", controls, patches, maps),
        panel("A permuted copy", h("div", { class: "controls" }, button("Permute the inner groups", () => void waiting("Permuting …", () => move("inner", moved)), "main")), moved),
        breakIt(room, "Move the groups that touch inputs or outputs too: with plain inputs the function is another one.", button("Permute all groups", () => void waiting("Permuting …", () => move("all", broken))), broken),
      );
      announce(`${model.architecture} is open`);
      void room.guard(attend);
    };
  },
};

/** Files of dropped folders and files, by their path below the folder. */
async function filesOf(entries: (FileSystemEntry | null)[], plain: File[]): Promise<Map<string, File>> {
  const found = new Map<string, File>();
  const walk = async (entry: FileSystemEntry, prefix: string): Promise<void> => {
    if (entry.isFile) {
      found.set(prefix + entry.name, await new Promise<File>((resolve, reject) => (entry as FileSystemFileEntry).file(resolve, reject)));
      return;
    }
    const reader = (entry as FileSystemDirectoryEntry).createReader();
    for (;;) {
      const some = await new Promise<FileSystemEntry[]>((resolve, reject) => reader.readEntries(resolve, reject));
      if (some.length === 0) return;
      for (const inner of some) await walk(inner, `${prefix}${entry.name}/`);
    }
  };
  if (entries.some(Boolean)) for (const entry of entries) if (entry) await walk(entry, "");
  if (found.size === 0) for (const file of plain) found.set(file.name, file);
  // One dropped folder: its own files are the model's.
  const names = [...found.keys()];
  const first = names[0]?.split("/")[0] ?? "";
  if (!names.includes("config.json") && names.every((name) => name.startsWith(`${first}/`)))
    return new Map([...found].map(([name, file]) => [name.slice(first.length + 1), file]));
  return found;
}

interface Given {
  name: string;
  /** base64 of each file */
  files: Record<string, string>;
}

/** The model that `equigrad explore --model` put into the page. */
function givenModel(): Given | null {
  const text = document.getElementById("model")?.textContent;
  return text ? (JSON.parse(text) as Given) : null;
}

function unpacked(files: Record<string, string>): Map<string, Uint8Array> {
  return new Map(Object.entries(files).map(([name, base64]) => [name, Uint8Array.from(atob(base64), (c) => c.charCodeAt(0))]));
}
