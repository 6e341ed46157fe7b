// Maps numbers to colours that people with any colour vision can tell apart: blue, neutral, orange; and from light to dark.

type Rgb = [number, number, number];

const scales = {
  light: { low: [33, 102, 172] as Rgb, middle: [246, 244, 238] as Rgb, high: [201, 92, 12] as Rgb, strong: [23, 92, 84] as Rgb },
  dark: { low: [92, 158, 228] as Rgb, middle: [38, 43, 48] as Rgb, high: [242, 143, 59] as Rgb, strong: [105, 214, 198] as Rgb },
};

function mixed(a: Rgb, b: Rgb, share: number): string {
  const at = (i: 0 | 1 | 2) => Math.round(a[i] + (b[i] - a[i]) * share);
  return `rgb(${at(0)} ${at(1)} ${at(2)})`;
}

export function isDark(): boolean {
  const wanted = document.documentElement.dataset["theme"];
  return wanted === "dark" || (wanted !== "light" && matchMedia("(prefers-color-scheme: dark)").matches);
}

/** Below zero blue, above zero orange, full at `largest`. */
export function diverging(value: number, largest: number): string {
  const scale = isDark() ? scales.dark : scales.light;
  const share = largest > 0 ? Math.max(-1, Math.min(1, value / largest)) : 0;
  // A root makes small numbers visible beside large ones.
  return mixed(scale.middle, share < 0 ? scale.low : scale.high, Math.sqrt(Math.abs(share)));
}

/** From 0 to `largest`. */
export function sequential(value: number, largest: number): string {
  const scale = isDark() ? scales.dark : scales.light;
  const share = largest > 0 ? Math.max(0, Math.min(1, value / largest)) : 0;
  return mixed(scale.middle, scale.strong, share);
}
