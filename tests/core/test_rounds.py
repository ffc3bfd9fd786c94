"""What a decode leaves behind: views of its rounds that add up."""

from __future__ import annotations

import pytest

from minispec.core.rounds import Generation, Round

ACCEPTED_ALL = Round((1, 2), 2, (1, 2, 0), None)  # the bonus has id 0
REJECTED_FIRST = Round((1, 2), 0, (3,), None)
REJECTED_SECOND = Round((1, 2, 3), 1, (1, 0), None)
EOS_DRAFTED = Round((1, 2, 3), 2, (1, 2), "eos")
EOS_DRAFTED_LAST = Round((1, 2), 2, (1, 2), "eos")
PLAIN = Round((), 0, (3,), "length")


@pytest.mark.parametrize(
    "one, judged, extra",
    [
        (ACCEPTED_ALL, 2, "bonus"),
        (REJECTED_FIRST, 1, "resampled"),
        (REJECTED_SECOND, 2, "resampled"),
        (EOS_DRAFTED, 2, None),  # not the draft after it
        (EOS_DRAFTED_LAST, 2, None),
        (PLAIN, 0, "plain"),
    ],
)
def test_a_round_knows_what_was_judged_and_what_its_last_token_is(
    one: Round, judged: int, extra: str | None
) -> None:
    assert (one.judged, one.extra) == (judged, extra)


def test_a_generation_is_the_sum_of_its_rounds() -> None:
    done = Generation((ACCEPTED_ALL, REJECTED_FIRST, PLAIN, EOS_DRAFTED))
    assert done.tokens == (1, 2, 0, 3, 3, 1, 2) and done.finish_reason == "eos"
    assert (done.target_forwards, done.emitted) == (4, 7)
    assert (done.drafted, done.judged, done.accepted) == (7, 5, 4)
    assert done.acceptance_rate == 4 / 5  # of those judged, not of those drafted
    assert done.tokens_per_target_forward == 7 / 4


def test_acceptance_by_position_is_a_share_of_the_drafting_rounds() -> None:
    """Rounds without drafts do not count, shorter ones count as not accepted."""
    rounds = (ACCEPTED_ALL, REJECTED_FIRST, PLAIN, REJECTED_SECOND, EOS_DRAFTED)
    assert Generation(rounds).acceptance_by_position == (3 / 4, 2 / 4, 0)
    assert Generation((PLAIN,)).acceptance_by_position == ()


def test_nothing_divides_by_zero() -> None:
    nothing, plain = Generation(()), Generation((PLAIN,))
    assert (nothing.tokens, nothing.finish_reason) == ((), "length")
    assert nothing.acceptance_rate is nothing.tokens_per_target_forward is None
    assert plain.acceptance_rate is None and plain.tokens_per_target_forward == 1
    assert Generation((REJECTED_FIRST,)).acceptance_rate == 0
    assert Generation((REJECTED_FIRST,)).finish_reason is None  # interrupted
