// What a step says, in a sentence or two: shown, and read out by screen readers.

const ENDINGS = {
  eos: "the model ended it",
  stop: "a stop text was reached",
  length: "all tokens asked for are written",
  context: "the model's context is full",
};
const REPLACED = {
  residual: "is drawn from the residual in its place",
  target: "is drawn from the target's row in its place",
  other: "is drawn by the judge in its place",
};

// The draft that a try is about; a block of drafts by its last.
function nameOf(round, one) {
  const { token } = round.drafted[one.node], n = one.siblings;
  const after = n ? ` after ${n} rejected sibling${n > 1 ? "s" : ""}` : "";
  if (round.judging === "tree") return `Draft ${token}${after}`;
  return `Draft ${one.node + 1}, ${token}`;
}

function says(round, step) {
  if (step === 0) return saysDrafts(round);
  if (step < lastStep(round)) return saysTry(round, round.tries[step - 1]);
  return `${saysDraw(round)} ${saysCaches(round)}${saysEnd(round)}`;
}

function saysDrafts({ drafted, judging }) {
  const K = drafted.length, passes = "one pass of the target verifies ";
  if (!K) return "Nothing is drafted: the target writes one token alone.";
  if (K === 1) return `One token is drafted: ${drafted[0].token}; ${passes}it.`;
  const tokens = drafted.map((one) => one.token).join(", ");
  return judging === "tree" ? `A tree of ${K} tokens is drafted; ${passes}them all.`
    : `${K} tokens are drafted: ${tokens}; ${passes}them all.`;
}

function saysTry(round, one) {
  const name = nameOf(round, one);
  const { node, passed, chance } = one;
  if (round.drafted[node].fate === "not judged") {
    return `${name}: after the end of the text, so not judged.`;
  }
  if (chance === null) {
    return `${name}: the judge's rule ${passed ? "accepts" : "rejects"} it, without a draw.`;
  }
  const [draw, shown] = drawAndChance(one);
  const so = `the draw ${draw} is ${passed ? "" : "not "}below the chance ${shown}, so`;
  if (round.judging === "together") return saysBlock(node + 1, so, passed);
  if (passed) return `${name}: ${so} it is accepted.`;
  const rest = round.judging === "one by one" ? ", and no draft after it is judged" : "";
  return `${name}: ${so} it is rejected${rest}.`;
}

function saysBlock(n, so, passed) {
  const name = n > 1 ? `Drafts 1 to ${n} together` : "Draft 1 alone";
  if (passed) return `${name}: ${so} ${n > 1 ? "all of them are" : "it is"} accepted.`;
  return `${name}: ${so} draft ${n} is rejected${n > 1 ? "; fewer may stay" : ""}.`;
}

function saysDraw(round) {
  const { kind, token, kept } = round.draw;
  if (!kept) return "What is drawn now is dropped: the text has ended.";
  if (kind === "plain") return `The target draws ${token}.`;
  if (kind === "bonus") {
    return `No draft is left to judge: ${token} is drawn from the target's last row, for free.`;
  }
  return `${token} ${REPLACED[kind]}.`;
}

function saysCaches(round) {
  const turn = ([, reached, after]) => reached === after
    ? `stays at ${after}` : `is rolled back from ${reached} to ${after}`;
  const { target, draft } = round.caches;
  const other = draft ? `, the draft's ${turn(draft)}` : "";
  return `The target's cache ${turn(target)}${other}.`;
}

function saysEnd(round) {
  return round.finish_reason ? ` The text ends: ${ENDINGS[round.finish_reason]}.` : "";
}
