// Makes elements.

type Child = Node | string | null | undefined | false;
type Attributes = Record<string, string | number | boolean | null | undefined | ((event: never) => void)>;

function fill(element: Element, attributes: Attributes, children: Child[]): void {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") element.addEventListener(name, value as EventListener);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  for (const child of children) if (child) element.append(child);
}

/** An HTML element. Attributes that are functions listen to the event of that name. */
export function h<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  attributes: Attributes = {},
  ...children: Child[]
): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag);
  fill(element, attributes, children);
  return element;
}

/** An SVG element. */
export function svg<K extends keyof SVGElementTagNameMap>(
  tag: K,
  attributes: Attributes = {},
  ...children: Child[]
): SVGElementTagNameMap[K] {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  fill(element, attributes, children);
  return element;
}

/** Markup of our own (formulas) as an element. */
export function markup(html: string): HTMLElement {
  const element = h("span", { class: "markup" });
  element.innerHTML = html;
  return element;
}

/** A sentence with its indices and powers set as such: P_R, W_(C), 2^24. */
export function withSigns(text: string): Node[] {
  return text.split(/(?<=(?<![\p{L}\d_])(?:\p{L}|\d+|gamma|beta)|_\p{L}|\))([_^])(\{[^{}]*\}|\([A-Z]\)|[A-Z](?:,[A-Z])+|\p{L}{1,2}|-?\d+)(?![\p{L}\d_])/u).flatMap((part, i, parts): Node[] => {
    if (i % 3 === 0) return part === "" ? [] : [document.createTextNode(part)];
    return i % 3 === 1 ? [] : [h(parts[i - 1] === "_" ? "sub" : "sup", {}, part.replace(/^\{(.*)\}$/, "$1"))];
  });
}

let count = 0;
/** An id that no other element has. */
export function freshId(): string {
  return `e${++count}`;
}

/** Tells a screen reader. */
export function announce(text: string): void {
  const region = document.getElementById("announcer");
  if (region) region.textContent = text;
}
