// Small helpers for elements.
"use strict";

const $ = (id) => document.getElementById(id);

/** An element with attributes and children; a text is a child, too. */
function el(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (value === true) element.setAttribute(key, "");
    else if (value !== false && value !== null && value !== undefined) {
      element.setAttribute(key, value);
    }
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return element;
}

/** A text in which what stands between backticks is code. */
const prose = (text) => text.split("`")
  .map((part, index) => index % 2 ? el("code", {}, part) : part);

/** A table with a caption, heads, and rows whose first cell is a head. */
function table(caption, heads, rows) {
  const kind = (index) => ({ scope: "col", class: index ? "number" : null });
  const head = heads.map((text, index) => el("th", kind(index), text));
  const cells = (row) => row.map((cell, index) => index
    ? el("td", { class: "number" }, cell) : el("th", { scope: "row" }, cell));
  return el("div", { class: "scroll" }, el("table", {}, el("caption", {}, caption),
    el("thead", {}, el("tr", {}, head)),
    el("tbody", {}, rows.map((row) => el("tr", {}, cells(row))))));
}

/** A number as people read it: three digits count. */
function figure(number) {
  if (!number) return "0";
  const digits = Math.max(0, 2 - Math.floor(Math.log10(Math.abs(number))));
  return number.toLocaleString("en", { maximumFractionDigits: Math.min(digits, 3) });
}

function time(ns) {
  if (ns < 1e3) return `${figure(ns)} ns`;
  if (ns < 1e6) return `${figure(ns / 1e3)} µs`;
  if (ns < 1e9) return `${figure(ns / 1e6)} ms`;
  return `${figure(ns / 1e9)} s`;
}
