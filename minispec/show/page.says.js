// What a step says, in a sentence or two: shown, and read out by screen readers.

const ENDINGS = {
  eos: "the model ended it",
  stop: "a stop text was reached",
  length: "all tokens asked for are written",
  context: "the model's context is full",
};

function list(tokens) {
  return tokens.map((token) => token.token).join(", ");
}

function says(round, step) {
  const K = round.drafted.length;
  if (step === 0) {
    if (!K) return "Nothing is drafted: the target writes one token alone.";
    const passes = "one pass of the target verifies ";
    return K === 1 ? `One token is drafted: ${list(round.drafted)}; ${passes}it.`
      : `${K} tokens are drafted: ${list(round.drafted)}; ${passes}them all.`;
  }
  if (step <= judged(round)) return saysFate(round.drafted[step - 1], step);
  return `${saysDraw(round)} ${saysCaches(round)}${saysEnd(round)}`;
}

function saysFate(token, position) {
  const [draw, ratio] = drawAndRatio(token);
  const name = `Draft ${position}, ${token.token}`;
  if (token.fate === "not judged") return `${name}: after the end of the text, so not judged.`;
  return token.fate === "accepted"
    ? `${name}: the draw ${draw} is below the ratio ${ratio}, so it is accepted.`
    : `${name}: the draw ${draw} is not below the ratio ${ratio}, so it is rejected, ` +
      "and no draft after it is judged.";
}

function saysDraw(round) {
  const { kind, token, kept } = round.draw;
  if (!kept) return "What is drawn now is dropped: the text has ended.";
  if (kind === "plain") return `The target draws ${token}.`;
  if (kind === "residual") return `${token} is drawn from the residual in its place.`;
  return `All are accepted: ${token} is drawn from the target's last row, for free.`;
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
