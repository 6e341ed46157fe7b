// A list whose items are dragged into another order: by mouse, by touch, or with the arrow keys.

import { announce, h } from "../dom";

export interface ReorderOptions {
  /** What is moved: "token", "feature". */
  noun: string;
  labels: string[];
  direction: "down" | "across";
  /** Called with the item at each place, while it is dragged too. */
  onChange(order: number[]): void;
  /** Whether an exchange of these two items is allowed: a hint while dragging. */
  allows?: (a: number, b: number) => boolean;
}

export class Reorder {
  readonly element: HTMLElement;
  private items: HTMLButtonElement[];
  private order: number[];

  constructor(private options: ReorderOptions) {
    this.order = options.labels.map((_, i) => i);
    this.items = options.labels.map((label, i) => this.item(label, i));
    this.element = h(
      "div",
      { class: `reorder ${options.direction}`, role: "group", "aria-label": `Order of the ${options.noun}s: arrow keys move one` },
      ...this.items,
    );
  }

  get value(): number[] {
    return [...this.order];
  }

  /** Shows another order, without calling onChange. */
  set(order: number[]): void {
    const shown = Array.from(this.element.children);
    const wanted = order.map((i) => this.items[i] as HTMLElement);
    this.order = [...order];
    this.describe();
    if (wanted.every((item, place) => item === shown[place])) return;
    const focused = wanted.find((item) => item === document.activeElement);
    this.element.replaceChildren(...wanted);
    focused?.focus({ preventScroll: true }); // an element that is moved loses it
  }

  private item(label: string, index: number): HTMLButtonElement {
    const button = h("button", { type: "button", class: "handle", "data-item": index }, h("span", {}, label));
    button.addEventListener("keydown", (event) => this.key(event, index));
    button.addEventListener("pointerdown", (event) => this.grab(event, index, button));
    return button;
  }

  private describe(): void {
    this.order.forEach((item, place) => {
      const label = this.options.labels[item] as string;
      this.items[item]?.setAttribute("aria-label", `${label}, place ${place + 1} of ${this.order.length}`);
    });
  }

  private move(item: number, to: number): void {
    const from = this.order.indexOf(item);
    if (to === from || to < 0 || to >= this.order.length) return;
    const order = [...this.order];
    order.splice(from, 1);
    order.splice(to, 0, item);
    this.set(order);
    announce(`${this.options.labels[item]} is at place ${to + 1}`);
    this.options.onChange([...order]);
  }

  private key(event: KeyboardEvent, item: number): void {
    const steps: Record<string, number> = { ArrowUp: -1, ArrowLeft: -1, ArrowDown: 1, ArrowRight: 1 };
    const place = this.order.indexOf(item);
    let to: number | undefined;
    if (event.key in steps) to = place + (steps[event.key] as number);
    else if (event.key === "Home") to = 0;
    else if (event.key === "End") to = this.order.length - 1;
    if (to === undefined) return;
    event.preventDefault();
    this.move(item, to);
  }

  private grab(event: PointerEvent, item: number, button: HTMLButtonElement): void {
    if (event.button !== 0) return;
    button.focus();
    const across = this.options.direction === "across";
    // Listeners stand on the window, because an element that is moved in the document loses its pointer.
    const follow = (e: PointerEvent) => {
      if (!this.element.isConnected) {
        release(); // the reader has left the page
        return;
      }
      e.preventDefault();
      const boxes = this.order.map((i) => (this.items[i] as HTMLElement).getBoundingClientRect());
      this.move(item, across ? placeInLines(boxes, e.clientX, e.clientY) : placeIn(boxes.map((box) => box.bottom), e.clientY));
      button.classList.toggle(
        "refused",
        this.options.allows !== undefined && !this.order.every((i, at) => i === at || (this.options.allows as (a: number, b: number) => boolean)(i, at)),
      );
    };
    const release = () => {
      button.classList.remove("dragged");
      window.removeEventListener("pointermove", follow);
      window.removeEventListener("pointerup", release);
      window.removeEventListener("pointercancel", release);
    };
    button.classList.add("dragged");
    window.addEventListener("pointermove", follow, { passive: false });
    window.addEventListener("pointerup", release);
    window.addEventListener("pointercancel", release);
  }
}

/** The first place that ends behind the pointer, else the last. */
function placeIn(ends: number[], at: number): number {
  const place = ends.findIndex((end) => at < end);
  return place < 0 ? ends.length - 1 : place;
}

/** The same for items that stand in several lines: in the line that is nearest. */
function placeInLines(boxes: DOMRect[], x: number, y: number): number {
  const away = boxes.map((box) => Math.max(box.top - y, y - box.bottom, 0));
  const nearest = Math.min(...away);
  const first = away.indexOf(nearest);
  const line = boxes.filter((box) => box.top === boxes[first]?.top);
  return first + placeIn(line.map((box) => box.right), x);
}
