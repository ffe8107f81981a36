// The page: joins the list of disks, the question, the answer and the picture.
"use strict";

const page = {
  worker: null, run: null, files: new Map(), answer: null, timer: 0, turn: 0,
  /** The array and jobs of the last whole answer, and the worker that has it. */
  before: null,
};

/** Shows a message for all, readers of screens included. */
function say(id, text) {
  $(id).replaceChildren(...prose(text));
  $(id).hidden = !text;
}

function asked() {
  const { name, text, condition, out, system } = array.value;
  const value = { name, text, condition, out, jobs: chosen_jobs(array.catalogue) };
  if (!system) value.system = $("system").value;
  if ($("repeats").value) value.repeats = Number($("repeats").value);
  if ($("duration").value) value.duration = $("duration").value;
  return value;
}

/** The changes of the disks since the last answer, in words; none if it is another array. */
function changes_since(before, value) {
  if (!before || before.name !== value.name || before.use !== $("use").value) return [];
  const was = new Map(before.members.map((it) => [it.devid, it]));
  const changes = value.members.flatMap((it) => {
    const old = was.get(it.devid);
    was.delete(it.devid);
    if (!old) return [`${it.model} is added`];
    if (old.model !== it.model) return [`devid ${it.devid} is ${it.model}, not ${old.model}`];
    return old.size === it.size ? [] : [`devid ${it.devid} has ${it.size}, not ${old.size}`];
  });
  return [...changes, ...[...was.keys()].map((devid) => `devid ${devid} is removed`)];
}

/** A question can be asked of an array that can be read, with a number of repeats that counts. */
function allow_asking() {
  $("ask").disabled = page.is_running || !array.value || !$("repeats").checkValidity();
}

/**
 * What is asked has changed, so what was answered goes: the run, the answer with its commands, and
 * the errors of the question.
 */
function asked_otherwise() {
  page.turn += 1;
  if (page.is_running) page.run.end();
  set_running(false);
  $("answer").hidden = true;
  $("answer-body").replaceChildren();
  $("downloads").hidden = true;
  $("status").textContent = "";
  say("ask-error", "");
  say("ask-note", "");
  const counts = $("repeats").checkValidity();
  say("repeats-error", counts ? "" : "Write a whole number from 2 to 100, or nothing.");
  remember();
}

/** The array or its use has changed: the picture of what was before goes, too. */
function pictured_otherwise() {
  asked_otherwise();
  picture.reset();
  say("picture-error", "");
}

/** Another array, another list of disks, or none. */
function array_changed() {
  pictured_otherwise();
  choose_policies();
}

/** Puts the policies of the array's system into the choices of the picture. */
function choose_policies() {
  if (!array.value) return;
  const system = array.value.system || $("system").value;
  const names = array.catalogue.policies.map((it) => it.name);
  const known = names.find((it) => it === array.value.in_force)
    || names.find((it) => it.split("/")[0] === system);
  $("policy-0").value = known || "md/raid1";
  $("policy-1").value = "mirrorball/auto";
}

/** Moves the focus to the answer, unless the person went on to something else. */
function focus_answer() {
  if ([document.body, $("ask"), $("stop"), null].includes(document.activeElement)) {
    $("answer-title").focus();
  }
}

function set_running(is_running) {
  $("stop").hidden = !is_running;
  page.is_running = is_running;
  allow_asking();
  $("progress").hidden = !is_running;
}

async function answer_question() {
  if (!array.value) return say("ask-error", "Paste a text or choose an example first.");
  asked_otherwise();
  const { turn } = page;
  $("answer").hidden = false;
  $("answer-body").replaceChildren(el("p", { class: "kind" }, "Simulating …"));
  set_running(true);
  let repeats = 2;
  const begun = performance.now();
  $("downloads").hidden = true;
  const { name, members } = array.value;
  const changes = changes_since(page.before, array.value);
  if (!changes.length && page.before) page.before.gatherer.end();
  const before = changes.length ? page.before.gatherer : null;
  const now = { name, members, use: $("use").value };
  page.before = null;
  page.run = run_question({ ...asked(), changes }, before, {
    on_plan: (plan) => {
      if (turn !== page.turn) return;
      repeats = Math.min(2, plan.seeds);
      say("ask-note", plan.note || "");
    },
    on_progress: (done, all) => { $("bar").max = all; $("bar").value = done; },
    on_answer: (answer, is_last) => {
      if (turn !== page.turn) return;
      const is_first = !$("status").textContent;
      page.answer = answer;
      show_answer(answer, is_last, repeats);
      const seconds = ((performance.now() - begun) / 1000).toFixed(1);
      $("status").textContent = `${is_last ? "Answered" : "First answer"} after ${seconds} s.`;
      if (is_first) focus_answer();
    },
  });
  page.files = page.run.files;
  try {
    await page.run.done;
    if (turn !== page.turn) return;
    page.before = { ...now, gatherer: page.run.gatherer };
    $("downloads").hidden = false;
    offer_policies(page.answer.answer);
  } catch (error) {
    if (turn !== page.turn) return;
    page.run.end();
    $("status").textContent = "";
    $("answer-body").replaceChildren(
      el("p", { class: "error", role: "alert" }, prose(error.message)));
    focus_answer();
  }
  set_running(false);
}

/** Puts what is in force and the best known setting into the choices of the picture. */
function offer_policies(answer) {
  const { advice } = answer.what_if ? answer.what_if.array : answer.array;
  const better = [advice.offered, advice.known, advice.conditional].filter(Boolean)
    .map((it) => it.spec).find((spec) => spec !== advice.now);
  [advice.now, better].filter(Boolean).forEach((spec, number) => {
    const field = $(`policy-${number}`);
    const options = [...field.options].map((it) => it.value);
    if (!options.includes(spec)) field.prepend(el("option", { value: spec }, spec));
    field.value = spec;
  });
  // A picture that is shown is one of these policies from now on.
  if (picture.sides.length) begin_picture();
}

