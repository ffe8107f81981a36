// The answer, as elements: what there is, what is better and how to set it, and the figures.
"use strict";

/** Commands with a button that copies them. */
function commands(title, list) {
  if (!list || !list.length) return null;
  const text = list.join("\n");
  const attributes = { type: "button", class: "copy", "aria-label": `Copy: ${title}` };
  const copy = el("button", attributes, "Copy");
  copy.addEventListener("click", async () => {
    const copied = navigator.clipboard ? navigator.clipboard.writeText(text) : Promise.reject();
    copy.textContent = await copied.then(() => "Copied", () => "Select it");
  });
  return el("div", { class: "step" }, el("h4", {}, title), el("pre", {}, text), copy);
}

/** How much faster a policy is; a rough one is rounded. */
function factor_text(advised, compared) {
  if (advised.factor === null) return "what you have completed nothing";
  const times = (factor) => advised.is_rough ? `about ${factor.toFixed(1)} times`
    : `${factor.toFixed(2)} times`;
  const short = advised.is_overloaded ? ", which is not all of the load" : "";
  const throughput = advised.throughput === null ? ""
    : `; ${times(advised.throughput)} the requests/s${short}`;
  return `${times(advised.factor)} as fast in ${compared}${throughput}`;
}

function candidate(title, advised, compared) {
  if (!advised) return null;
  const set = advised.commands;
  const slower = advised.slower.map((it) => `${it.job} at ${it.factor.toFixed(2)} times the speed`);
  const notes = [
    advised.takes && `It needs ${advised.takes}.`,
    advised.only_if && `True ${advised.only_if}.`,
    slower.length && `Slower: ${slower.join(", ")}.`,
    set.placeholders.length && `${set.placeholders.join("; ")}.`,
    set.persist, advised.note,
    advised.is_unverified && set.set.length && "These commands were not verified in a source.",
  ].filter(Boolean);
  return el("section", { class: "offer" }, el("h3", {}, title),
    el("p", { class: "policy" }, el("b", {}, advised.spec), `: ${factor_text(advised, compared)}`),
    commands("Set", set.set), commands("Add the new disk", set.add),
    commands("Check", set.check ? [set.check] : []), commands("Undo", set.undo),
    notes.map((note) => el("p", { class: "note" }, prose(note))));
}

/** Whether the answer names the policy in force as the best that the system offers. */
const is_best = (advice) => advice.offered && advice.offered.spec === advice.now;

function best_offered(advice) {
  const text = !advice.offered ? "Not known: no read has a choice, or none succeeded."
    : `Nothing better than ${advice.now} in ${advice.system}.`;
  if (!advice.offered || is_best(advice)) {
    return el("section", { class: "offer" }, el("h3", {}, "Best that your system offers"),
      el("p", { class: "policy" }, text));
  }
  return candidate("Best that your system offers", advice.offered, advice.compared);
}

function job_table(answer) {
  const policies = [...new Set(answer.jobs.flatMap((job) => job.policies.map((it) => it.policy)))];
  const rows = answer.jobs.map((job) => [job.job, ...policies.map((policy) => {
    const it = job.policies.find((other) => other.policy === policy);
    if (!it) return "";
    const times = it.relative === null || policy === policies[0] ? ""
      : ` (${it.relative.toFixed(2)}×)`;
    return `${figure(it.value)}${times}`;
  })]);
  const units = [...new Set(answer.jobs.map((job) => job.unit))].join("; ");
  const note = units === "score" ? "score: geometric mean over its parts" : units;
  return table(`Speed of each job, in ${note}`, ["Job", ...policies], rows);
}

function maintenance_table(answer) {
  const { maintenance } = answer;
  if (!maintenance) return null;
  const hours = (it) => it.hours === null ? "never"
    : it.hours < 1 ? `${figure(it.hours * 60)} min` : `${figure(it.hours)} h`;
  const rows = maintenance.work.map((work) => [`${work.work}, ${work.load}`,
    ...work.times.map((it) => `${hours(it)} (${figure(it.bytes_per_s / 1e6)} MB/s)`)]);
  rows.push(["flush, 99 % within", ...maintenance.flushes.map((it) => time(it.p99_ns))]);
  return table("Time of a scrub, a rebuild and a flush", ["Work", ...maintenance.policies], rows);
}

/** What a change of the disks brings, each side with its best setting. */
function what_if_table(what_if) {
  if (!what_if) return null;
  const rows = what_if.jobs.map((job) => [job.job, figure(job.before), figure(job.after),
    job.gain === null ? "" : `${job.gain.toFixed(2)}×`]);
  const is_rough = what_if.spread > 0.25;
  const factor = (gain) => is_rough ? `about ${figure(Number(gain.toPrecision(2)))}` : gain.toFixed(2);
  const { compared } = what_if.array.advice;
  const gain = what_if.gain === null ? "not known"
    : `${factor(what_if.gain)} times as fast in ${compared}`;
  return el("section", { class: "offer" }, el("h3", {}, "The change"),
    el("p", { class: "policy" }, `${what_if.changes.join("; ")}: `, el("b", {}, gain)),
    table("Each array with its best setting", ["Job", "Before", "After", "Gain"], rows));
}

/** Shows an answer. `is_last` says that no better one follows. */
function show_answer({ answer, text }, is_last, repeats) {
  const it = answer.what_if ? answer.what_if.array : answer.array;
  const { advice } = it;
  const assumed = advice.now_is_assumed ? ", the default of your system" : "";
  const unserved = advice.unserved.map((it) =>
    `${figure(it.iops)} of ${it.asked} requests/s of ${it.name}`);
  const load = unserved.length ? `; it does not serve the load: ${unserved.join(", ")}` : "";
  const kind = is_last ? "" : `First answer, from ${repeats} repeats: the rest is being simulated.`;
  $("answer-body").replaceChildren(
    kind ? el("p", { class: "kind" }, kind) : "",
    what_if_table(answer.what_if) || "",
    ...it.first.map((step) => el("p", { class: "state" }, prose(step))),
    el("section", { class: "offer" }, el("h3", {}, "What you have"),
      el("p", { class: "policy" }, el("b", {}, advice.now), assumed, load),
      advice.remark ? el("p", { class: "note" }, prose(advice.remark)) : ""),
    best_offered(advice),
    candidate("On condition", advice.conditional, advice.compared) || "",
    candidate("Best known", advice.known, advice.compared) || "",
    el("p", { class: "note" }, `How sure this is: ${advice.confidence}.`),
    job_table(it), maintenance_table(it) || "",
    el("details", {}, el("summary", {}, prose("The same as `mirrorball advise` prints it")),
      el("pre", { id: "answer-text" }, text)));
}
