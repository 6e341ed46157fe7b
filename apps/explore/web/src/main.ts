// Starts the engine, and shows the page that the address names.

import { announce, h } from "./dom";
import { Engine, log } from "./engine";
import { inHall, onHall, setHall } from "./hall";
import { isDark } from "./kit/colour";
import { render, Room } from "./page";
import { pages } from "./pages/all";
import { welcome } from "./start";
import { readLink } from "./state";

/** The engine, which the page brings as text: a page without connections cannot fetch it. */
function compiled(): Promise<WebAssembly.Module> {
  const packed = Uint8Array.from(atob(globalThis.explorerEngine), (c) => c.charCodeAt(0));
  const bytes = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  return WebAssembly.compileStreaming(new Response(bytes, { headers: { "content-type": "application/wasm" } }));
}

/** A module of eight bytes and one vector instruction: whether this browser has SIMD128. */
const simd = new Uint8Array([0, 97, 115, 109, 1, 0, 0, 0, 1, 5, 1, 96, 0, 1, 123, 3, 2, 1, 0, 10, 10, 1, 8, 0, 65, 0, 253, 15, 253, 98, 11]);

const main = document.getElementById("main") as HTMLElement;
const nav = document.getElementById("pages") as HTMLElement;
const menu = document.getElementById("menu") as HTMLButtonElement;
const hall = document.getElementById("hall") as HTMLButtonElement;
const theme = document.getElementById("theme") as HTMLButtonElement;

function refuse(sentence: string): void {
  main.replaceChildren(h("h1", {}, "The explorer cannot run here"), h("p", { class: "claim" }, sentence));
}

function start(engine: Engine): void {
  let room: Room | null = null;
  const links = new Map<string, HTMLAnchorElement>();
  nav.append(
    h(
      "ol",
      {},
      ...pages.map((page, i) => {
        const link = h("a", { href: `#${page.id}` }, h("span", { class: "number", "aria-hidden": "true" }, String(i + 1)), h("span", { class: "name" }, page.name), h("small", {}, page.hint));
        links.set(page.id, link);
        return h("li", {}, link);
      }),
    ),
  );
  let shown = "";
  const route = () => {
    const { page: id, fields } = readLink();
    if (fields["view"] === "hall" || inHall()) setHall(true);
    const index = pages.findIndex((page) => page.id === id);
    room?.left.abort();
    for (const [name, link] of links) {
      if (name === id) link.setAttribute("aria-current", "page");
      else link.removeAttribute("aria-current");
    }
    nav.classList.remove("open");
    menu.setAttribute("aria-expanded", "false");
    const page = pages[index];
    document.title = page ? `${page.name} – the equigrad explorer` : "The equigrad explorer";
    if (!page) {
      room = welcome(main, engine, id === "start" ? fields : {});
    } else {
      room = render(page, main, engine, fields, { before: pages[index - 1], after: pages[index + 1] });
    }
    if (shown !== "" && shown !== id) {
      window.scrollTo({ top: 0, behavior: "instant" as ScrollBehavior }); // another page, not a way through this one
      main.focus({ preventScroll: true });
      announce(page?.name ?? "Start");
    }
    shown = id === "" ? "start" : id;
  };
  window.addEventListener("hashchange", () => {
    if (location.hash === "#main") return;
    route();
  });
  menu.addEventListener("click", () => menu.setAttribute("aria-expanded", String(nav.classList.toggle("open"))));
  window.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || !nav.classList.contains("open")) return;
    nav.classList.remove("open");
    menu.setAttribute("aria-expanded", "false");
    menu.focus();
  });
  const label = () => (theme.textContent = isDark() ? "Light" : "Dark");
  theme.addEventListener("click", () => {
    document.documentElement.dataset["theme"] = isDark() ? "light" : "dark";
    label();
    room?.show();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    label();
    room?.show();
  });
  label();
  const press = () => {
    hall.setAttribute("aria-pressed", String(inHall()));
    room?.show();
  };
  onHall(press);
  hall.addEventListener("click", () => setHall(!inHall()));
  window.addEventListener("keydown", (event) => {
    if (!event.altKey || event.code !== "KeyP" || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    setHall(!inHall());
    announce(inHall() ? "Projector size" : "Ordinary size");
  });
  route();
}

globalThis.explorer = { log, ready: Promise.resolve(), engine: null };
if (typeof WebAssembly !== "object" || !WebAssembly.validate(simd)) {
  refuse("It needs WebAssembly with SIMD128, which Chrome and Firefox have since 2021 and Safari since version 16.4.");
} else if (typeof DecompressionStream === "undefined") {
  refuse("It needs DecompressionStream, which Chrome has since version 80, Firefox since 113 and Safari since 16.4.");
} else {
  const engine = new Engine(compiled());
  globalThis.explorer = { log, ready: engine.ready, engine };
  start(engine);
  engine.ready.catch((error: unknown) => refuse(`The engine did not start: ${error instanceof Error ? error.message : String(error)}`));
}
