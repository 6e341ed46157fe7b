// Says whether two sides agree: in words, with a mark and a colour.

import { h, withSigns } from "../dom";
import type { Comparison } from "../engine";

/** "3.1e-16" */
export function scientific(value: number | null): string {
  if (value === null) return "not a number";
  // Near 1 nobody needs a power of ten.
  if (Math.abs(value) >= 0.01 && Math.abs(value) < 1000) return String(Number(value.toPrecision(2)));
  return value === 0 ? "0" : value.toExponential(1).replace("-", "\u2011"); // a hyphen that does not break
}

export class Verdict {
  readonly element: HTMLElement;
  private mark = h("span", { class: "mark", "aria-hidden": "true" });
  private text = h("span", { class: "words" });
  private detail = h("span", { class: "detail" });

  /** name: what is compared, for people and for tests. */
  constructor(name: string, private claim: string) {
    this.element = h(
      "div",
      { class: "verdict", role: "status", "data-verdict": name },
      this.mark,
      h("span", { class: "claim" }, ...withSigns(claim)),
      h("span", { class: "line" }, this.text, h("span", { class: "tail" }, " · ", this.detail)),
    );
  }

  restate(claim: string): void {
    this.claim = claim;
    const element = this.element.querySelector(".claim");
    element?.replaceChildren(...withSigns(claim));
  }

  /** Nothing was computed, or nothing can be said: neither green nor red. */
  clear(words = "not computed", detail = ""): void {
    delete this.element.dataset["holds"];
    delete this.element.dataset["error"];
    this.element.classList.remove("holds", "fails");
    this.mark.textContent = "?";
    this.text.textContent = words;
    this.detail.textContent = detail;
  }

  update(comparison: Comparison, exact = false): void {
    const { error, differing, of, holds } = comparison;
    this.element.dataset["holds"] = String(holds);
    this.element.dataset["error"] = String(error);
    this.element.classList.toggle("holds", holds);
    this.element.classList.toggle("fails", !holds);
    this.mark.textContent = holds ? "=" : "≠";
    if (holds && differing === 0) this.text.textContent = "equal to the last bit";
    else if (holds) this.text.textContent = `equal up to rounding, ${scientific(error)}`;
    else this.text.textContent = error === null ? "there are numbers that are not finite" : `apart by ${Number(error.toPrecision(2))}`;
    this.detail.textContent = exact || differing > 0 ? `${differing} of ${of} numbers ${holds ? "have other bits" : "differ"}` : `all ${of} numbers`;
    this.element.title = this.claim;
  }
}
