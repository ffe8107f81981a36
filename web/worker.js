// A worker: one WebAssembly module, one request at a time. The page ends it to stop a run.
"use strict";

let module_exports = null;

/** The reply to a request, as text. Lines of saved cells may follow the request. */
function call(request, lines) {
  const text = JSON.stringify(request) + (lines ? "\n" + lines : "");
  const bytes = new TextEncoder().encode(text);
  const { memory, request: room, call: answer, reply } = module_exports;
  // Making room may move the memory, so its buffer is asked for afterwards.
  const address = room(bytes.length);
  new Uint8Array(memory.buffer).set(bytes, address);
  const length = answer();
  return new TextDecoder().decode(new Uint8Array(memory.buffer, reply(), length));
}

/** What the module said before it stopped at a bug. */
function last_words() {
  const { memory, reply } = module_exports;
  const bytes = new Uint8Array(memory.buffer, reply(), 2000);
  return new TextDecoder().decode(bytes.subarray(0, bytes.indexOf(0)));
}

self.onmessage = async ({ data }) => {
  if (data.module) {
    module_exports = (await WebAssembly.instantiate(data.module, {})).exports;
    module_exports.start();
    return;
  }
  let text;
  try {
    text = call(data.request, data.lines);
  } catch (error) {
    text = JSON.stringify({ error: `the simulator stopped at a bug: ${last_words()} (${error})` });
  }
  self.postMessage({ number: data.number, text });
};