/** Says how fast time passes in the picture. */
function show_speed() {
  $("speed-text").textContent = `one second shows ${time(speed())}`;
  $("speed").setAttribute("aria-valuetext", $("speed-text").textContent);
}

function stop_question() {
  page.turn += 1;
  page.run.end();
  set_running(false);
  if (!$("status").textContent) $("answer").hidden = true;
  $("status").textContent = "Stopped.";
}

function show_use() {
  $("fio-row").hidden = $("use").value !== "fio";
  pictured_otherwise();
}

/** Puts array and job into the link of the page; nothing is sent. */
async function remember() {
  if (!array.value) return history.replaceState(null, "", location.pathname + location.search);
  const { name, text, summary, condition, out, notes } = array.value;
  const kept = { name, text, summary, condition, out, notes,
    use: $("use").value, fio: $("fio").value };
  const letters = await packed(kept);
  if (array.value && array.value.text === text) history.replaceState(null, "", `#${letters}`);
}

/** Shows the array and job of the link, if it has one. */
async function restore() {
  const letters = location.hash.slice(1);
  if (!letters) return false;
  try {
    const kept = await unpacked(letters);
    const value = await ask(page.worker, { do: "correct", name: kept.name, text: kept.text,
      corrections: [] });
    $("use").value = kept.use;
    $("fio").value = kept.fio;
    const { summary, condition, out, notes } = kept;
    array.show(page.worker, { ...value, summary, condition, out, notes });
    show_use();
    return true;
  } catch (error) {
    say("array-error", `The link cannot be read: ${error.message}`);
    return false;
  }
}

function choose_example(name) {
  const found = array.catalogue.arrays.find((it) => it.name === name);
  if (!found) return;
  const request = { do: "correct", name: found.name, text: found.text, corrections: [] };
  array.turn += 1;
  const { turn } = array;
  ask(page.worker, request).then((value) => {
    if (turn !== array.turn) return;
    say("array-error", "");
    $("which-row").hidden = true;
    $("paste").value = "";
    array.show(page.worker, value);
  }).catch((error) => say("array-error", error.message));
}

function fill_choices(catalogue) {
  const option = (value, text) => el("option", { value }, text);
  $("example").append(...catalogue.arrays.map((it) => option(it.name, it.title)));
  $("use").append(...USES.map((it) => option(it.name, it.words)));
  $("system").append(...catalogue.systems.map((it) => option(it.name, it.title)));
  $("system").value = "md";
  ["policy-0", "policy-1"].forEach((id, number) => {
    $(id).append(...catalogue.policies.map((it) => option(it.name, it.name)));
    $(id).value = ["md/raid1", "mirrorball/auto"][number];
    $(id).addEventListener("change", () =>
      report("picture-error", picture.change({ policy: $(id).value }, number)));
  });
}

/** Shows what went wrong with a request. */
async function report(id, promise) {
  try {
    await promise;
    say(id, "");
  } catch (error) {
    say(id, error.message);
  }
}

function begin_picture() {
  if (!array.value) return say("picture-error", "Paste a text or choose an example first.");
  return report("picture-error", picture.begin(array.value.text, pictured_job(array.catalogue)));
}

function listen() {
  const on = (id, event, act) => $(id).addEventListener(event, act);
  on("paste", "input", () => {
    clearTimeout(page.timer);
    $("example").value = "";
    array.show(page.worker, null);
    page.timer = setTimeout(() => array.paste(page.worker, $("paste").value), 250);
  });
  on("which", "change", () => array.show(page.worker, array.others[Number($("which").value)]));
  on("example", "change", () => choose_example($("example").value));
  on("use", "change", show_use);
  on("fio", "input", pictured_otherwise);
  on("repeats", "input", asked_otherwise);
  on("repeats", "change", asked_otherwise);
  on("duration", "input", asked_otherwise);
  on("duration", "change", asked_otherwise);
  on("system", "change", array_changed);
  on("which-disk", "change", show_disk);
  on("again", "click", begin_picture);
  on("array-text", "change", () => array.paste(page.worker, $("array-text").value, true));
  on("ask", "click", answer_question);
  on("stop", "click", stop_question);
  on("get-text", "click", () => download("advice.txt", new Blob([page.answer.text])));
  on("get-json", "click", () =>
    download("advice.json", new Blob([JSON.stringify(page.answer.answer, null, 2)])));
  on("get-results", "click", () =>
    download("mirrorball-results.tar", tar_of("mirrorball-results", page.files)));
  on("begin", "click", begin_picture);
  on("speed", "input", show_speed);
  on("play", "click", () => {
    if (picture.playing) { picture.stop(); picture.table(); } else picture.play();
  });
  const disk = () => Number($("which-disk").value);
  on("slow", "click", () => report("picture-error", picture.change({ slow: [disk(), 4] })));
  on("pull", "click", () => report("picture-error", picture.change({ pull: disk() })));
  on("scrub", "click", () => report("picture-error", picture.change("scrub")));
  window.addEventListener("resize", () => picture.sides.length && picture.resize());
  window.addEventListener("hashchange", restore);
}

async function open_page() {
  await engine.start();
  page.worker = open_worker();
  array.catalogue = await ask(page.worker, { do: "catalogue" });
  array.changed = array_changed;
  fill_choices(array.catalogue);
  listen();
  show_speed();
  await restore();
  document.documentElement.dataset.ready = "true";
}

open_page().catch((error) => say("array-error", `The page cannot start: ${error.message}`));
