// The workers of the page: starts them, sends requests, and ends them.
"use strict";

const engine = { module: null, build: "", ready: null };

/** The bytes of a data block of the page. */
function embedded(id) {
  const text = document.getElementById(id).textContent.trim();
  return Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
}

/** Compiles the module once, for all workers. */
engine.start = async () => {
  const block = document.getElementById("module");
  engine.build = block.dataset.hash;
  const packed = new Blob([embedded("module")]).stream();
  const stream = packed.pipeThrough(new DecompressionStream("gzip"));
  engine.module = await WebAssembly.compile(await new Response(stream).arrayBuffer());
};

/** A worker with its module. `ask` sends a request, and gives the reply as text. */
function open_worker() {
  const code = document.getElementById("worker").textContent;
  const address = URL.createObjectURL(new Blob([code], { type: "text/javascript" }));
  const worker = new Worker(address);
  URL.revokeObjectURL(address);
  const waiting = new Map();
  let number = 0;
  worker.onmessage = ({ data }) => {
    waiting.get(data.number)(data.text);
    waiting.delete(data.number);
  };
  worker.postMessage({ module: engine.module });
  return {
    text: (request, lines) => new Promise((resolve) => {
      number += 1;
      waiting.set(number, resolve);
      worker.postMessage({ number, request, lines });
    }),
    end: () => worker.terminate(),
  };
}

/** The reply as a value. Throws what the module objects to. */
async function ask(worker, request, lines) {
  const value = JSON.parse(await worker.text(request, lines));
  if (value.error) throw new Error(value.error);
  return value;
}

/** Cells as a worker gives them: a name and a text in each line. Throws an objection. */
async function cells(worker, request) {
  const text = await worker.text(request);
  if (text.startsWith('{"error"')) throw new Error(JSON.parse(text).error);
  return text;
}

/**
 * Runs a question in as many workers as there are CPUs, at most four. Calls `on_answer` with the
 * answer from the first repeats as soon as it is there, and with that of each round. The first
 * worker gathers the cells and answers; it may be that of the question before, which it compares.
 */
function run_question(asked, before, { on_plan, on_progress, on_answer }) {
  const count = Math.max(1, Math.min(4, navigator.hardwareConcurrency || 1));
  const workers = [before || open_worker()];
  while (workers.length < count) workers.push(open_worker());
  const files = new Map();
  const run = async () => {
    const question = { do: "ask", ...asked, build: engine.build };
    const plans = workers.map((worker) => ask(worker, question));
    const plan = (await Promise.all(plans))[0];
    on_plan(plan);
    const units = [];
    const add_units = (from, until) => {
      for (let seed = from; seed < until; seed += 1) {
        for (let job = 0; job < plan.jobs.length; job += 1) units.push({ do: "run", seed, job });
      }
    };
    const [gatherer] = workers;
    const first = Math.min(2, plan.seeds) * plan.jobs.length;
    let next = 0, done = 0, first_done = 0;
    const work = async (worker) => {
      while (next < units.length) {
        const index = next;
        next += 1;
        const lines = await cells(worker, units[index]);
        if (worker !== gatherer) await ask(gatherer, { do: "add" }, lines);
        for (const line of lines.split("\n")) {
          const at = line.indexOf("\t");
          files.set("cells/" + line.slice(0, at), line.slice(at + 1));
        }
        done += 1;
        if (index < first) first_done += 1;
        on_progress(done, units.length);
        if (index < first && first_done === first && done < units.length) {
          on_answer(await ask(gatherer, { do: "answer", repeats: Math.min(2, plan.seeds) }), false);
        }
      }
    };
    let seeds = 0, more = plan.seeds;
    while (more) {
      add_units(seeds, seeds + more);
      seeds += more;
      await Promise.all(workers.map(work));
      const answer = await ask(gatherer, { do: "answer", repeats: seeds });
      on_answer(answer, false);
      files.set("plan.json", answer.plan);
      more = answer.more;
    }
    on_answer(await ask(gatherer, { do: "maintain" }), true);
  };
  const end = () => workers.forEach((worker) => worker.end());
  const end_helpers = () => workers.slice(1).forEach((worker) => worker.end());
  return { done: run().finally(end_helpers), end, files, gatherer: workers[0] };
}
