// Shows the programs that compute what a page shows.

import { h } from "../dom";
import { choice } from "./controls";

export interface Program {
  language: "C++" | "Python";
  /** Where it lies in the repository. */
  path: string;
  text: string;
}

export function code(programs: Program[]): HTMLElement {
  const shown = h("pre", { tabindex: 0 });
  const place = h("p", {});
  const show = (language: string) => {
    const program = programs.find((one) => one.language === language) ?? programs[0];
    if (!program) return;
    shown.replaceChildren(h("code", {}, program.text));
    shown.setAttribute("aria-label", `${program.language} program ${program.path}`);
    place.replaceChildren("It is compiled and run by the project's tests: ", h("code", {}, program.path));
  };
  const first = programs[0]?.language ?? "C++";
  const languages = choice("Language", programs.map((one): [string, string] => [one.language, one.language]), show);
  languages.set(first);
  show(first);
  return h("details", { class: "code" }, h("summary", {}, `Show the ${programs.map((one) => one.language).join(" and the ")} for this`), languages.element, place, shown);
}
