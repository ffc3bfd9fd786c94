// Elements and numbers. Texts become text nodes (append), never markup.

const SIGNS = {
  accepted: ["✓", "accepted: the draft's token stays"],
  rejected: ["✗", "rejected: the draft's token does not stay"],
  "not judged": ["○", "not judged: after a rejection, or after the end of the text"],
  resampled: ["↻", "resampled: drawn in place of the rejected token"],
  bonus: ["+", "bonus: no draft was left, so one more comes for free"],
  plain: ["●", "plain: the target's own, because nothing was drafted"],
};

function make(tag, attributes, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    element.setAttribute(name, value);
  }
  element.append(...children);
  return element;
}

const hiddenFromReaders = (sign) => make("span", { class: "sign", "aria-hidden": "true" }, sign);
const forReaders = (text) => make("span", { class: "spoken" }, text);
const classOf = (name) => name.replace(" ", "-");
const rowHead = (text, kind = "") => make("th", { scope: "row", class: kind }, text);
const cell = (text, kind = "") => make("td", { class: kind }, text);

function fate(name) {
  return make("span", { class: `fate ${classOf(name)}` }, hiddenFromReaders(SIGNS[name][0]),
    make("span", { class: "name" }, ` ${name}`));
}

function number(value, digits = 3) {
  if (value === null) return "-";
  if (value > 0 && value < 0.5 * 10 ** -digits) return `<${(10 ** -digits)}`;
  if (value >= 1000) return ">999";
  return value.toFixed(value >= 10 ? 1 : digits);
}

// A draw and the chance it is compared with, with as many digits as tell them apart.
function drawAndChance({ draw, chance }) {
  for (let digits = 3; digits < 17; digits++) {
    const shown = [number(draw, digits), number(chance, digits)];
    if (shown[0] !== shown[1]) return shown;
  }
  return [String(draw), String(chance)];
}

function scale(kind, fill, tick = null) {
  const bar = make("span", { class: `scale ${kind}`, "aria-hidden": "true" },
    make("span", { class: "fill" }));
  bar.firstChild.style.width = `${100 * Math.min(1, fill)}%`;
  if (tick !== null) {
    bar.append(make("span", { class: "tick later" }));
    bar.lastChild.style.left = `calc(${100 * tick}% - 2px)`;
  }
  return bar;
}

function table(kind, caption, heads, rows) {
  const head = heads.map((text) => make("th", { scope: "col" }, text));
  return make("table", { class: kind }, make("caption", {}, caption),
    make("thead", {}, make("tr", {}, ...head)), make("tbody", {}, ...rows));
}

// A total: a count as it is, a rate with its digits.
function total(name, value) {
  return value === null || name.includes("_rate") || name.includes("_per_")
    ? number(value) : String(value);
}

// What a step before this one does not show yet.
function later(step, element) {
  element.dataset.step = step;
  return element;
}
