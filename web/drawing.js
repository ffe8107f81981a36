// Drawing of the picture: one lane for each disk, with the requests at it by reader.
"use strict";

const LANE = 74;

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

/** The mark of a reader: shape and colour, so that either tells it apart. */
function mark(pen, reader, x, y, radius) {
  pen.fillStyle = reader < 0 ? colour("--oracle") : colour(`--c${[2, 1, 0][reader % READERS]}`);
  pen.beginPath();
  const shape = reader < 0 ? "dash" : SHAPES[reader % READERS];
  if (shape === "circle") pen.arc(x, y, radius, 0, 2 * Math.PI);
  else if (shape === "square") pen.rect(x - radius, y - radius, 2 * radius, 2 * radius);
  else if (shape === "triangle") {
    pen.moveTo(x, y - radius);
    pen.lineTo(x + radius, y + radius);
    pen.lineTo(x - radius, y + radius);
  } else pen.rect(x - radius, y - radius / 3, 2 * radius, (2 * radius) / 3);
  pen.fill();
}

/** The surface of a disk: a hard disk has one head, a solid-state disk serves several at once. */
function draw_surface(pen, member, flying, head, box) {
  const { x, y, width } = box;
  pen.strokeStyle = colour("--rule");
  pen.strokeRect(x, y, width, 18);
  const place = (offset) => x + 4 + (width - 8) * Math.min(1, offset / member.bytes);
  if (!member.rotational) {
    const cells = Math.min(member.depth, Math.floor(width / 12));
    for (let cell = 0; cell < cells; cell += 1) {
      const left = x + (cell * width) / cells;
      pen.strokeRect(left, y, width / cells, 18);
      const io = flying[cell];
      if (io) mark(pen, io.reader, left + width / cells / 2, y + 9, 4);
    }
    return;
  }
  flying.slice(0, 64).forEach((io) => mark(pen, io.reader, place(io.offset), y + 9, 3.5));
  if (head === undefined) return;
  pen.fillStyle = colour("--ink");
  pen.beginPath();
  pen.moveTo(place(head), y + 1);
  pen.lineTo(place(head) - 5, y - 7);
  pen.lineTo(place(head) + 5, y - 7);
  pen.fill();
}

function draw_lane(pen, it, index, width) {
  const member = picture.members[index];
  const y = index * LANE;
  const flying = [...it.flying.values()].filter((io) => io.member === index);
  const is_pulled = it.pulled.has(index);
  pen.fillStyle = colour(is_pulled ? "--worse" : "--ink");
  pen.font = "13px system-ui, sans-serif";
  const slow = it.slowed.has(index) ? `, ${it.slowed.get(index)}× slower` : "";
  const state = is_pulled ? "pulled out" : `${(it.in_flight || [])[index] || 0} in flight${slow}`;
  pen.fillText(`disk ${member.devid}  ${member.model}`, 2, y + 14);
  pen.textAlign = "right";
  pen.fillText(state, width - 2, y + 14);
  pen.textAlign = "left";
  if (is_pulled) return;
  draw_surface(pen, member, flying, it.heads[index], { x: 2, y: y + 28, width: width - 4 });
  const step = 10;
  flying.slice(0, Math.floor(width / step)).forEach((io, place) =>
    mark(pen, io.reader, 7 + place * step, y + 58, 3.5));
}

picture.draw = () => {
  picture.sides.forEach((it, number) => {
    const canvas = $(`canvas-${number}`);
    const ratio = window.devicePixelRatio || 1;
    const pen = canvas.getContext("2d");
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.clearRect(0, 0, canvas.width, canvas.height);
    picture.members.forEach((_, index) => draw_lane(pen, it, index, canvas.width / ratio));
    const { bytes, reads, p99 } = side_figures(it);
    $(`figures-${number}`).textContent =
      `${figure(bytes / 1e6)} MB/s, ${figure(reads)} reads/s, 99 % within ${time(p99)}`;
  });
  $("clock").textContent = `${time(picture.now)} simulated`;
};

/** The same figures as a table: it is read when the picture pauses. */
picture.table = () => {
  const rows = picture.sides.flatMap((it) => {
    const { bytes, reads, p99 } = side_figures(it);
    return [[it.policy, `${figure(bytes / 1e6)} MB/s`, figure(reads), time(p99),
      picture.members.map((member, index) =>
        `disk ${member.devid}: ${it.totals[index] || 0}`).join(", ")]];
  });
  const heads = ["Policy", "Throughput", "Reads/s", "99 % within", "I/O drawn"];
  $("picture-table").replaceChildren(table("The picture in figures", heads, rows));
};

picture.resize = () => {
  [0, 1].forEach((number) => {
    const canvas = $(`canvas-${number}`);
    const ratio = window.devicePixelRatio || 1;
    const height = Math.max(1, picture.members.length) * LANE;
    canvas.style.height = `${height}px`;
    canvas.width = Math.round(canvas.clientWidth * ratio);
    canvas.height = Math.round(height * ratio);
  });
  picture.draw();
};
