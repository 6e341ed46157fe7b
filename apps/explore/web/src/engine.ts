// Asks the engine in its worker. All of the mathematics is computed there, by the library.

import workerSource from "worker-source";

/** A tensor of an answer: its shape, and its numbers row by row. */
export interface Tensor {
  shape: number[];
  data: Float64Array;
}

export type Json = null | boolean | number | string | Json[] | { [key: string]: Json };
export type Question = { ask: string; [field: string]: Json };

/** How far two tensors are apart. */
export interface Comparison {
  /** max |a - b| / max |b|; null: not finite */
  error: number | null;
  /** elements with other bits, of how many */
  differing: number;
  of: number;
  holds: boolean;
  /** Nothing can be said. */
  unknown?: boolean;
}

interface Reply {
  id: number;
  json?: string;
  numbers?: Float64Array;
  files?: Record<string, Uint8Array>;
  failure?: string;
}

/** What was asked and answered last, newest at the end: for whoever wants to check this page's numbers. */
export const log: { question: Question; answer: Json; numbers: number[] }[] = [];
const longest = 400;

export class EngineError extends Error {}

/** Reads a tensor out of an answer. */
export function tensorOf(value: Json, numbers: Float64Array): Tensor {
  const { shape, at } = value as { shape: number[]; at: number };
  const size = shape.reduce((a, b) => a * b, 1);
  return { shape, data: numbers.subarray(at, at + size) };
}

/** Replaces what stands for tensors by the tensors. */
function revive(value: Json, numbers: Float64Array): unknown {
  if (Array.isArray(value)) return value.map((one) => revive(one, numbers));
  if (value === null || typeof value !== "object") return value;
  const keys = Object.keys(value);
  if (keys.length === 2 && "shape" in value && "at" in value) return tensorOf(value, numbers);
  return Object.fromEntries(keys.map((key) => [key, revive(value[key] as Json, numbers)]));
}

let workerUrl: string | null = null;

export class Engine {
  private worker: Worker;
  private next = 0;
  private waiting = new Map<number, { resolve: (reply: Reply) => void; reject: (error: Error) => void }>();
  private broken: EngineError | null = null;
  /** Settles when the engine can be asked. */
  readonly ready: Promise<void>;

  constructor(private wasm: Promise<WebAssembly.Module>) {
    workerUrl ??= URL.createObjectURL(new Blob([workerSource], { type: "text/javascript" }));
    this.worker = new Worker(workerUrl);
    this.worker.onmessage = (event: MessageEvent<Reply>) => {
      const reply = event.data;
      const waiter = this.waiting.get(reply.id);
      this.waiting.delete(reply.id);
      if (reply.failure !== undefined) waiter?.reject(new EngineError(reply.failure));
      else waiter?.resolve(reply);
    };
    this.worker.onerror = (event) => {
      event.preventDefault();
      this.break(`the engine stopped: ${event.message}; reload the page to start it again`);
    };
    this.ready = wasm.then((module) => this.send({ start: module })).then(() => undefined);
    this.ready.catch(() => undefined); // whoever asks is told
  }

  private break(why: string): void {
    this.broken = new EngineError(why);
    for (const waiter of this.waiting.values()) waiter.reject(this.broken);
    this.waiting.clear();
  }

  /** Another engine, of the same compiled module, in a worker of its own. */
  fork(): Engine {
    return new Engine(this.wasm);
  }

  /** Ends the worker at once, whatever it computes. What waits for an answer is rejected. */
  stop(): void {
    this.worker.terminate();
    this.break("this engine was stopped");
  }

  private send(message: Record<string, unknown>, transfer: Transferable[] = []): Promise<Reply> {
    if (this.broken) return Promise.reject(this.broken);
    const id = ++this.next;
    return new Promise((resolve, reject) => {
      this.waiting.set(id, { resolve, reject });
      this.worker.postMessage({ id, ...message }, transfer);
    });
  }

  /** Asks, and returns the answer with its tensors. Throws EngineError with the engine's sentence. */
  async ask<T>(question: Question): Promise<T> {
    await this.ready;
    const reply = await this.send({ ask: JSON.stringify(question) });
    const numbers = reply.numbers ?? new Float64Array();
    const answer = JSON.parse(reply.json ?? "{}") as { error?: string; [key: string]: Json | undefined };
    log.push({ question, answer: answer as Json, numbers: Array.from(numbers) });
    if (log.length > longest) log.shift();
    if (Object.keys(answer).length === 1 && typeof answer.error === "string") throw new EngineError(answer.error);
    return revive(answer as Json, numbers) as T;
  }

  /** Replaces the files of the model folder. */
  async putFiles(files: Record<string, Uint8Array>): Promise<void> {
    await this.ready;
    await this.send({ put: files }, Object.values(files).map((file) => file.buffer));
  }

  /** Adds one file to the model folder. */
  async addFile(name: string, bytes: Uint8Array): Promise<void> {
    await this.ready;
    await this.send({ add: { name, bytes } }, [bytes.buffer]);
  }

  /** Reads files of the permuted folder. */
  async permutedFiles(names: string[]): Promise<Record<string, Uint8Array>> {
    const reply = await this.send({ get: names });
    return reply.files ?? {};
  }
}

/** Asks only for the newest question of a stream: while one is computed, older ones that wait are dropped. */
export class Latest {
  private busy = false;
  private wanted: (() => Promise<void>) | null = null;

  run(job: () => Promise<void>): void {
    this.wanted = job;
    if (!this.busy) void this.drain();
  }

  private async drain(): Promise<void> {
    this.busy = true;
    while (this.wanted) {
      const job = this.wanted;
      this.wanted = null;
      await job();
    }
    this.busy = false;
  }
}
