// Switches, choices and sliders with labels.

import { freshId, h } from "../dom";

export interface Control<T> {
  element: HTMLElement;
  set(value: T): void;
}

/** One of several words. */
export function choice(label: string, options: [value: string, text: string][], onChange: (value: string) => void): Control<string> {
  const name = freshId();
  const inputs = options.map(([value]) => h("input", { type: "radio", name, value, id: `${name}-${value}`, change: () => onChange(value) }));
  const element = h(
    "fieldset",
    { class: "choice" },
    h("legend", {}, label),
    h("div", { class: "options" }, ...options.map(([value, text], i) => h("span", {}, inputs[i] as Node, h("label", { for: `${name}-${value}` }, text)))),
  );
  return { element, set: (value) => inputs.forEach((input) => (input.checked = input.value === value)) };
}

/** A word of many, from a menu. */
export function menu(label: string, options: [value: string, text: string][], onChange: (value: string) => void): Control<string> {
  const id = freshId();
  const select: HTMLSelectElement = h("select", { id, change: () => onChange(select.value) }, ...options.map(([value, text]) => h("option", { value }, text)));
  return { element: h("div", { class: "field" }, h("label", { for: id }, label), select), set: (value) => (select.value = value) };
}

export function toggle(label: string, onChange: (on: boolean) => void): Control<boolean> {
  const id = freshId();
  const input: HTMLInputElement = h("input", { type: "checkbox", role: "switch", id, change: () => onChange(input.checked) });
  return { element: h("div", { class: "toggle" }, input, h("label", { for: id }, label)), set: (on) => (input.checked = on) };
}

export function slider(
  label: string,
  range: { least: number; most: number; step: number; text?: (value: number) => string },
  onChange: (value: number) => void,
): Control<number> {
  const id = freshId();
  const text = range.text ?? String;
  const shown = h("output", { for: id });
  const input = h("input", {
    type: "range", id, min: range.least, max: range.most, step: range.step,
    input: () => {
      shown.textContent = text(Number(input.value));
      input.setAttribute("aria-valuetext", shown.textContent);
      onChange(Number(input.value));
    },
  });
  return {
    element: h("div", { class: "field" }, h("label", { for: id }, label), h("span", { class: "slider" }, input, shown)),
    set: (value) => {
      input.value = String(value);
      shown.textContent = text(value);
      input.setAttribute("aria-valuetext", shown.textContent);
    },
  };
}

export function button(text: string, onClick: () => void, kind = ""): HTMLButtonElement {
  return h("button", { type: "button", class: `button ${kind}`, click: onClick }, text);
}
