// A round: the tree of drafts, a picture for each try, the draw, caches and totals.
// Steps: 0 drafts, 1 to n each try a draft (or a block of them), n + 1 draws the last.

const TOTALS = {
  target_forwards: "target passes",
  emitted: "tokens written",
  drafted: "drafted",
  judged: "judged",
  accepted: "accepted",
  acceptance_rate: "accepted / judged",
  tokens_per_target_forward: "tokens per target pass",
};
const CERTAIN = {
  coupled: "Coupled draws: the noise of each position was thrown beforehand, so the " +
    "rows have all their mass on the one token that it chooses.",
  greedy: "Temperature 0 or top-k 1: all mass is on the most probable token.",
};
const DRAWN_FROM = {
  residual: "Drawn from the residual: only what the target has beyond the draft, made to sum to 1.",
  bonus: "Drawn from the target's row after the last accepted draft.",
  plain: "Drawn from the target's row.",
  target: "Drawn from the target's whole row. This judge has no residual, and is not exact.",
  other: "Drawn from a row of this judge's own, so the output may have another distribution.",
};

const LEFT = {  // of the target, where it is not its row alone
  together: " The target's row counts times the chance that the drafts before are kept.",
  tree: " Every rejected sibling takes its share off the target first.",
};

const lastStep = (round) => round.tries.length + 1;

// ------------------------------------------------------------------------------ tree

function nodeBox(text, name, spoken) {
  return make("span", { class: `node ${classOf(name)}` },
    hiddenFromReaders(SIGNS[name][0]), make("span", { class: "token" }, text),
    forReaders(` ${spoken}`));
}

function extraNode(round) {
  const { token, kept } = round.draw;
  const name = kept ? round.text[round.text.length - 1].label : "not judged";
  const box = nodeBox(token, name, kept ? name : "dropped");
  return later(lastStep(round), make("li", { class: "extra later" }, box));
}

function treePart(round) {
  const root = make("li", { class: "kept" }, make("span", { class: "node" }, "the text so far"));
  const lists = new Map();
  const hang = (parent, item) => {
    if (!lists.has(parent)) {
      lists.set(parent, make("ul", {}));
      parent.append(lists.get(parent));
    }
    lists.get(parent).append(item);
  };
  const items = [];
  for (const [i, { token, parent, fate: name, step }] of round.drafted.entries()) {
    const kind = round.path.includes(i) ? "kept" : "";
    const item = make("li", { class: kind }, nodeBox(token, name, name));
    item.dataset.node = i;
    hang(parent < 0 ? root : items[parent], later(step, item));
    items.push(item);
  }
  const end = round.path.length ? items[round.path[round.path.length - 1]] : root;
  hang(end, extraNode(round));
  return make("div", { class: "wide", tabindex: "0", role: "group", "aria-label": "Drafts" },
    make("ul", { class: "tree" }, root));
}

// -------------------------------------------------------------------------- pictures

function trialPart(round, one) {
  const outcome = fate(one.passed ? "accepted" : "rejected");
  outcome.classList.add("later");
  if (one.chance === null) {
    return make("p", { class: "trial" }, "By a rule, without chance ", outcome);
  }
  const [draw, chance] = drawAndChance(one);
  const about = one.picture.bars.find((bar) => bar.about);
  const ratio = NUMBERS.target(about) / NUMBERS.draft(about);
  const is = Math.abs(ratio - one.chance) <= 1e-4 * ratio ? "target / draft =" : "chance";
  return make("p", { class: "trial" }, make("span", {}, `${is} ${chance} `),
    scale("odds", one.chance, one.draw),
    make("span", { class: "later" }, ` draw ${draw} `), outcome);
}

// What the target's bars are, where they are not simply its row; what the chance is.
function notesOn(round, one) {
  const notes = [], kept = NUMBERS.target(one.picture);
  if (round.judging === "together" && kept < 1 - 1e-6) {
    const chance = `${number(kept)}, the chance that the drafts before are kept`;
    notes.push(`Target: its row times ${chance}.`);
  }
  if (round.judging === "together" && one.node + 1 < round.drafted.length) {
    notes.push("The chance is not target / draft but S / (S + 1 - k): k is target / draft " +
      "here, at most 1, and S is what the target, times k, has beyond the draft at the next " +
      "position.");
  }
  if (one.siblings) {
    notes.push("Target: what is left of its row, now that " +
      (one.siblings === 1 ? "a sibling was" : `${one.siblings} siblings were`) + " rejected.");
  }
  if (decode.certain) notes.push(CERTAIN[decode.certain]);
  return notes.map((note) => make("p", { class: "note" }, note));
}

function figure(step, title, ...children) {
  const element = make("figure", { class: "picture" }, make("figcaption", {}, title), ...children);
  element.dataset.picture = step;
  return later(step, element);
}

function tryPart(round, one, i) {
  return figure(i + 1, `${nameOf(round, one)}: what the target and the draft gave there`,
    barsOf(one.picture, ["target", "draft"], "drafted"), legendOf(one.picture),
    trialPart(round, one), ...notesOn(round, one));
}

function drawPart(round) {
  const { kind, kept, picture } = round.draw;
  const is = kind === "residual" ? "faded" : "alone";
  const dropped = kept ? "" : " It is dropped: the text has ended.";
  const left = kind === "residual" ? LEFT[round.judging] ?? "" : "";
  const part = figure(lastStep(round), "The token after the drafts",
    barsOf(picture, ["probability"], "drawn", is),
    ...(kind === "residual" ? [legendOf(picture)] : []),
    make("p", { class: "note" }, DRAWN_FROM[kind] + left + dropped));
  part.classList.add("later");
  return part;
}

// ------------------------------------------------------------------ caches and totals

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
  const pictures = round.tries.map((one, k) => tryPart(round, one, k));
  return make("section", { class: "round", "aria-labelledby": title.id }, title,
    treePart(round), make("div", { class: "pictures" }, ...pictures, drawPart(round)),
    make("div", {}, cachesPart(round), totalsPart(round)));
}
