// The live picture: lanes of disks with what they have in flight, for two policies side by side.
"use strict";

const READERS = 3;
const SHAPES = ["circle", "square", "triangle"];
const KEPT_WAITS = 2000;
/** Most events of a step: of a longer one the rest is counted, and not drawn. */
const EVENTS_MAX = 4096;

const picture = { worker: null, members: [], sides: [], now: 0, playing: false, frame: 0 };

/** What is known of one run: its I/O in flight, and the last reads that ended. */
function side(policy) {
  return { policy, flying: new Map(), waits: [], rates: [], totals: [], heads: [],
    pulled: new Set(), slowed: new Map() };
}

/** Ends the picture: the array or its use is another. */
picture.reset = () => {
  picture.stop();
  if (picture.worker) picture.worker.end();
  Object.assign(picture, { worker: null, sides: [], now: 0 });
  $("picture-body").hidden = true;
  say("picture-state", "");
};

/** Says what was done to the disk that is chosen, and whether all are pulled out. */
function show_disk() {
  const [it] = picture.sides;
  if (!it) return;
  const place = Number($("which-disk").value);
  const is_pulled = it.pulled.has(place);
  $("pull").disabled = is_pulled;
  $("slow").disabled = is_pulled;
  const is_all = it.pulled.size === picture.members.length;
  say("picture-state", is_all
    ? "All disks are pulled out: every read fails. Start again puts them back." : "");
}

/** Begins the picture of an array and a job. */
picture.begin = async (text, job) => {
  picture.reset();
  const worker = open_worker();
  picture.worker = worker;
  const policies = [$("policy-0").value, $("policy-1").value];
  const described = await ask(worker, { do: "watch", text, job, policies, seed: 1 });
  if (worker !== picture.worker) return;
  $("picture-body").hidden = false;
  Object.assign(picture, described, { now: 0, sides: policies.map(side) });
  const option = (it, index) => el("option", { value: index }, `disk ${it.devid} (${it.model})`);
  $("which-disk").replaceChildren(...described.members.map(option));
  show_disk();
  picture.resize();
  picture.table();
  if (!matchMedia("(prefers-reduced-motion: reduce)").matches) return picture.play();
  await advance(speed());
  picture.table();
};

/** Takes in the I/O of a step. */
function take_step(it, step, dt) {
  for (const [id, member, reader, is_read, offset, length, at, end, ok] of step.events) {
    if (end < 0) {
      it.flying.set(id, { member, reader, is_read, offset, length, at });
      continue;
    }
    it.flying.delete(id);
    it.heads[member] = offset;
    if (reader >= 0 && is_read && ok === 1) it.waits.push(end - at);
    it.totals[member] = (it.totals[member] || 0) + 1;
  }
  if (step.events.length >= EVENTS_MAX) it.flying.clear();
  it.waits.splice(0, Math.max(0, it.waits.length - KEPT_WAITS));
  it.rates.push([step.bytes, step.reads, dt]);
  it.rates.splice(0, Math.max(0, it.rates.length - 60));
  it.in_flight = step.in_flight;
}

/** Throughput over the last steps, and the wait that 99 of 100 of the last reads do not exceed. */
function side_figures(it) {
  const sum = (index) => it.rates.reduce((total, rate) => total + rate[index], 0);
  const seconds = Math.max(sum(2), 1) / 1e9;
  const sorted = [...it.waits].sort((left, right) => left - right);
  return {
    bytes: sum(0) / seconds,
    reads: sum(1) / seconds,
    p99: sorted.length ? sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * 0.99))] : 0,
  };
}

/** Simulated nanoseconds in a second of the watcher: from microseconds to seconds. */
const speed = () => 10 ** Number($("speed").value);

async function advance(dt) {
  const target = Math.round(picture.now + dt);
  const { sides } = picture;
  const { runs } = await ask(picture.worker, { do: "step", until_ns: target });
  if (sides !== picture.sides) return true;
  runs.forEach((step, index) => take_step(picture.sides[index], step, target - picture.now));
  picture.now = target;
  picture.draw();
  return runs.every((step) => step.running);
}

picture.play = () => {
  picture.playing = true;
  $("play").textContent = "Pause";
  let last = performance.now();
  let tabled = last;
  const { sides } = picture;
  const tick = async (now) => {
    if (!picture.playing || sides !== picture.sides) return;
    // The time of a frame may be before the time at which it was asked for.
    const elapsed = Math.min(Math.max(now - last, 0), 50) / 1000;
    last = now;
    try {
      if (!await advance(elapsed * speed())) picture.stop();
    } catch (error) {
      if (sides !== picture.sides) return;
      picture.stop();
      say("picture-error", error.message);
    }
    if (sides !== picture.sides) return;
    if (now - tabled > 1000) {
      tabled = now;
      picture.table();
    }
    if (picture.playing) picture.frame = requestAnimationFrame(tick);
  };
  picture.frame = requestAnimationFrame(tick);
};

picture.stop = () => {
  picture.playing = false;
  cancelAnimationFrame(picture.frame);
  $("play").textContent = "Play";
};

/** Changes what is pictured: a side, or both. */
picture.change = async (change, run = null) => {
  if (!picture.sides.length) return;
  await ask(picture.worker, { do: "change", run, change });
  if (change.policy) picture.sides[run].policy = change.policy;
  if (change.slow) {
    const [place, factor] = change.slow;
    const slow = ({ slowed }) => slowed.set(place, (slowed.get(place) || 1) * factor);
    picture.sides.forEach(slow);
  }
  if (change.pull !== undefined) picture.sides.forEach((it) => it.pulled.add(change.pull));
  show_disk();
  picture.draw();
  picture.table();
};
