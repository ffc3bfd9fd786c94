"""A stop text ends the text at the same place, however the text comes in pieces."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from dataclasses import replace

import hypothesis.strategies as st
import pytest
from hypothesis import given

from minispec.commands.cli import make_parser
from minispec.commands.job import Job, job_from
from minispec.commands.stop_text import StopText
from minispec.commands.streaming import Decode, rounds_of

from support.tiny_pairs import EOS

Cli = Callable[..., tuple[str, str]]
TEXTS = st.text("ab", max_size=12)
STOPS = st.lists(st.text("ab", min_size=1, max_size=4), max_size=3)


def cut(text: str, stops: Collection[str]) -> str:
    """The text before the stop text that is complete first; of several, the longest."""
    ends = [(text.find(stop) + len(stop), -len(stop)) for stop in stops if stop in text]
    return text[: sum(min(ends))] if ends else text


@given(st.lists(TEXTS, max_size=6), STOPS)
def test_pieces_add_up_to_the_text_before_the_stop(
    pieces: list[str], stops: list[str]
) -> None:
    watcher, shown = StopText(stops), ""
    whole = cut("".join(pieces), stops)
    for i, piece in enumerate(pieces):
        shown += "".join(text for text, _ in watcher.push(piece, "plain"))
        so_far = "".join(pieces[: i + 1])
        assert whole.startswith(shown)
        held = len(cut(so_far, stops)) - len(shown)  # no more than has to be
        assert held < max([1, *map(len, stops)])
    shown += "".join(text for text, _ in watcher.flush())
    assert shown == whole
    assert watcher.found == any(stop in "".join(pieces) for stop in stops)


@pytest.fixture(scope="module", params=["model", "ngram", "none"])
def job(request: pytest.FixtureRequest, pair: list[str]) -> Job:
    options = [*pair, "--tokens", "20", "--top-k", "4", "--drafter", request.param]
    return job_from(make_parser().parse_args(["generate", *options]))


@given(st.data())
def test_a_stopped_decode_is_the_whole_one_cut_at_the_same_place(
    job: Job, data: st.DataObject
) -> None:
    """With the same seed: so its distribution is that of the target's text, cut."""
    gamma, seed = data.draw(st.integers(1, 6)), data.draw(st.integers(1, 99))
    job = replace(job, seed=seed, request=replace(job.request, gamma=gamma))

    def decoded(*stops: str) -> Decode:
        decode = Decode(replace(job, stops=stops))
        decode.run(rounds_of(job, speculative=True))
        return decode

    whole = decoded()
    start = data.draw(st.integers(0, len(whole.text) - 1))
    stop = whole.text[start : start + data.draw(st.integers(1, 4))]
    stopped = decoded(stop, "no such text")
    assert stopped.text == whole.text[: whole.text.index(stop)]
    assert stopped.finish_reason == "stop"
    tokens, kept = whole.generation.tokens, stopped.generation.tokens
    assert kept == tokens[: len(kept)]  # its last round ends with the stop text
    text = job.pair.tokenizer.decode(t for t in kept[:-1] if t != EOS)
    assert stop not in text.rstrip("\N{REPLACEMENT CHARACTER}")


def test_the_command_ends_before_the_text_and_says_so(
    cli: Cli, chain: Callable[..., list[str]]
) -> None:
    """It spans tokens and rounds: five bytes, drafts of three."""
    options = [*chain("abcdefgh"), "--prompt", "h", "--gamma", "3"]
    out, err = cli("generate", *options, "--stop", "defgh", "--stop", "zz")
    assert out == "habc\n" and err.endswith("; reached a --stop text\n")
    assert "8 tokens" in err
    out, _ = cli("generate", *options, "--tokens", "5", "--stop", "defgh")
    assert out == "habcde\n"  # only the beginning of one
    out, _ = cli("compare", *options, "--stop", "c", "--repeats", "1", "--json")
    assert re.findall(r'_text": "(\w+)"', out) == ["ab", "ab"]
    assert out.count('finish_reason": "stop"') == 2
