// The array: what was pasted or chosen, as a list of disks that can be corrected.
"use strict";

const array = { value: null, others: [], turn: 0, changed: () => {} };

/** A choice of models of disks, by kind. */
function model_choice(catalogue, chosen, label, on_change) {
  const option = (model) => el("option", { value: model.name, selected: model.name === chosen },
    model.name);
  const kind = (title, is_rotational) => el("optgroup", { label: title },
    catalogue.models.filter((model) => model.rotational === is_rotational).map(option));
  const known = catalogue.models.some((model) => model.name === chosen);
  return el("select", { "aria-label": label, onchange: (event) => on_change(event.target.value) },
    known ? null : el("option", { value: chosen, selected: true }, chosen || "…"),
    kind("Solid-state", false), kind("Hard disks", true));
}

/** Why a disk cannot be removed. */
const refused_removal = ({ members, layout }) => members.length <= 2
  ? "A mirror needs two disks: add another disk first, then remove this one."
  : `All ${members.length} disks are needed in this layout (${layout}): add another disk first.`;

/** Applies corrections, and shows what comes of them. */
array.correct = async (worker, corrections) => {
  const { turn } = array;
  try {
    const { name, text, summary, condition, notes, out } = array.value;
    const value = await ask(worker, { do: "correct", name, text, corrections });
    // What was read of the machine's state stays true of the corrected list.
    if (turn !== array.turn) return;
    array.show(worker, { ...value, summary, condition, notes, out });
    say("array-error", "");
  } catch (error) {
    if (turn !== array.turn) return;
    const removes = corrections.some((it) => it.remove !== undefined);
    say("array-error", removes ? refused_removal(array.value) : error.message);
    array.list(worker);
  }
};

/** "960GB", "4 TB" or "512GiB" in bytes; none if it is no size. */
function bytes_of(text) {
  const parts = /^\s*([\d.]+)\s*([kmgt]?)(i?)b?\s*$/i.exec(text);
  if (!parts || !Number(parts[1])) return null;
  const power = " kmgt".indexOf(parts[2].toLowerCase() || " ");
  return Math.round(Number(parts[1]) * (parts[3] ? 1024 : 1000) ** power);
}

array.row = (worker, catalogue, member) => {
  const { devid } = member;
  const correct = (correction) => array.correct(worker, [correction]);
  const size = (event) => {
    const bytes = bytes_of(event.target.value);
    wrong.hidden = Boolean(bytes);
    if (bytes) correct({ size: [devid, bytes] });
    else wrong.textContent = `“${event.target.value}” is no size: write 960GB or 4TB, say.`
      + ` It stays ${member.size}.`;
    if (!bytes) event.target.value = member.size;
  };
  const wrong = el("span", { class: "error wrong", role: "alert", hidden: true });
  const what = member.device || `disk ${devid}`;
  const sure = member.confidence ? ` (${member.confidence})` : "";
  return el("li", { class: member.in_service ? "" : "away" },
    el("span", { class: `shape member-${(devid - 1) % 8}`, "aria-hidden": "true" }, String(devid)),
    el("span", { class: "device" }, what, el("small", {}, member.rotational
      ? ` hard disk${sure}` : ` solid-state${sure}`,
      member.link ? `, on ${member.link}` : "", member.in_service ? "" : ", out of service")),
    model_choice(catalogue, member.model, `Model of ${what}`,
      (model) => correct({ model: [devid, model] })),
    el("input", { value: member.size, size: 9, "aria-label": `Size of ${what}`, onchange: size }),
    el("button", { type: "button", "aria-label": `Remove ${what}`,
      onclick: () => correct({ remove: devid }) }, "Remove"), wrong);
};

/** Shows the disks of the array. */
array.list = (worker) => $("disks").replaceChildren(
  ...array.value.members.map((it) => array.row(worker, array.catalogue, it)));

array.show = (worker, value) => {
  array.value = value;
  array.turn += 1;
  const { catalogue } = array;
  $("array").hidden = !value;
  if (!value) return array.changed();
  const condition = value.condition ? ` — ${value.condition}` : "";
  $("array-summary").textContent = value.summary + condition;
  array.list(worker);
  const add = model_choice(catalogue, "", "Model of one more disk",
    (model) => array.correct(worker, [{ add: model }]));
  $("add").replaceChildren(el("label", {}, "Add a disk ", add));
  $("array-text").value = value.text;
  $("array-notes").replaceChildren(...(value.notes || []).map((note) => el("li", {}, prose(note))));
  $("notes-box").hidden = !(value.notes || []).length;
  $("system-row").hidden = Boolean(value.system);
  array.changed();
};

/** Shows the first of several arrays, with a choice of the others. */
array.offer = (worker, found) => {
  array.others = found.arrays;
  const option = (it, index) => el("option", { value: index }, it.summary);
  $("which-row").hidden = found.arrays.length < 2;
  $("which").replaceChildren(...found.arrays.map(option));
  say("array-error", found.errors.join("\n"));
  array.show(worker, found.arrays[0] || null);
};

/** Leaves the text of an array file, and no disks: it can be mended where it stands. */
array.unreadable = () => {
  $("array-summary").textContent = "The array file cannot be read.";
  ["disks", "add", "array-notes"].forEach((id) => $(id).replaceChildren());
  $("notes-box").hidden = true;
  $("array").hidden = false;
};

/** Reads a pasted text. */
array.paste = async (worker, text, is_file) => {
  // What was there before is no longer what is asked, whatever comes of the text.
  array.turn += 1;
  const { turn } = array;
  try {
    const found = text.trim() ? await ask(worker, { do: "understand", text })
      : { arrays: [], errors: [] };
    if (turn === array.turn) array.offer(worker, found);
  } catch (error) {
    if (turn !== array.turn) return;
    array.offer(worker, { arrays: [], errors: [error.message] });
    if (is_file) array.unreadable();
  }
};
