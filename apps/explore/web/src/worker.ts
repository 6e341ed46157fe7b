// Runs the engine: a worker of its own, so that the page never waits. It opens no connection; the page's policy forbids
// it, and a worker made from a blob inherits the policy.

interface Memory {
  mkdirTree(path: string): void;
  writeFile(path: string, bytes: Uint8Array): void;
  readFile(path: string): Uint8Array;
  readdir(path: string): string[];
  unlink(path: string): void;
  rmdir(path: string): void;
  stat(path: string): { mode: number };
  isDir(mode: number): boolean;
  analyzePath(path: string): { exists: boolean };
}

interface EngineModule {
  FS: Memory;
  HEAPF64: Float64Array;
  _malloc(size: number): number;
  _free(address: number): void;
  _explorer_ask(question: number): number;
  _explorer_numbers(): number;
  _explorer_count(): number;
  UTF8ToString(address: number): string;
  stringToUTF8(text: string, address: number, room: number): void;
  lengthBytesUTF8(text: string): number;
}

declare function createEngine(options: Record<string, unknown>): Promise<EngineModule>;

interface Message {
  id: number;
  start?: WebAssembly.Module;
  ask?: string;
  put?: Record<string, Uint8Array>;
  add?: { name: string; bytes: Uint8Array };
  get?: string[];
}

let engine: EngineModule;
const folder = "/model";

function removeTree(path: string): void {
  if (!engine.FS.analyzePath(path).exists) return;
  for (const name of engine.FS.readdir(path)) {
    if (name === "." || name === "..") continue;
    const inner = `${path}/${name}`;
    if (engine.FS.isDir(engine.FS.stat(inner).mode)) removeTree(inner);
    else engine.FS.unlink(inner);
  }
  engine.FS.rmdir(path);
}

/** Below the folder, whatever the name says. */
function put(name: string, bytes: Uint8Array): void {
  const parts = name.split("/").filter((part) => part !== "" && part !== "." && part !== "..");
  if (parts.length === 0) return;
  engine.FS.mkdirTree([folder, ...parts.slice(0, -1)].join("/"));
  engine.FS.writeFile([folder, ...parts].join("/"), bytes);
}

function ask(question: string): { json: string; numbers: Float64Array } {
  const room = engine.lengthBytesUTF8(question) + 1;
  const address = engine._malloc(room);
  engine.stringToUTF8(question, address, room);
  const json = engine.UTF8ToString(engine._explorer_ask(address));
  engine._free(address);
  const first = engine._explorer_numbers() / 8;
  return { json, numbers: engine.HEAPF64.slice(first, first + engine._explorer_count()) };
}

onmessage = async (event: MessageEvent<Message>) => {
  const { id, start, ask: question, put: files, add, get } = event.data;
  try {
    if (start) {
      engine = await createEngine({
        print: () => undefined,
        printErr: () => undefined,
        instantiateWasm: (imports: WebAssembly.Imports, done: (instance: WebAssembly.Instance) => void) => {
          void WebAssembly.instantiate(start, imports).then(done);
          return {};
        },
      });
      engine.FS.mkdirTree(folder);
      postMessage({ id });
    } else if (question !== undefined) {
      const { json, numbers } = ask(question);
      postMessage({ id, json, numbers }, { transfer: [numbers.buffer] });
    } else if (files) {
      removeTree(folder);
      engine.FS.mkdirTree(folder);
      for (const [name, bytes] of Object.entries(files)) put(name, bytes);
      postMessage({ id });
    } else if (add) {
      put(add.name, add.bytes);
      postMessage({ id });
    } else if (get) {
      const found: Record<string, Uint8Array> = {};
      for (const name of get) found[name] = engine.FS.readFile(`${folder}-permuted/${name}`);
      postMessage({ id, files: found }, { transfer: Object.values(found).map((bytes) => bytes.buffer) });
    }
  } catch (error) {
    postMessage({ id, failure: error instanceof Error ? error.message : String(error) });
  }
};
