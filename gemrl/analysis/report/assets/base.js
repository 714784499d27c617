"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
const DASHES = { solid: "", dash: "6 3", dot: "2 3", dashdot: "7 3 2 3" };
const looks = Object.fromEntries([...data.methods, ...data.otherMethods].map((method) => [method.name, method]));
const hidden = new Set();
const plots = new Map(); // element -> function that draws it
const touch = matchMedia("(pointer: coarse)").matches; // on touch screens a drag scrolls the page and does not zoom
let band = "interval";

// Creates an element: el("p", {class: "note"}, "text", child). Text is never parsed as HTML.
function el(kind, attributes = {}, ...children) {
  const element = document.createElement(kind);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value !== null && value !== undefined) element.setAttribute(name, value);
  }
  element.append(...children.filter((child) => child !== null));
  return element;
}

const whole = (x) => (x === null || x === undefined ? "–" : Math.round(x).toLocaleString("en"));
// A standard deviation gets no more decimals than its mean: `reference` is the number that sets the precision.
const number = (x, reference = x) => {
  if (x === null || x === undefined) return "–";
  const size = Math.max(Math.abs(x), Math.abs(reference));
  const small = size && size < 1 ? Math.min(6, 1 - Math.floor(Math.log10(size))) : 2;
  return x.toLocaleString("en", { maximumFractionDigits: size >= 100 ? 0 : size >= 10 ? 1 : Math.max(2, small) });
};
const exact = (value) => {
  if (value === null || value === undefined) return "–";
  if (typeof value === "number") return Math.abs(value) >= 1000 ? value.toLocaleString("en") : String(value);
  return typeof value === "object" ? JSON.stringify(value) : String(value);
};
const hours = (x) => (x === null ? "–" : x >= 1 ? `${x.toFixed(1)} h` : `${(60 * x).toFixed(1)} min`);
const span = (low, high) => `[${number(low)}, ${number(high)}]`;
const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
// The blue of Okabe and Ito is too dark on a dark background.
const colour = (name) => {
  const own = looks[name].colour;
  return own === "#0072B2" && document.documentElement.dataset.theme === "dark" ? "#3390D2" : own;
};
const faded = (colour, opacity) =>
  colour +
  Math.round(255 * opacity)
    .toString(16)
    .padStart(2, "0");
function swatch({ colour, dash }) {
  const [picture, line] = ["svg", "line"].map((kind) => document.createElementNS("http://www.w3.org/2000/svg", kind));
  const stroke = { x2: 26, y1: 4, y2: 4, "stroke-width": 3, stroke: colour, "stroke-dasharray": DASHES[dash] };
  Object.entries(stroke).forEach(([name, value]) => line.setAttribute(name, value));
  picture.setAttribute("viewBox", "0 0 26 8");
  picture.setAttribute("class", "swatch");
  picture.append(line);
  return picture;
}
const named = (name) => el("span", {}, swatch(looks[name]), name);

const note = (text) => el("p", { class: "note" }, text);
const cards = (...inside) => el("div", { class: inside.length > 1 ? "cards many" : "cards" }, ...inside);
const card = (title, subtitle, chart) =>
  el("div", { class: "card" }, el("h3", {}, title), el("p", { class: "subtitle" }, subtitle), chart);
const folded = (title, ...inside) => el("details", {}, el("summary", {}, title), ...inside);
const plural = (count, word) => `${count.toLocaleString("en")} ${word}${count === 1 ? "" : "s"}`;
const code = (value) => el("code", {}, exact(value));
