// What the bundler puts in: texts of files, and what the page's HTML brings.

declare module "*.cpp" {
  const text: string;
  export default text;
}
declare module "*.py" {
  const text: string;
  export default text;
}
declare module "*/formulas.json" {
  /** MathML by TeX. */
  const formulas: Record<string, string>;
  export default formulas;
}
/** Source of the worker, a bundle of its own. */
declare const WORKER_SOURCE: string;
