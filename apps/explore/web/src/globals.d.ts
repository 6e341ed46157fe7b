// What the bundler puts in: texts of files, and what the page's HTML brings.

declare module "*.cpp" {
  const text: string;
  export default text;
}
declare module "*.py" {
  const text: string;
  export default text;
}
declare module "formulas" {
  /** MathML by TeX. */
  const formulas: Record<string, string>;
  export default formulas;
}
declare module "chapters" {
  /** The catalogue's chapters, in order, with the ids of their rows. */
  const chapters: { name: string; slug: string; ids: string[] }[];
  export default chapters;
}
declare module "worker-source" {
  /** Source of the worker, a bundle of its own. */
  const source: string;
  export default source;
}
/** The engine: base64 of gzip of engine.wasm. */
declare var explorerEngine: string;
/** For tests, and for whoever opens the console. */
declare var explorer: { log: unknown[]; ready: Promise<void>; engine: unknown };
/** Of every browser since 2023; TypeScript 4.8 does not list it. */
declare class DecompressionStream {
  constructor(format: "gzip");
  readonly readable: ReadableStream<Uint8Array>;
  readonly writable: WritableStream<Uint8Array>;
}
