// The script of the report page: shows figures on hovering, zooms, shows and hides policies, and
// paints the dots of offsets. It computes no figure: the values are attributes of the shapes.
"use strict";
(() => {
  const root = document.documentElement;
  const tip = document.querySelector(".tip");
  const all = (selector, from = document) => [...from.querySelectorAll(selector)];
  const numbers = (text) => (text ? text.split(",") : []);

  // ---- policies: shown and hidden -------------------------------------------------------------

  const choice = document.getElementById("choice");
  const boxes = all("[data-choose]");
  const names = new Map(boxes.map((box) => [box.dataset.choose, box.parentElement.textContent]));
  const start = new Set(boxes.filter((box) => box.defaultChecked).map((b) => b.dataset.choose));
  const shown = new Set(start);
  let unpacking = Promise.resolve();

  // Panels of a policy that is hidden initially are compressed.
  async function unpack(policy) {
    const packed = document.querySelector(`[data-lazy="${policy}"]`);
    if (!packed) return;
    const bytes = Uint8Array.from(atob(packed.textContent), (letter) => letter.charCodeAt(0));
    packed.remove();
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
    const template = document.createElement("template");
    template.innerHTML = await new Response(stream).text();
    for (const panel of all(".panel", template.content)) {
      const slot = document.querySelector(`[data-slot="${panel.dataset.for}"]`);
      const rank = (other) => Number(other.dataset.policy) * 100 + Number(other.dataset.part);
      const next = [...slot.children].find((other) => rank(other) > rank(panel));
      slot.insertBefore(panel, next || null);
      watch(panel);
    }
    for (const rest of all(".rest", template.content)) {
      const [kind, job] = rest.dataset.for.split("-");
      const same = `[data-kind="${kind}"][data-job="${job}"][data-part="${rest.dataset.part}"]`;
      const { section } = rest.dataset;
      const ofSection = section === undefined ? "" : `[data-section="${section}"]`;
      const chart = document.querySelector(`.chart${same}${ofSection}`);
      chart.querySelector(".plot svg").append(...rest.querySelector("svg").children);
      chart.querySelector(".ends").append(...all("span", rest));
    }
  }

  function show(policies) {
    shown.clear();
    policies.forEach((policy) => shown.add(policy));
    const hidden = [...names.keys()].filter((policy) => !shown.has(policy));
    const selectors = hidden.map((policy) => `[data-policy="${policy}"]`).join(",");
    choice.textContent = selectors ? `${selectors}{display:none!important}` : "";
    boxes.forEach((box) => { box.checked = shown.has(box.dataset.choose); });
    all("[data-row]").forEach((row) => row.classList.toggle("chosen", shown.has(row.dataset.row)));
    hideTip();
    unpacking = unpacking.then(async () => {
      for (const policy of shown) await unpack(policy);
      settle();
    });
    return unpacking;
  }

  document.addEventListener("change", ({ target }) => {
    const policies = new Set(shown);
    if (target.dataset.choose !== undefined) {
      const policy = target.dataset.choose;
      if (target.checked) policies.add(policy); else policies.delete(policy);
      show(policies);
    } else if (target.dataset.only !== undefined) {
      all(".matrix").forEach((matrix) => matrix.classList.toggle("only", target.checked));
    } else if (target.dataset.go !== undefined) {
      document.getElementById(target.value).scrollIntoView();
    }
  });
  document.addEventListener("click", ({ target }) => {
    const button = target.closest("button");
    if (!button) return;
    const { hide, set, theme } = button.dataset;
    if (hide !== undefined) show([...shown].filter((policy) => policy !== hide));
    if (set !== undefined) show({ start, all: names.keys(), none: [] }[set]);
    if (theme !== undefined) switchTheme();
  });

  function switchTheme() {
    const system = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
    const now = root.dataset.theme || system;
    root.dataset.theme = now === "dark" ? "light" : "dark";
    all("canvas").forEach(paint);
  }

  // ---- names at the ends of lines, moved apart ------------------------------------------------

  function settle() {
    for (const ends of all(".ends")) {
      const height = ends.clientHeight;
      const labels = all("span", ends).filter((label) => label.offsetParent);
      if (!height || !labels.length) continue;
      const gap = 13;
      // More names than fit would lie over other things; the bar on top has them all.
      ends.classList.toggle("crowded", labels.length * gap > height + gap);
      const wanted = labels.map((label) => {
        if (label.dataset.at === undefined) label.dataset.at = parseFloat(label.style.bottom);
        return { label, at: (Number(label.dataset.at) / 100) * height };
      });
      wanted.sort((left, right) => left.at - right.at);
      let floor = -gap;
      for (const place of wanted) { place.at = Math.max(place.at, floor + gap); floor = place.at; }
      let ceiling = height + gap / 2;
      for (const place of wanted.reverse()) {
        place.at = Math.min(place.at, ceiling);
        ceiling = place.at - gap;
        place.label.style.bottom = `${place.at}px`;
      }
    }
  }

  // ---- figures under the pointer --------------------------------------------------------------

  // Three digits and a unit that fits, as in the tables.
  function time(micros) {
    if (!(micros > 0)) return "0 s";
    const units = [["s", 1e6], ["ms", 1e3], ["µs", 1], ["ns", 1e-3]];
    const [unit, size] = units.find(([, size]) => micros >= 0.9995 * size) || units[3];
    const value = micros / size;
    const digits = Number.isInteger(value) || value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2;
    return `${value.toFixed(digits)} ${unit}`;
  }

  const written = (text, unit) => (unit === "us" ? time(Number(text)) : `${text} ${unit}`);

  // Places of the steps of a chart, from 0 to 1.
  function places(chart) {
    if (chart.dataset.at) return numbers(chart.dataset.at).map(Number);
    const count = Number(chart.dataset.steps);
    return Array.from({ length: count }, (_, step) => (step + 0.5) / count);
  }

  function stepName(chart, step) {
    if (chart.dataset.names) return numbers(chart.dataset.names)[step];
    const seconds = Number(chart.dataset.seconds);
    const text = (value) => String(Math.round(value * 1e3) / 1e3);
    return `${text(step * seconds)} to ${text((step + 1) * seconds)} s`;
  }

  // More would not fit next to the pointer.
  const ROWS_SHOWN = 16;

  const row = (classes, name, value) => {
    const cells = document.createElement("tr");
    const swatch = classes ? `<span class="swatch ${classes}"></span>` : "";
    cells.innerHTML = `<td>${swatch}</td><td></td><td class="number"></td>`;
    cells.children[1].textContent = name;
    cells.children[2].textContent = value;
    return cells;
  };

  function rows(chart, step) {
    const series = all("[data-values]", chart).filter((group) => {
      return group.dataset.policy === undefined || shown.has(group.dataset.policy);
    });
    const found = series.map((group) => {
      const value = numbers(group.dataset.values)[step];
      const line = group.querySelector("[class]");
      const classes = group.dataset.class || (group.dataset.policy && line.classList.value) || "";
      const name = group.dataset.name || names.get(group.dataset.policy);
      return { value, classes: classes.replace(/\b(line|band|pile)\b/g, ""), name };
    });
    const known = found.filter(({ value }) => value !== undefined && value !== "");
    // Lines are listed as they stand; what has an order of its own keeps it.
    if (chart.querySelector("g[data-policy]")) known.sort((a, b) => b.value - a.value);
    const listed = known.slice(0, ROWS_SHOWN).map(({ classes, name, value }) => {
      return row(classes, name, written(value, chart.dataset.unit));
    });
    const rest = known.length - listed.length;
    return rest ? [...listed, row("", `and ${rest} more`, "")] : listed;
  }

  function tell(chart, step, at) {
    const plot = chart.querySelector(".plot");
    const box = plot.getBoundingClientRect();
    chart.dataset.step = step;
    const heading = document.createElement("b");
    heading.textContent = stepName(chart, step);
    const table = document.createElement("table");
    const [from, to] = zoomOf(chart);
    const place = (places(chart)[step] - from) / (to - from);
    const point = at || { x: box.left + place * box.width, y: box.top + box.height / 2 };
    const dot = chart.dataset.kind === "offsets" && nearestDot(chart, point);
    table.append(...(dot ? dotRows(chart, dot) : rows(chart, step)));
    tip.replaceChildren(heading, table);
    tip.hidden = !table.children.length;
    const line = plot.querySelector(".cross-line") || document.createElement("i");
    line.className = "cross-line";
    line.style.left = `${100 * Math.min(Math.max(place, 0), 1)}%`;
    plot.append(line);
    const { x, y } = point;
    const { offsetWidth: width, offsetHeight: height } = tip;
    const left = x + 16 + width > innerWidth ? x - width - 16 : x + 16;
    tip.style.left = `${Math.max(4, Math.min(left, innerWidth - width - 4))}px`;
    tip.style.top = `${Math.max(4, Math.min(y - height / 2, innerHeight - height - 4))}px`;
  }

  function hideTip() {
    tip.hidden = true;
    all(".cross-line").forEach((line) => line.remove());
  }

  function stepAt(chart, x) {
    const box = chart.querySelector(".plot").getBoundingClientRect();
    const [from, to] = zoomOf(chart);
    const place = from + ((x - box.left) / box.width) * (to - from);
    const distances = places(chart).map((other) => Math.abs(other - place));
    return distances.indexOf(Math.min(...distances));
  }

  // ---- magnifying: all charts over time of a job together -------------------------------------

  const zooms = new Map();
  const zoomKey = (chart) => {
    return `${chart.dataset.job}-${chart.dataset.names ? "distribution" : "time"}`;
  };
  const zoomOf = (chart) => zooms.get(zoomKey(chart)) || [0, 1];

  function zoom(chart, from, to) {
    const least = 2 / Number(chart.dataset.steps);
    const middle = (from + to) / 2;
    const half = Math.max(to - from, least) / 2;
    const range = [Math.max(0, middle - half), Math.min(1, middle + half)];
    const key = zoomKey(chart);
    if (range[0] <= 0 && range[1] >= 1) zooms.delete(key); else zooms.set(key, range);
    all(`.chart[data-job="${chart.dataset.job}"]`).filter((other) => zoomKey(other) === key)
      .forEach(applyZoom);
    hideTip();
  }

  function applyZoom(chart) {
    const [from, to] = zoomOf(chart);
    chart.classList.toggle("zoomed", to - from < 1);
    const drawing = chart.querySelector(".plot svg");
    const side = drawing.viewBox.baseVal.height;
    drawing.setAttribute("viewBox", `${side * from} 0 ${side * (to - from)} ${side}`);
    for (const tick of all(".ticks-x span:not(.axis)", chart)) {
      if (tick.dataset.at === undefined) tick.dataset.at = parseFloat(tick.style.left) / 100;
      const place = (Number(tick.dataset.at) - from) / (to - from);
      tick.style.left = `${100 * place}%`;
      tick.classList.toggle("out", place < -0.001 || place > 1.001);
    }
    all("canvas", chart).forEach(paint);
  }

  // ---- one chart, by pointer and by key -------------------------------------------------------

  function watchChart(chart) {
    const plot = chart.querySelector(".plot");
    let drag = null;
    const part = (x) => {
      const box = plot.getBoundingClientRect();
      return Math.min(Math.max((x - box.left) / box.width, 0), 1);
    };
    plot.addEventListener("pointermove", (event) => {
      const at = { x: event.clientX, y: event.clientY };
      if (drag) {
        const [left, right] = [drag.part, part(at.x)].sort((a, b) => a - b);
        drag.mark.style.left = `${100 * left}%`;
        drag.mark.style.width = `${100 * (right - left)}%`;
      }
      hideTip();
      tell(chart, stepAt(chart, at.x), at);
    });
    plot.addEventListener("pointerleave", hideTip);
    plot.addEventListener("pointerdown", (event) => {
      if (event.pointerType !== "mouse" || event.button !== 0) return;
      const mark = document.createElement("i");
      mark.className = "choice";
      plot.append(mark);
      plot.setPointerCapture(event.pointerId);
      drag = { part: part(event.clientX), mark };
    });
    const drop = (event) => {
      if (!drag) return;
      const [left, right] = [drag.part, part(event.clientX)].sort((a, b) => a - b);
      drag.mark.remove();
      drag = null;
      const [from, to] = zoomOf(chart);
      const at = (place) => from + place * (to - from);
      if (right - left > 0.02 && event.type === "pointerup") zoom(chart, at(left), at(right));
    };
    plot.addEventListener("pointerup", drop);
    plot.addEventListener("pointercancel", drop);
    plot.addEventListener("dblclick", () => zoom(chart, 0, 1));
    chart.addEventListener("keydown", (event) => {
      const [from, to] = zoomOf(chart);
      const steps = Number(chart.dataset.steps);
      const step = Number(chart.dataset.step || 0);
      const at = places(chart)[step];
      const keys = {
        ArrowLeft: () => tell(chart, Math.max(step - 1, 0)),
        ArrowRight: () => tell(chart, Math.min(step + 1, steps - 1)),
        "+": () => zoom(chart, at - (to - from) / 4, at + (to - from) / 4),
        "-": () => zoom(chart, from - (to - from) / 2, to + (to - from) / 2),
        0: () => zoom(chart, 0, 1),
        Escape: hideTip,
      };
      if (!keys[event.key] || event.ctrlKey || event.metaKey) return;
      event.preventDefault();
      keys[event.key]();
    });
    chart.addEventListener("blur", hideTip);
  }

  function watch(from) {
    all(".chart", from).forEach((chart) => { watchChart(chart); applyZoom(chart); });
  }

  // ---- the dots of offsets --------------------------------------------------------------------

  const LEVELS = 9;
  const PLACES = 10000;

  // The dots that are in sight, and where they are.
  function dots(canvas) {
    const flat = numbers(canvas.dataset.dots).map(Number);
    const reach = numbers(canvas.dataset.reach).map(Number);
    const [fast, slow] = numbers(canvas.dataset.heat).map(Number);
    const chart = canvas.closest(".chart");
    const whole = Number(chart.dataset.steps) * Number(chart.dataset.seconds) * 1e3;
    const [from, to] = zoomOf(chart);
    const { clientWidth: width, clientHeight: height } = canvas;
    const found = [];
    let at = 0;
    for (let index = 0; index < flat.length; index += 4) {
      const [since, lane, part, wait] = flat.slice(index, index + 4);
      at += since;
      const heat = Math.log(Math.max(wait, fast) / fast) / Math.log(slow / fast);
      const place = part / PLACES;
      found.push({
        at, lane, wait,
        mib: reach[2 * lane] + place * (reach[2 * lane + 1] - reach[2 * lane]),
        level: Math.min(Math.floor(heat * LEVELS), LEVELS - 1),
        x: ((at / whole - from) / (to - from)) * width,
        y: height * (1 - (2 * (lane + 0.06 + place * 0.88)) / reach.length),
      });
    }
    return found.filter((dot) => dot.x >= 0 && dot.x <= width);
  }

  function paint(canvas) {
    const { clientWidth: width, clientHeight: height } = canvas;
    if (!width) return;
    const scale = devicePixelRatio || 1;
    canvas.width = width * scale;
    canvas.height = height * scale;
    const pen = canvas.getContext("2d");
    pen.scale(scale, scale);
    const style = getComputedStyle(canvas);
    const lanes = numbers(canvas.dataset.reach).length / 2;
    pen.fillStyle = style.getPropertyValue("--rule");
    for (let lane = 1; lane < lanes; lane += 1) pen.fillRect(0, (lane * height) / lanes, width, 1);
    // Slow reads last, so that they lie on top.
    for (const dot of dots(canvas).sort((left, right) => left.level - right.level)) {
      pen.fillStyle = style.getPropertyValue(`--h${dot.level}`);
      pen.beginPath();
      pen.arc(dot.x, dot.y, dot.level > 5 ? 2 : 1.5, 0, 7);
      pen.fill();
    }
  }

  // The dot nearest to a point of the window.
  function nearestDot(chart, at) {
    const canvas = chart.querySelector("canvas");
    const box = canvas.getBoundingClientRect();
    const distance = (dot) => Math.hypot(dot.x + box.left - at.x, dot.y + box.top - at.y);
    return dots(canvas).sort((left, right) => distance(left) - distance(right))[0];
  }

  function dotRows(chart, dot) {
    const devids = all(".ticks-y span", chart).map((tick) => tick.textContent);
    return [
      row("", devids[dot.lane], `at ${(dot.at / 1e3).toFixed(2)} s`),
      row("", "offset", dot.mib < 1000 ? `${dot.mib.toFixed(0)} MiB` : `${(dot.mib / 1024).toPrecision(3)} GiB`),
      row("", "wait", time(dot.wait)),
    ];
  }

  // ---- begin ----------------------------------------------------------------------------------

  watch(document);
  show(start);
  let resized = 0;
  addEventListener("resize", () => {
    cancelAnimationFrame(resized);
    resized = requestAnimationFrame(() => { all("canvas").forEach(paint); settle(); });
  });
  addEventListener("scroll", hideTip, { passive: true });
  matchMedia("(prefers-color-scheme: dark)")
    .addEventListener("change", () => all("canvas").forEach(paint));
})();
