// The parts of a round as elements. Texts become text nodes (append), never markup.

const SIGNS = {
  accepted: ["✓", "accepted: the target accepts the draft's token"],
  rejected: ["✗", "rejected: the first draft that the target does not accept"],
  "not judged": ["○", "not judged: after a rejection, or after the end of the text"],
  resampled: ["↻", "resampled: drawn from the residual, to replace the rejected token"],
  bonus: ["+", "bonus: all were accepted, so one more comes for free"],
  plain: ["●", "plain: the target's own, because nothing was drafted"],
};
const ROWS = {
  residual: "the residual: what the target gives beyond the draft's probability, normalised",
  bonus: "the target's row after the last draft",
  plain: "the target's row",
};
const TOTALS = {
  target_forwards: "target passes",
  emitted: "tokens written",
  drafted: "drafted",
  judged: "judged",
  accepted: "accepted",
  acceptance_rate: "accepted / judged",
  tokens_per_target_forward: "tokens per target pass",
};

// ------------------------------------------------------------------------- elements

function make(tag, attributes, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    element.setAttribute(name, value);
  }
  element.append(...children);
  return element;
}

const hiddenFromReaders = (sign) => make("span", { "aria-hidden": "true" }, sign);

const classOf = (name) => name.replace(" ", "-");

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

// A draw and the ratio it is compared with, with as many digits as tell them apart.
function drawAndRatio(token) {
  for (let digits = 3; digits < 17; digits++) {
    const shown = [number(token.draw, digits), number(token.ratio, digits)];
    if (shown[0] !== shown[1]) return shown;
  }
  return [String(token.draw), String(token.ratio)];
}

function scale(kind, fill, tick = null) {
  const bar = make("span", { class: "scale", "aria-hidden": "true" });
  bar.append(make("span", { class: "fill" }));
  bar.firstChild.style.width = `${100 * Math.min(1, fill)}%`;
  if (tick !== null) {
    bar.append(make("span", { class: "tick" }));
    bar.lastChild.style.left = `calc(${100 * tick}% - 2px)`;
  }
  return make("td", { class: kind }, bar);
}

function table(kind, caption, heads, rows) {
  const head = make("tr", {}, ...heads.map((text) => text === ""
    ? cell("", "odds")
    : make("th", { scope: "col", class: text === "fate" ? "word" : "" }, text)));
  return make("table", { class: kind }, make("caption", {}, caption), make("thead", {}, head),
    make("tbody", {}, ...rows));
}

// A total: a count as it is, a rate with its digits.
function total(name, value) {
  return value === null || name.includes("_rate") || name.includes("_per_")
    ? number(value) : String(value);
}

const rowHead = (text, kind = "") => make("th", { scope: "row", class: kind }, text);
const cell = (text, kind = "") => make("td", { class: kind }, text);

// ---------------------------------------------------------------------------- rounds
// Steps of a round: 0 proposes, 1 to n each judge a token, n + 1 draws the last one.

const judged = (round) => round.drafted.filter((token) => token.draw !== null).length;
const lastStep = (round) => judged(round) + 1;

function later(step, element) {
  element.dataset.step = step;
  return element;
}

function draftedRow(token, i, round) {
  const [draw, ratio] = token.draw === null
    ? ["-", number(token.ratio)] : drawAndRatio(token);
  const row = make("tr", {},
    rowHead(token.token, "token"),
    cell(number(token.draft_prob)),
    cell(number(token.target_prob)),
    cell(ratio),
    cell(draw, "later"),
    scale("odds", token.ratio, token.draw),
    make("td", { class: "word later" }, fate(token.fate)));
  row.children[5].classList.add("later");
  return later(Math.min(i + 1, judged(round)), row);
}

function draftedPart(round) {
  if (!round.drafted.length) {
    return make("p", {}, "Nothing was drafted: the target takes a plain step.");
  }
  return table("drafted",
    "Accepted if the draw is below the ratio, target over draft; a ratio of 1 or more " +
    "always passes. The bar is the chance of acceptance, the tick is the draw.",
    ["token", "draft", "target", "ratio", "draw", "", "fate"],
    round.drafted.map((token, i) => draftedRow(token, i, round)));
}

function drawPart(round) {
  const { kind, token, kept, top } = round.draw;
  const rows = top.map((entry) => make("tr", {},
    rowHead(entry.token, "token"),
    cell(number(entry.prob)),
    scale("prob", entry.prob),
    make("td", { class: "word" }, entry.drawn ? "◀ drawn" : "")));
  const label = round.text[round.text.length - 1].label;
  const outcome = kept ? make("p", {}, make("span", { class: "token" }, token), " ",
    fate(label)) : make("p", {}, "What was drawn is dropped: the text has ended.");
  return later(lastStep(round), make("div", { class: "later draw" },
    make("h3", {}, "The token after the drafts"), outcome,
    table("row", `Drawn from ${ROWS[kind]}. Its most probable tokens:`,
      ["token", "probability", "", ""], rows)));
}

function cachesPart(round) {
  const row = (name, lengths) => {
    const after = make("td", { class: "later" }, String(lengths[2]));
    return later(lastStep(round), make("tr", { "data-cache": name },
      rowHead(name), cell(String(lengths[0])), cell(String(lengths[1])), after));
  };
  const rows = [row("target", round.caches.target)];
  if (round.caches.draft) rows.push(row("draft", round.caches.draft));
  return make("div", {}, make("h3", {}, "Cache lengths"), table("caches",
    `Positions held. After the round ${round.committed} tokens are committed; a cache ` +
    "never keeps the last of them, because it is fed next.",
    ["cache", "before", "drafted and verified", "rolled back"], rows));
}

function totalsPart(round) {
  const list = make("dl", { class: "totals" });
  for (const [name, title] of Object.entries(TOTALS)) {
    list.append(make("div", { "data-total": name }, make("dt", {}, title),
      make("dd", {}, total(name, round.totals[name]))));
  }
  return later(lastStep(round), make("div", { class: "later sum" },
    make("h3", {}, "Totals so far"), list));
}

function roundSection(round, i) {
  const title = make("h2", { id: `round-${i + 1}` }, `Round ${i + 1}`);
  return make("section", { class: "round", "aria-labelledby": title.id }, title,
    make("div", {}, draftedPart(round), drawPart(round)),
    make("div", {}, cachesPart(round), totalsPart(round)));
}
