// Runs a program of the build `wasm` under Node: node run.js PROGRAM.js [ARGUMENTS]. Says so where Node cannot run it.
'use strict';

// Modules of one function each, which use what programs are compiled with.
const needed = [
  ['vectors of 128 bits (SIMD128)', '0061736d010000000105016000017b030201000a0a0108004100fd0ffd620b'],
  ['exceptions', '0061736d01000000010401600000030201000a080106000640190b0b'],
];
for (const [what, module] of needed) {
  if (!WebAssembly.validate(Buffer.from(module, 'hex'))) {
    console.error(`This Node (${process.version}) has no ${what} in WebAssembly, which equigrad is compiled with. ` +
      'Node 18 or newer has them, on x86 processors with SSE4.1.');
    process.exit(2);
  }
}

// Emscripten 3.1.6 takes a fetch function for a browser's, and does not look for its file on the disk.
delete globalThis.fetch;
const program = require('path').resolve(process.argv[2]);
process.argv.splice(1, 2, program);
require(program);
