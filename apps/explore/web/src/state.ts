// The state of a page in the link: #tokens?order=1.0.2&causal=1. Fields that have their default are left out.

import { withView } from "./hall";

export type Fields = Record<string, string>;

export function readLink(): { page: string; fields: Fields } {
  const [page = "", query = ""] = location.hash.replace(/^#/, "").split("?", 2) as [string, string?];
  return { page, fields: Object.fromEntries(new URLSearchParams(query)) };
}

export class State {
  private fields: Fields;

  constructor(private page: string, private defaults: Fields, given: Fields) {
    this.fields = { ...defaults };
    for (const name of Object.keys(defaults)) {
      const value = given[name];
      if (value !== undefined) this.fields[name] = value;
    }
  }

  text(name: string): string {
    return this.fields[name] ?? "";
  }
  flag(name: string): boolean {
    return this.text(name) === "1";
  }
  /** A whole number within the range, else the default. */
  whole(name: string, least: number, most: number): number {
    const value = Number(this.text(name));
    return Number.isInteger(value) && value >= least && value <= most ? value : Number(this.defaults[name]);
  }
  number(name: string, least: number, most: number): number {
    const value = Number(this.text(name));
    return Number.isFinite(value) && value >= least && value <= most ? value : Number(this.defaults[name]);
  }
  oneOf(name: string, allowed: string[]): string {
    const value = this.text(name);
    return allowed.includes(value) ? value : (this.defaults[name] as string);
  }
  /** A permutation of 0..size-1; the identity where the link holds none. */
  order(name: string, size: number): number[] {
    const list = this.text(name) === "" ? [] : this.text(name).split(".").map(Number);
    const sorted = [...list].sort((a, b) => a - b);
    const good = list.length === size && sorted.every((value, i) => value === i);
    return good ? list : Array.from({ length: size }, (_, i) => i);
  }

  set(changes: Record<string, string | number | boolean | number[]>): void {
    for (const [name, value] of Object.entries(changes)) {
      if (typeof value === "boolean") this.fields[name] = value ? "1" : "0";
      else if (Array.isArray(value)) this.fields[name] = value.every((v, i) => v === i) ? "" : value.join(".");
      else this.fields[name] = String(value);
    }
    const query = new URLSearchParams();
    for (const [name, value] of Object.entries(this.fields)) if (value !== this.defaults[name]) query.set(name, value);
    const text = query.toString();
    history.replaceState(null, "", withView(`#${this.page}${text === "" ? "" : `?${text}`}`));
  }
}
