// Draws a matrix as coloured cells. Cells keep their identity, so rows and columns glide to their new places.

import { h, svg } from "../dom";
import type { Tensor } from "../engine";
import { diverging, sequential } from "./colour";

export interface HeatMapOptions {
  title: string;
  /** Side of a cell, in pixels before the picture is scaled. */
  cell?: number;
  /** "diverging" for numbers of both signs, "sequential" from 0 up. */
  colours?: "diverging" | "sequential";
  /** More room between cells where blocks end: heads of so many columns or rows. */
  columnBlock?: number;
  rowBlock?: number;
  /** A cell was pressed: a gesture beside a control that does the same. */
  onPick?: (row: number, column: number) => void;
}

export interface HeatMapData {
  rows: number;
  columns: number;
  at(row: number, column: number): number;
  /** Names of the rows and columns that are at these places now: what glides. */
  rowIds?: number[] | undefined;
  columnIds?: number[] | undefined;
  rowLabels?: string[] | undefined;
  columnLabels?: string[] | undefined;
  /** The number that has the full colour; by default the largest. */
  largest?: number | undefined;
  /** A cell with a frame. */
  marked?: [row: number, column: number] | undefined;
}

/** A tensor's last two axes; `lead` chooses along the axes before them. */
export function matrixOf(tensor: Tensor, lead = 0): HeatMapData {
  const rank = tensor.shape.length;
  const rows = rank > 1 ? (tensor.shape[rank - 2] as number) : 1;
  const columns = tensor.shape[rank - 1] ?? 1;
  return { rows, columns, at: (i, j) => tensor.data[(lead * rows + i) * columns + j] as number };
}

/** The difference of two tensors of one shape. */
export function differenceOf(a: Tensor, b: Tensor, lead = 0): HeatMapData {
  const [x, y] = [matrixOf(a, lead), matrixOf(b, lead)];
  return { ...x, at: (i, j) => x.at(i, j) - y.at(i, j) };
}

export function largestOf(data: HeatMapData): number {
  let largest = 0;
  for (let i = 0; i < data.rows; ++i)
    for (let j = 0; j < data.columns; ++j) {
      const size = Math.abs(data.at(i, j));
      if (size > largest || Number.isNaN(size)) largest = size;
    }
  return largest;
}

/** Three significant digits. */
export function short(value: number): string {
  if (value === 0) return "0";
  if (!Number.isFinite(value)) return String(value);
  const size = Math.abs(value);
  return size >= 0.001 && size < 10000 ? Number(value.toPrecision(3)).toString() : value.toExponential(1);
}

export class HeatMap {
  readonly element: HTMLElement;
  private picture = svg("svg", { role: "img", class: "heatmap" });
  private name = svg("title");
  private cells = new Map<string, SVGRectElement>();
  private labels = svg("g", { class: "labels", "aria-hidden": "true" });
  private hint: HTMLElement;
  private data: HeatMapData | null = null;

  constructor(private options: HeatMapOptions) {
    this.hint = h("output", { class: "cell-value", "aria-hidden": "true" });
    this.picture.append(this.name, this.labels);
    this.element = h(
      "figure",
      { class: "matrix" },
      h("figcaption", {}, options.title, this.hint),
      this.picture,
    );
    this.picture.addEventListener("pointermove", (event) => this.showValue(event));
    const pick = options.onPick;
    if (pick) {
      this.picture.classList.add("pickable");
      this.picture.addEventListener("click", (event) => {
        const place = (event.target as Element).getAttribute?.("data-at");
        if (place) pick(...(place.split(",").map(Number) as [number, number]));
      });
    }
    this.picture.addEventListener("pointerleave", () => (this.hint.textContent = ""));
  }

  private showValue(event: PointerEvent): void {
    const place = (event.target as Element).getAttribute?.("data-at");
    if (!place || !this.data) {
      this.hint.textContent = "";
      return;
    }
    const [row, column] = place.split(",").map(Number) as [number, number];
    this.hint.textContent = `[${row}, ${column}] ${short(this.data.at(row, column))}`;
  }

  retitle(title: string): void {
    const caption = this.element.querySelector("figcaption");
    if (caption?.firstChild) caption.firstChild.textContent = title;
    this.options.title = title;
  }

  update(data: HeatMapData): void {
    this.data = data;
    const cell = this.options.cell ?? 26;
    const gap = Math.max(3, Math.round(cell / 5));
    const place = (index: number, block: number | undefined) => index * cell + (block ? Math.floor(index / block) * gap : 0);
    const left = data.rowLabels ? 6 + 7.2 * Math.max(...data.rowLabels.map((label) => label.length)) : 0;
    // Names that are wider than their columns stand upright.
    const longest = Math.max(0, ...(data.columnLabels ?? []).map((label) => label.length));
    const upright = 7.2 * longest > cell + 2;
    const top = data.columnLabels ? (upright ? 6 + 7.2 * longest : 18) : 0;
    const width = left + place(data.columns - 1, this.options.columnBlock) + cell;
    const height = top + place(data.rows - 1, this.options.rowBlock) + cell;
    this.picture.classList.toggle("dense", width > 380);
    this.picture.setAttribute("viewBox", `0 0 ${width} ${height}`);
    // In the size of letters, so that pictures grow with them.
    this.picture.style.maxWidth = `calc(var(--zoom, 1) * ${width / 16}rem)`;
    this.element.style.setProperty("--wide", `${width / 16}rem`);
    this.element.classList.toggle("labelled", data.rowLabels !== undefined || data.columnLabels !== undefined);
    const largest = data.largest ?? largestOf(data);
    const colour = this.options.colours === "sequential" ? sequential : diverging;
    const used = new Set<string>();
    for (let i = 0; i < data.rows; ++i)
      for (let j = 0; j < data.columns; ++j) {
        const key = `${data.rowIds?.[i] ?? i},${data.columnIds?.[j] ?? j}`;
        used.add(key);
        let rect = this.cells.get(key);
        if (!rect) {
          rect = svg("rect", { width: cell - 1, height: cell - 1, rx: 2 });
          this.cells.set(key, rect);
          this.picture.append(rect);
        }
        const x = left + place(j, this.options.columnBlock);
        const y = top + place(i, this.options.rowBlock);
        rect.style.transform = `translate(${x}px, ${y}px)`;
        const value = data.at(i, j);
        rect.style.fill = Number.isFinite(value) ? colour(value, largest) : "var(--void)";
        rect.setAttribute("data-at", `${i},${j}`);
        rect.classList.toggle("marked", data.marked?.[0] === i && data.marked[1] === j);
      }
    for (const [key, rect] of this.cells)
      if (!used.has(key)) {
        rect.remove();
        this.cells.delete(key);
      }
    this.labels.replaceChildren(
      ...(data.rowLabels ?? []).map((label, i) =>
        svg("text", { x: left - 6, y: top + place(i, this.options.rowBlock) + cell / 2, "text-anchor": "end" }, label),
      ),
      ...(data.columnLabels ?? []).map((label, j) =>
        upright
          ? svg("text", { transform: `translate(${left + place(j, this.options.columnBlock) + cell / 2} ${top - 5}) rotate(-90)` }, label)
          : svg("text", { x: left + place(j, this.options.columnBlock) + cell / 2, y: 9, "text-anchor": "middle" }, label),
      ),
    );
    this.name.textContent = `${this.options.title}: ${data.rows} × ${data.columns} numbers, the largest ${short(largestOf(data))}`;
  }
}
