// Draws curves over steps, on a linear or a logarithmic axis.

import { h, svg } from "../dom";

export interface Curve {
  name: string;
  /** A class of the style sheet: "plain", "twin", "drift". */
  kind: string;
  values: number[];
}

const width = 560;
const height = 220;
const margin = { left: 60, right: 12, top: 12, bottom: 30 };

function ticksOf(low: number, high: number, log: boolean): number[] {
  if (log) {
    const ticks: number[] = [];
    const [from, to] = [Math.ceil(Math.log10(low)), Math.floor(Math.log10(high))];
    const step = Math.max(1, Math.ceil((to - from) / 5));
    for (let power = from; power <= to; power += step) ticks.push(10 ** power);
    return ticks;
  }
  const rough = (high - low) / 4;
  const unit = 10 ** Math.floor(Math.log10(rough));
  const step = ([1, 2, 5, 10].find((factor) => factor * unit >= rough) ?? 10) * unit;
  const ticks: number[] = [];
  for (let tick = Math.ceil(low / step) * step; tick <= high + step / 1000; tick += step) ticks.push(tick);
  return ticks;
}

export class Chart {
  readonly element: HTMLElement;
  private picture = svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", class: "chart" });
  private legend = h("div", { class: "legend" });

  constructor(private title: string, private log: boolean) {
    this.element = h("figure", { class: "plot" }, h("figcaption", {}, title), this.picture, this.legend);
  }

  update(curves: Curve[]): void {
    const floor = 1e-17; // a logarithm has no zero: it is drawn at the bottom
    const shown = curves.flatMap((curve) => curve.values).filter((value) => Number.isFinite(value));
    const values = this.log ? shown.map((value) => Math.max(value, floor)) : shown;
    const steps = Math.max(2, ...curves.map((curve) => curve.values.length));
    let low = values.length > 0 ? Math.min(...values) : 0;
    let high = values.length > 0 ? Math.max(...values) : 1;
    if (this.log) {
      low = Math.min(low, 1e-16) / 2;
      high = Math.max(high, 1) * 2;
    } else {
      low = Math.min(low, 0);
      high = high > low ? high * 1.05 : low + 1;
    }
    const x = (step: number) => margin.left + ((width - margin.left - margin.right) * step) / (steps - 1);
    const scaled = (value: number) => (this.log ? Math.log(Math.max(value, floor)) : value);
    const [bottom, top] = [scaled(low), scaled(high)];
    const y = (value: number) => height - margin.bottom - ((height - margin.top - margin.bottom) * (scaled(value) - bottom)) / (top - bottom);
    const parts: SVGElement[] = [];
    const ticks = ticksOf(low, high, this.log);
    for (const tick of ticks) {
      const at = y(tick);
      parts.push(svg("line", { x1: margin.left, x2: width - margin.right, y1: at, y2: at, class: "grid" }));
      const text = this.log ? tick.toExponential(0).replace("e+", "e") : String(Number(tick.toPrecision(3)));
      parts.push(svg("text", { x: margin.left - 6, y: at, "text-anchor": "end", class: "tick" }, text));
    }
    for (const step of ticksOf(0, steps - 1, false).filter(Number.isInteger))
      parts.push(svg("text", { x: x(step), y: height - 12, "text-anchor": "middle", class: "tick" }, String(step)));
    for (const curve of curves) {
      const points = curve.values
        .map((value, i) => (Number.isFinite(value) ? `${x(i).toFixed(1)},${y(value).toFixed(1)}` : ""))
        .filter((point) => point !== "");
      parts.push(svg("polyline", { points: points.join(" "), class: `curve ${curve.kind}` }));
      const end = points[points.length - 1]?.split(",");
      if (end) parts.push(svg("circle", { cx: end[0], cy: end[1], r: 4, class: `end ${curve.kind}` }));
    }
    const last = curves.map((curve) => `${curve.name} ${curve.values.length > 0 ? curve.values[curve.values.length - 1]?.toPrecision(3) : "nothing yet"}`);
    this.picture.replaceChildren(svg("title", {}, `${this.title}: ${last.join(", ")}`), ...parts);
    this.legend.replaceChildren(...curves.map((curve) => h("span", { class: curve.kind }, curve.name)));
  }
}
