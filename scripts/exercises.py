"""The exercises as data: what each is about, what it asks, and how to get unstuck.

`start_exercises.py` makes the stubs from the functions named here, and `pytest --impl`
grades these functions and no others. Read them in this order, or do any alone.
"""

from __future__ import annotations

from typing import NamedTuple


class Exercise(NamedTuple):
    """One exercise. `functions` are "file:name" below minispec/."""

    number: int
    title: str
    functions: tuple[str, ...]
    why: str
    equation: str
    contract: str
    hints: tuple[str, str]
    read_next: str


EXERCISES = (
    Exercise(
        1,
        "logits to probabilities",
        (
            "sampling.py:logits_to_probs",
            "sampling.py:keep_top_k",
            "sampling.py:keep_top_p",
        ),
        "A model gives logits; what a token is drawn from is decided afterwards. "
        "Temperature, top-k and top-p change the law of the text, and speculative "
        "decoding reproduces the law after these changes: if draft and target went "
        "through different chains in verification, exactness would be lost.",
        "p(x) = exp(z(x) / T) / sum_y exp(z(y) / T); T = 0 is one-hot at the argmax.\n"
        "top-k keeps the k most probable tokens (Fan et al. 2018); top-p the fewest "
        "most\nprobable whose mass reaches p (Holtzman et al. 2020); both renormalise.",
        "[R, V] logits to [R, V] rows that sum to 1, in float32 or wider. The order is "
        "penalties, minimum length, temperature, top-k, top-p, min-p. Among equals the "
        "lower ids stay. A row with NaN, +inf or only -inf, be it only after the "
        "first two steps, is a ValueError. `truncate`, `penalize_repeats`, "
        "`forbid_early_eos` and `one_hot` are there.",
        (
            "Subtract each row's highest logit before you divide by the temperature: "
            "softmax does not change, and a tiny temperature cannot overflow.",
            "Top-p: sort(dim=-1, descending=True, stable=True). A token stays if the "
            "mass before it (cumsum minus itself) is still below p. Scatter back to "
            "the old order.",
        ),
        "randomness.py in your folder: how a token is drawn from such a row",
    ),
    Exercise(
        2,
        "attention over the cache",
        (
            "attention.py:open_attention",
            "attention.py:causal_mask",
            "gpt2.py:Attention.forward",
        ),
        "A decoder that recomputed the past for every token would do the same work "
        "again and again. With a cache the T new tokens ask, and all S + T keys "
        "answer. This also makes verification of K drafts one single pass.",
        "attention(Q, K, V) = softmax(Q K^T * scale + mask) V\n"
        "(Vaswani et al. 2017, equation 1; scale = 1 / sqrt(D), here self.scale)",
        "open_attention: queries [B, H, T, D], keys and values [B, H, S + T, D], to "
        "[B, H, T, D]. causal_mask(n_new, n_all): [T, S + T], 0 where new token i may "
        "look, -inf elsewhere; None for a single new token. Attention.forward: [B, T, "
        "E] to [B, T, E], appending keys and values to the cache if there is one.",
        (
            "The new tokens are the last n_new of n_all: row i sees n_all - n_new + i "
            "+ 1 positions. torch.triu with the right diagonal says just that.",
            "c_attn gives [B, T, 3 E]: view it as [B, T, 3, heads, D] and permute to "
            "three [B, H, T, D]. Append before you attend, and attend to what append "
            "returned.",
        ),
        "gpt2.py in your folder: `trunk`, where positions and mask meet the cache",
    ),
    Exercise(
        3,
        "appending to the cache",
        ("kv_cache.py:KVCache.append", "kv_cache.py:KVCache.advance"),
        "The cache is a block of memory with a length. Appending writes behind the "
        "length; every layer of one pass writes to the same slots, so the length moves "
        "once, when all have written.",
        "after a pass over T tokens: length = S + T, and slot i holds k_i and v_i\n"
        "(Pope et al. 2022, arXiv 2211.05102, on what a cache saves and costs)",
        "append writes one layer's rows [B, H, T, D] and returns views of all its "
        "rows [B, H, S + T, D], without moving `length` (S); what does not fit the "
        "capacity is a ValueError. advance(n_new) moves `length` on.",
        (
            "No torch.cat: it copies the past for every token. Assign to a slice.",
            "keys[:, :, self.length : end] = key; return keys[:, :, :end].",
        ),
        "rollback.py in your folder: why nothing is ever cleared",
    ),
    Exercise(
        4,
        "the autoregressive loop",
        ("autoregressive.py:autoregressive_steps", "autoregressive.py:next_probs"),
        "The baseline: one pass of the target for every token. It is what speculative "
        "decoding must equal in law, so it has to be right first.",
        "x_t ~ p(. | x_1 .. x_(t-1)), for t = n + 1, n + 2, ...",
        "next_probs feeds only what the cache has not seen and returns one row [V]. "
        "autoregressive_steps yields a Step for each token, lazily, until the limits "
        "end the text; it draws through `randomness` and asks `limits.cut` whether "
        "the token is the last.",
        (
            "The cache knows its own length: feed prefix[cache.length:].",
            "while limits.room(len(prefix)) and reason is None: draw, cut, append, "
            "yield. The head is needed at the last position only.",
        ),
        "draft.py in your folder: the same loop, which also keeps its rows",
    ),
    Exercise(
        5,
        "the draft loop",
        ("draft.py:draft",),
        "A small model guesses K tokens ahead. What makes all that follows exact is "
        "bookkeeping: with every token goes the very distribution it was drawn from.",
        "for i = 1 .. gamma: q_i = M_q(prefix + x_1 .. x_(i-1)), x_i ~ q_i\n"
        "(Leviathan et al. 2023, algorithm 1, first loop)",
        "Returns Proposal(tokens [K], draft_probs [K, V]); K = 0 gives empty tensors "
        "of these shapes and runs nothing. Feeds only unseen tokens; the last drafted "
        "token stays unseen. Rows are what logits_to_probs makes of the logits.",
        (
            "The chain looks back: hand logits_to_probs all tokens so far, drafts "
            "included.",
            "Start the list of rows with an empty [0, V] tensor, then torch.cat works "
            "for K = 0 too.",
        ),
        "verify.py in your folder: the target's opinion of these tokens",
    ),
    Exercise(
        6,
        "parallel verification",
        ("verify.py:verify",),
        "Here the speed comes from: one pass of the target over K + 1 tokens takes "
        "far less time than K + 1 passes, and gives as many distributions.",
        "p_1(x), ..., p_(gamma+1)(x) = M_p(prefix), ..., M_p(prefix + x_1 .. x_gamma)\n"
        "in parallel (Leviathan et al. 2023, algorithm 1)",
        "[n] prefix and [K] tokens to [K + 1, V] rows: row i is after prefix + "
        "tokens[:i]. One pass over what the cache has not seen; afterwards it holds "
        "everything. K = 0 is a plain step.",
        (
            "Row 0 is after the last prefix token, so the pass must include it: the "
            "cache never holds the whole prefix.",
            "hidden[:, -(K + 1):] are the positions that matter; the history for "
            "logits_to_probs is prefix and drafts together.",
        ),
        "rejection.py in your folder: what is done with the two sets of rows",
    ),
    Exercise(
        7,
        "acceptance ratios and leading acceptances",
        ("rejection.py:acceptance_ratios", "randomness.py:Seeded.leading_accepts"),
        "Each drafted token is kept with a chance that depends on how much more the "
        "target likes it than the draft did. The first refusal ends the block: what "
        "comes after it was conditioned on a token that is not there.",
        "keep x_i with probability min(1, p_i(x_i) / q_i(x_i));\n"
        "n = min({i - 1 : r_i > p_i(x_i) / q_i(x_i)} + {gamma}), r_i ~ U(0, 1)\n"
        "(Leviathan et al. 2023, algorithm 1)",
        "acceptance_ratios: [K], [K, V], [K + 1, V] to [K], without a minimum; a "
        "drafted token of draft probability 0 is a ValueError. leading_accepts: one "
        "fresh uniform per ratio, from self._generator.random(); accept strictly "
        "below the ratio; count until the first refusal.",
        (
            "Tensor.gather picks one column from each row. The target has one row more "
            "than the draft.",
            "`<`, not `<=`: the generator can return exactly 0, and a ratio of 0 must "
            "never pass. Compare with ratios.tolist(): beside a float32 tensor the "
            "uniform is rounded to float32, perhaps up to 1.",
        ),
        "rejection.py in your folder: at its top, why this changes nothing",
    ),
    Exercise(
        8,
        "the residual",
        ("rejection.py:residual",),
        "A refusal must not simply be followed by a draw from the target: the tokens "
        "that the draft liked had their chance already. Draw from what is missing.",
        "p'(x) = norm(max(0, p(x) - q(x)))\n"
        "(Leviathan et al. 2023, section 2.3 and appendix A.1; Chen et al. 2023,\n"
        "algorithm 2, who swap the letters: here p is the target and q the draft)",
        "Two rows [V] to one row [V] that sums to 1, in the rows' own type. Where the "
        "target nowhere exceeds the draft, the rows are equal and only rounding can "
        "have refused: return the target's row. The arguments stay as they are.",
        (
            "norm divides by the sum. It is not a softmax.",
            "Check the identity on paper: min(t, d) + (1 - sum min(t, d)) * residual = "
            "t.",
        ),
        "tests/test_rejection.py: the law of a whole block, enumerated",
    ),
    Exercise(
        9,
        "rollback",
        ("rollback.py:rollback", "kv_cache.py:KVCache.truncate"),
        "Both models ran ahead of the text, and some of it was refused. Rows of a "
        "causal model depend on the past only: what stands before the refusal is "
        "still right, and the rest is forgotten by moving a length.",
        "after every round, with n tokens committed: cache.length <= n - 1, and the\n"
        "cache holds prefix[:cache.length]     (algorithm 1 does not speak of caches)",
        "rollback(cache, length): hold at most the first `length` positions; a shorter "
        "cache stays as it is. truncate(length): exactly `length`; ValueError unless "
        "0 <= length <= self.length. No memory moves and nothing is cleared.",
        (
            "Absolute, never by a count: after an all-accepted round the draft is "
            "shorter than you think.",
            "rollback is a comparison and a call; truncate is a check and an "
            "assignment.",
        ),
        "minispec/generation.py: `Round` and `fate`, what a round tells",
    ),
    Exercise(
        10,
        "one round",
        ("speculative.py:speculative_round",),
        "Draft, verify, reject, commit, roll back: the four parts in a row. There is "
        "no mathematics left here, only the order of things.",
        "Leviathan et al. 2023, algorithm 1, as a whole",
        "Returns Round(drafted, committed, finish_reason). Committed are the accepted "
        "drafts and one token more, cut by `limits`. Afterwards both caches hold at "
        "most the prefix and all committed tokens but the last. `gamma` is passed on "
        "as it is: fitting it to the room is the loop's affair, in exercise 11.",
        (
            "The parts are imported already: drafter.propose, check_proposal, verify, "
            "reject, limits.cut, rollback, drafter.rollback, describe.",
            "The length to roll back to is len(prefix) + len(committed) - 1, for both: "
            "after the cut, not before it.",
        ),
        "stopping.py in your folder: a text can end inside a block",
    ),
    Exercise(
        11,
        "the loop with EOS and budget",
        ("speculative.py:speculative_rounds", "stopping.py:Limits.cut"),
        "A round commits several tokens at once and any of them may be the last: an "
        "EOS in the middle, the budget, the end of the context.",
        "room = max_length - len(prefix); draft min(gamma, room - 1) tokens",
        "speculative_rounds yields rounds, lazily, until a reason ends the text or "
        "there is no room; gamma below 1 is a ValueError; the drafter first forgets "
        "everything. cut(n, new): the tuple of what of `new` may follow n tokens, and "
        "why the text ends there (None: it goes on). The first EOS by place is kept "
        "and is the last token.",
        (
            "First cut to the room, then look for an EOS: an EOS as the last token "
            "allowed is an EOS.",
            "A round commits one token more than it drafts, so drafting more than "
            "room - 1 is wasted; with room 1, draft nothing.",
        ),
        "minispec/exactness/: how all of this is proved at once",
    ),
    Exercise(
        12,
        "expected tokens and the best gamma",
        ("analysis.py:expected_tokens", "analysis.py:best_gamma"),
        "Longer drafts bring more tokens per round but each is less likely to count, "
        "and costs as much as the first. Somewhere lies the best length; if the draft "
        "is poor or slow, it is 0.",
        "E[tokens] = (1 - alpha^(gamma+1)) / (1 - alpha)      (equation 1)\n"
        "speed-up  = E[tokens] / (gamma c + 1)                 (theorem 3.8)\n"
        "(Leviathan et al. 2023, section 3; here verify_cost(gamma) stands for the 1)",
        "expected_tokens(alpha, gamma): exact also at alpha = 1. best_gamma: the "
        "gamma from 0 to `longest` of the highest expected_speedup, of equals the "
        "smallest; 0 means do not speculate. ValueError for alpha outside [0, 1], a "
        "negative gamma, cost or `longest`.",
        (
            "The closed form is 0 / 0 at alpha = 1 and loses digits near it: sum the "
            "series instead.",
            "Start from speed-up 1 at gamma 0 and take a longer draft only where it "
            "is strictly better. _check, _check_alpha and _check_gamma raise for you.",
        ),
        "minispec/commands/plan.py: the same from the command line",
    ),
    Exercise(
        13,
        "prompt lookup",
        ("drafters/ngram.py:copy_continuation",),
        "Text repeats itself. The cheapest draft of all copies what followed the last "
        "time the present words occurred: no model, no cache.",
        "longest n with prefix[-n:] = prefix[i : i + n], i + n < len(prefix); the\n"
        "latest such i; propose prefix[i + n : i + n + gamma]     (Saxena 2023)",
        "[n] to [K], K <= gamma, perhaps 0. Suffix lengths from `longest` down to "
        "`shortest`; the suffix does not match itself, but may overlap its match.",
        (
            "Tensor.unfold(0, n, 1) gives all windows of length n. Leave out the last.",
            "A suffix must be shorter than the prefix: start at min(longest, len - 1).",
        ),
        "draft.py in your folder: `Proposal.certain`, why a copy is still exact",
    ),
)


def exercise(number: int) -> Exercise:
    """The exercise of that number. Raises ValueError if there is none."""
    if not 1 <= number <= len(EXERCISES):
        raise ValueError(f"exercises are 1 to {len(EXERCISES)}, got {number}")
    return EXERCISES[number - 1]


def graded_names(file: str, numbers: frozenset[int] | None = None) -> dict[str, int]:
    """The graded functions of one file: {name: exercise}; of some exercises or all."""
    found = {}
    for one in EXERCISES:
        for function in one.functions:
            where, name = function.split(":")
            if where == file and (numbers is None or one.number in numbers):
                found[name] = one.number
    return found


def graded_files() -> list[str]:
    """All files that hold a graded function, each once."""
    files = [f.split(":")[0] for one in EXERCISES for f in one.functions]
    return list(dict.fromkeys(files))
