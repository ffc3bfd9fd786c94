// Two distributions as bars, one over the other. Each bar begins with what they share,
// min(target, draft); then comes what one of them has beyond it.

const PARTS = {
  overlap: "min(target, draft)",
  residual: "target beyond draft",
  surplus: "draft beyond target",
};
const NUMBERS = {
  target: ({ overlap, residual }) => overlap + residual,
  draft: ({ overlap, surplus }) => overlap + surplus,
  probability: ({ prob }) => prob,
};

const lengthOf = ({ overlap, residual, surplus }) => overlap + residual + surplus;

// `unit` is the length of a whole line.
function barOf(shares, unit) {
  const bar = make("span", { class: "bar", "aria-hidden": "true" });
  for (const part of Object.keys(PARTS)) {
    if (!shares[part]) continue;
    bar.append(make("span", { class: `part ${part}` }));
    bar.lastChild.style.width = `${100 * shares[part] / unit}%`;
  }
  return bar;
}

function valueOf(title, shares) {
  return make("span", { class: "value" }, forReaders(`${title} `),
    number(NUMBERS[title](shares)));
}

// A line for each token and one for all the others; `titles` names the numbers, and
// `mark` says what happened to the token that the picture is about.
function barsOf({ bars, others }, titles, mark, kind = "") {
  const all = others.n ? [...bars, others] : bars;
  const unit = Math.max(...all.map(lengthOf));
  const line = (name, shares) => make("li", {}, name, barOf(shares, unit),
    ...titles.map((title) => valueOf(title, shares)));
  const head = make("li", { class: "head", "aria-hidden": "true" },
    ...["", "", ...titles].map((title) => make("span", { class: "value" }, title)));
  const list = make("ul", { class: `bars ${kind}` }, head);
  for (const shares of bars) {
    const name = make("span", { class: "token" }, shares.token);
    const element = line(name, shares);
    if (shares.about) {
      element.classList.add("about");
      name.append(make("span", { class: "mark-of" }, ` ◀ ${mark}`));
    }
    list.append(element);
  }
  if (others.n) list.append(line(make("span", {}, `${others.n} more`), others));
  return list;
}

// What the shades mean, with the sums over the whole vocabulary.
function legendOf(picture) {
  return make("ul", { class: "legend" }, ...Object.entries(PARTS).map(([part, title]) =>
    make("li", { "data-part": part }, make("span", { class: `part ${part}` }),
      `${title}: `, make("b", {}, number(picture[part])))));
}
