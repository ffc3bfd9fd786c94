// The page: everything is made once, and a step only decides what is hidden.

const decode = JSON.parse(document.getElementById("decode").textContent);
const byId = (id) => document.getElementById(id);

const times = (value) => (value === null ? "-" : `${number(value, 2)}\u00d7`);
const whole = (value) => (value === null ? "-" : String(Math.round(value)));
const SPEEDS = {
  measured: ["measured speed-up", times],
  predicted: ["predicted from alpha, c and v", times],
  predicted_if_flat: ["predicted if verifying took one step (v = 1)", times],
  alpha: ["alpha: accepted / judged", number],
  cost_ratio: ["c: a draft step over a target step", number],
  verify_cost: ["v: verifying over a target step", number],
  tokens_per_s: ["tokens per second", whole],
  target_alone_tokens_per_s: ["tokens per second of the target alone", whole],
};

const steps = decode.rounds.flatMap((round, r) =>
  Array.from({ length: lastStep(round) + 1 }, (_, step) => ({ r, step })));
const sections = decode.rounds.map(roundSection);
let at = 0;

function textSpans() {
  return decode.rounds.flatMap((round, r) => round.text.map(({ text, label }, i) => {
    const span = make("span", { class: `mark ${label}` }, text);
    const accepted = label === "accepted";
    return { span, r, step: accepted ? round.drafted[round.path[i]].step : lastStep(round) };
  }));
}
const spans = textSpans();

function show(index) {
  at = Math.max(0, Math.min(index, steps.length - 1));
  const { r, step } = steps[at];
  sections.forEach((section, i) => { section.hidden = i !== r; });
  for (const part of sections[r].querySelectorAll("[data-step]")) {
    part.classList.toggle("pending", Number(part.dataset.step) > step);
  }
  pointAt(sections[r], step);
  for (const mark of spans) {
    const future = mark.r > r || (mark.r === r && mark.step > step);
    mark.span.classList.toggle("future", future);
    mark.span.classList.toggle("current", mark.r === r && !future);
  }
  byId("where").textContent = `Round ${r + 1} of ${sections.length}`;
  byId("jump").value = r + 1;
  byId("says").textContent = says(decode.rounds[r], step);
  setEnds();
  scrollText(r);
}

// The picture of this step, and its draft in the tree. Before the first try, the first.
function pointAt(section, step) {
  for (const picture of section.querySelectorAll("[data-picture]")) {
    picture.classList.toggle("away", Number(picture.dataset.picture) !== Math.max(1, step));
  }
  const { tries } = decode.rounds[steps[at].r];
  const node = step && step <= tries.length ? tries[step - 1].node : null;
  for (const item of section.querySelectorAll("[data-node]")) {
    item.classList.toggle("at", Number(item.dataset.node) === node);
  }
  const tree = section.querySelector(".wide");
  const box = section.querySelector(".at > .node") ?? section.querySelector(".extra > .node");
  const place = step && box.getBoundingClientRect(), frame = tree.getBoundingClientRect();
  if (!step) tree.scrollLeft = 0;
  else if (place.right > frame.right || place.left < frame.left) {
    tree.scrollLeft += place.left - frame.left - 30;
  }
}

function setEnds() {
  const first = at === 0, last = at === steps.length - 1;
  for (const [id, off] of Object.entries({
    "round-back": first, "step-back": first, "step-on": last, "round-on": last,
  })) byId(id).setAttribute("aria-disabled", off);  // disabled would lose the focus
}

// A click on a draft goes to the step that judges it.
function onClick(event) {
  const item = event.target.closest("[data-node]");
  if (!item) return;
  const { r } = steps[at];
  const tried = decode.rounds[r].tries.findIndex((one) => one.node === Number(item.dataset.node));
  if (tried >= 0) show(steps.findIndex((one) => one.r === r) + tried + 1);
}

// Only the panel scrolls, never the page under the reader.
function scrollText(r) {
  const panel = byId("text");
  const mark = spans.find((one) => one.r === r);
  if (mark) panel.scrollTop = mark.span.offsetTop - panel.offsetTop - 120;
}

const endOf = (r) => steps.findIndex((one) => one.r === r) + lastStep(decode.rounds[r]);
function roundOn() {
  const { r } = steps[at];
  show(at < endOf(r) ? endOf(r) : endOf(Math.min(r + 1, sections.length - 1)));
}
function roundBack() {
  const { r } = steps[at];
  show(r ? endOf(r - 1) : 0);
}

function onKey(event) {
  if (event.ctrlKey || event.altKey || event.metaKey) return;
  if (event.target.id === "jump") return;  // the slider has the same keys
  const actions = event.shiftKey
    ? { ArrowRight: roundOn, ArrowLeft: roundBack }
    : {
      ArrowRight: () => show(at + 1), ArrowLeft: () => show(at - 1),
      Home: () => show(0), End: () => show(steps.length - 1),
    };
  if (!(event.key in actions)) return;
  event.preventDefault();
  actions[event.key]();
}

function speedRow([name, [title, format]]) {
  const value = cell(format(decode.speed[name]));
  return make("tr", { "data-speed": name }, rowHead(title), value);
}

function positionRow(share, i) {
  return make("tr", {}, rowHead(`draft ${i + 1}`), cell(number(share)),
    make("td", {}, scale("prob", share)));
}

function fill() {
  byId("text").append(make("span", {}, decode.prompt), ...spans.map((one) => one.span));
  byId("rounds").append(...sections);
  byId("signs").append(...Object.entries(SIGNS).map(([name, [, meaning]]) =>
    make("li", {}, fate(name), meaning.slice(name.length))));
  byId("speed-rows").append(...Object.entries(SPEEDS).map(speedRow));
  byId("position-rows").append(...decode.acceptance_by_position.map(positionRow));
  for (const [name, value] of Object.entries(decode.settings)) {
    byId("settings").append(make("dt", {}, name), make("dd", {}, value));
  }
}

fill();
byId("jump").max = Math.max(1, sections.length);
if (steps.length) {
  byId("step-on").onclick = () => show(at + 1);
  byId("step-back").onclick = () => show(at - 1);
  byId("round-on").onclick = roundOn;
  byId("round-back").onclick = roundBack;
  byId("jump").oninput = (event) => show(endOf(event.target.valueAsNumber - 1));
  document.addEventListener("keydown", onKey);
  byId("rounds").addEventListener("click", onClick);
  show(0);
} else {
  byId("says").textContent = "Nothing was decoded: no token was asked for.";
}
