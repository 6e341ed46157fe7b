// The size of a lecture hall: larger letters and pictures, fewer words. It stays on from page to page, and in the link.

let on = false;
const listeners: (() => void)[] = [];

export function inHall(): boolean {
  return on;
}

/** Adds view=hall to a link's fields, or takes it away. */
export function withView(hash: string): string {
  const [page = "", query = ""] = hash.replace(/^#/, "").split("?", 2) as [string, string?];
  const fields = new URLSearchParams(query);
  if (on) fields.set("view", "hall");
  else fields.delete("view");
  const text = fields.toString();
  return `#${page}${text === "" ? "" : `?${text}`}`;
}

export function setHall(value: boolean): void {
  on = value;
  if (on) document.documentElement.dataset["view"] = "hall";
  else delete document.documentElement.dataset["view"];
  history.replaceState(null, "", withView(location.hash === "" ? "#start" : location.hash));
  for (const listener of listeners) listener();
}

export function onHall(listener: () => void): void {
  listeners.push(listener);
}
