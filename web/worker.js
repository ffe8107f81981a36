// A worker: one WebAssembly module, one request at a time. The page ends it to stop a run.
"use strict";

let module = null;
/** The exports of the running module, or none before the first request and after a bug. */
let running = null;

/** Starts the module, with nothing of earlier requests. */
async function start() {
  const { exports } = await WebAssembly.instantiate(module, {});
  exports.start();
  return exports;
}

/** The reply to a request, as text. Lines of saved cells may follow the request. */
function call({ memory, request: room, call: answer, reply }, request, lines) {
  const text = JSON.stringify(request) + (lines ? "\n" + lines : "");
  const bytes = new TextEncoder().encode(text);
  // Making room may move the memory, so its buffer is asked for afterwards.
  const address = room(bytes.length);
  new Uint8Array(memory.buffer).set(bytes, address);
  const length = answer();
  return new TextDecoder().decode(new Uint8Array(memory.buffer, reply(), length));
}

/** What the module said before it stopped at a bug. */
function last_words({ memory, reply }) {
  const bytes = new Uint8Array(memory.buffer).subarray(reply(), reply() + 2000);
  return new TextDecoder().decode(bytes.subarray(0, bytes.indexOf(0)));
}

self.onmessage = async ({ data }) => {
  if (data.module) {
    module = data.module;
    return;
  }
  let text, exports = null;
  try {
    running = running || start();
    exports = await running;
    text = call(exports, data.request, data.lines);
  } catch (error) {
    // The module is in the middle of this request for ever: the next one starts it again.
    running = null;
    const what = exports ? `stopped at a bug: ${last_words(exports)} (${error})`
      : `cannot start: ${error}`;
    text = JSON.stringify({ error: `the simulator ${what}` });
  }
  self.postMessage({ number: data.number, text });
};
